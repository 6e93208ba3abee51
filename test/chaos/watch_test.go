package chaos

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/test/harness"
)

// says is a surface that says one thing after another, each for a second.
func says(name string, each ...[]Claim) Surface {
	began := time.Now()
	return Surface{Name: name, Look: func(context.Context, time.Time) ([]Claim, error) {
		return each[min(int(time.Since(began)/time.Second), len(each)-1)], nil
	}}
}

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := Claim{Record: "0", Node: "node-1", Cause: "pause"}
		first := Claim{Record: "1", Node: "node-1", Cause: "unknown"}
		wrong := Claim{Record: "1", Node: "node-1", Cause: "gc_pause"}
		right := Claim{Record: "1", Node: "node-1", Cause: "pause", Text: "it stood still"}
		other := Claim{Record: "2", Node: "node-2", Cause: "gc_pause"}
		w := Watch{Node: "node-1", Right: []string{"pause"}, Limit: 10 * time.Second, Surfaces: []Surface{
			says("sure", []Claim{old}, []Claim{old, first}, []Claim{old, first, wrong, other}, []Claim{right, old}),
			says("vague", []Claim{old}, []Claim{old, {Node: "node-1"}}),
			says("mistaken", []Claim{old}, []Claim{other}),
			{Name: "broken", Look: func(context.Context, time.Time) ([]Claim, error) { return nil, nil }},
		}}
		require.NoError(t, w.Before(t.Context()))
		broken := errors.New("not there")
		w.Surfaces[3].Look = func(context.Context, time.Time) ([]Claim, error) { return nil, broken }
		trial := &Trial{Fault: Fault{Right: w.Right}, Node: w.Node, Limit: 5 * time.Second, Findings: w.Run(t.Context(), time.Now())}

		sure := trial.Findings[0]
		require.Equal(t, time.Second, sure.Node)
		require.Equal(t, 3*time.Second, sure.Cause)
		require.Equal(t, "it stood still", sure.Text)
		require.Equal(t, []string{"gc_pause", "node-2 gc_pause"}, sure.Others)
		require.Equal(t, []string{
			"sure also named node-2 gc_pause", "vague did not name pause of node-1",
			"mistaken did not name node-1", "mistaken also named node-2 gc_pause", "broken: not there",
		}, trial.Wrong())
		trial.Limit = 2 * time.Second
		require.Equal(t, "sure named it after 3.0 s only", trial.Wrong()[0])
		require.Contains(t, trial.String(), "after 1.0 s     after 3.0 s      it stood still  gc_pause, node-2 gc_pause")
		require.Contains(t, trial.String(), "not there")
	})
}

func TestBeforeTellsWhatCannotBeRead(t *testing.T) {
	w := Watch{Surfaces: []Surface{{Name: "page", Look: func(context.Context, time.Time) ([]Claim, error) { return nil, errors.New("gone") }}}}
	require.EqualError(t, w.Before(t.Context()), "page: gone")
}

func TestChoose(t *testing.T) {
	all, err := Choose("")
	require.NoError(t, err)
	require.Len(t, all, 5)
	some, err := Choose("queue,cpu")
	require.NoError(t, err)
	require.Equal(t, "cpu", some[0].Name)
	require.Equal(t, "queue", some[1].Name)
	_, err = Choose("cpu,fire")
	require.EqualError(t, err, `no fault "fire": want some of cpu, pause, merge, transport, queue`)
}

func TestAnnotations(t *testing.T) {
	found, err := annotations("../../deploy/grafana/sidestep.json")
	require.NoError(t, err)
	require.Contains(t, found["Node ejected or unresponsive"], `sidestep_node_state{job=~".+", instance=~".+", node=~".+"`)
	for _, expr := range found {
		require.NotContains(t, expr, "$")
	}
	empty := filepath.Join(t.TempDir(), "empty.json")
	require.NoError(t, os.WriteFile(empty, []byte(`{"annotations":{"list":[{"name":"x","target":{"expr":"up"}}]}}`), 0o600))
	_, err = annotations(empty)
	require.Error(t, err)
}

func TestCommandsTellWhatIsWrong(t *testing.T) {
	stage := &Stage{Stage: harness.Stage{Binary: "false"}, Sidestep: &harness.Front{AdminURL: "http://127.0.0.1:1"}}
	_, err := stage.Top().Look(t.Context(), time.Now())
	require.ErrorContains(t, err, "sidestep top: exit status 1")
	_, err = stage.Explain().Look(t.Context(), time.Now())
	require.ErrorContains(t, err, "sidestep explain: exit status 1")
}
