package main

import (
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	loadgen "sidestep/internal/sim/load"
	"sidestep/test/harness"
)

func TestParse(t *testing.T) {
	o, err := parse([]string{"-engine", "elasticsearch", "-loads", "0.5,1.5", "-out", "x", "-seed", "7"})
	require.NoError(t, err)
	require.Equal(t, []float64{0.5, 1.5}, o.loads)
	require.Equal(t, o.deadline, o.patience, "the client leaves at its deadline")
	require.Equal(t, "bin/admission -engine elasticsearch -loads 0.5,1.5 -seed 7", o.command)
	for _, bad := range [][]string{{"-engine", "solr"}, {"-rounds", "0"}, {"-turn", "0s"}, {"-loads", "x"}, {"-loads", "0"}, {"more"}, {"-arms", "direct,of"}, {"-variants", "auto=a.b:c"}} {
		_, err := parse(bad)
		require.Error(t, err, bad)
	}
}

func TestFindArms(t *testing.T) {
	names := func(o options) []string {
		arms, err := o.findArms(t.Context(), t.Logf)
		require.NoError(t, err)
		var names []string
		for _, a := range arms {
			names = append(names, a.name)
			require.Equal(t, a.name == armDirect || a.name == armControl, a.direct(), a.name)
		}
		return names
	}
	require.Equal(t, []string{"direct", "control", "off", "auto", "target"}, names(options{Measured: harness.Measured{Sidestep: "true"}}))
	require.Equal(t, []string{"direct", "control", "off"}, names(options{Measured: harness.Measured{Sidestep: "false"}}), "it does not know the keys")
	require.Equal(t, []string{"direct", "auto", "x"}, names(options{Measured: harness.Measured{Sidestep: "true"}, arms: "auto,direct", variants: "x=a.b:c"}))
	_, err := options{Measured: harness.Measured{Sidestep: "true"}, arms: "off"}.findArms(t.Context(), t.Logf)
	require.ErrorContains(t, err, "want direct")
	_, err = options{Measured: harness.Measured{Sidestep: "false"}, variants: "x=a.b:c"}.findArms(t.Context(), t.Logf)
	require.Error(t, err)
}

func TestRelay(t *testing.T) {
	o := options{Measured: harness.Measured{Sidestep: "true"}, arms: "relay,direct"}
	arms, err := o.findArms(t.Context(), t.Logf)
	require.NoError(t, err)
	require.Equal(t, []arm{{name: armDirect}, {name: armRelay}}, arms)
	require.False(t, arms[1].direct())
	conf, err := configureRelay("127.0.0.1:1", []string{"http://127.0.0.1:2", "http://127.0.0.1:3"})
	require.NoError(t, err)
	require.Contains(t, conf, "  bind 127.0.0.1:1\n")
	require.Contains(t, conf, "  balance roundrobin\n  server n0 127.0.0.1:2\n  server n1 127.0.0.1:3\n")
}

func TestNotAccepted(t *testing.T) {
	const table = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:7B47 00000000:0000 0A 00000000:0000001F 00:00000000 00000000     0        0 1 1 0 100 0 0 10 0
   1: 0100007F:7B48 00000000:0000 0A 00000000:00000002 00:00000000 00000000     0        0 2 1 0 100 0 0 10 0
   2: 0100007F:7B47 0100007F:B1F2 08 00000000:000000D2 00:00000000 00000000     0        0 3 1 0 20 4 30 10 -1
`
	n, err := notAccepted(table, map[string]bool{"7B47": true})
	require.NoError(t, err)
	require.Equal(t, 31.0, n, "what other nodes and connections hold does not count")
	_, err = notAccepted("0: 0:1 0:0 0A 0:x\n", map[string]bool{"1": true})
	require.Error(t, err)
}

// turnOf is a turn with so many searches answered in time.
func turnOf(good int64) turn {
	return turn{result: &loadgen.Result{Sent: 200, OK: good, InTime: good}, length: time.Second, sent: 300, counters: counters{queries: 1500, opened: 60, cpu: []float64{1, 2}}}
}

func TestReport(t *testing.T) {
	tallies := func(off int64) []*tally {
		return []*tally{
			{arm: armDirect, turns: []turn{turnOf(100), turnOf(104)}},
			{arm: armControl, turns: []turn{turnOf(100), turnOf(102)}},
			{arm: armOff, turns: []turn{turnOf(off), turnOf(off)}},
		}
	}
	r := &report{options: options{Measured: harness.Measured{Engine: "opensearch", Out: t.TempDir()}, loads: []float64{0.5, 1.5}}, capacity: 100, loads: []*level{
		{load: 0.5, rate: 50, arms: tallies(10)}, {load: 1.5, rate: 150, arms: tallies(100)}, {load: 2, rate: 200, arms: tallies(30)},
	}}
	verdicts := r.verdicts()
	require.Len(t, verdicts, 4, "below 0.8 nothing is judged")
	require.Contains(t, verdicts[0], "1.5 × capacity: held: goodput of off to direct 0.98")
	require.Contains(t, verdicts[1], "1.5 × capacity: missed: p99 of off to direct , at most", "no time was measured")
	require.Contains(t, verdicts[2], "2 × capacity: missed: goodput of off to direct 0.29")
	require.NoError(t, r.write(t.Logf))
	text, err := os.ReadFile(r.path(".csv"))
	require.NoError(t, err)
	require.Contains(t, string(text), "100.0,1.5,off,1,100,0,0,0,0,0,0,0,5,1,0.2,10,0,0,0,0,0\n")
	for _, suffix := range []string{".md", ".svg"} {
		require.FileExists(t, r.path(suffix))
	}
}

func TestSharesAreOfWhatWasSent(t *testing.T) {
	one := turn{
		sent:     10,
		result:   &loadgen.Result{Sent: 10, OK: 4, Refused: 1, TimedOut: 2, Partial: 3},
		counters: counters{queries: 60, opened: 4, rejected: 7},
		doing:    harness.Doing{harness.DoesHedges: {"lost": 1}, harness.DoesFailovers: {"partial": 4}},
	}
	r := &report{capacity: 100}
	text := r.section(&level{load: 0.5, rate: 50, arms: []*tally{{arm: armDirect, turns: []turn{one}}}})
	require.Contains(t, text, "|  | 0.100 | 0.200 | 0.300 | 7 | 6.00 | 1.500 | 0.400 |")
	require.Contains(t, text, "direct did: hedges lost 1; failovers partial 4.")
}

func TestFloodArms(t *testing.T) {
	o, err := parse([]string{"-flood", "1", "-flood-rate", "20", "-loads", "0.3", "-arms", "direct,auto,rate", "-out", "x", "-seed", "7"})
	require.NoError(t, err)
	require.Equal(t, "bin/admission -arms direct,auto,rate -flood 1 -flood-rate 20 -loads 0.3 -seed 7", o.command)
	o.Sidestep = "true"
	arms, err := o.findArms(t.Context(), t.Logf)
	require.NoError(t, err)
	var names []string
	configs := map[string]string{}
	for _, a := range arms {
		names, configs[a.name] = append(names, a.name), a.config
		require.Equal(t, strings.HasSuffix(a.name, alone), a.alone, a.name)
		require.Equal(t, strings.HasPrefix(a.name, armDirect), a.direct(), a.name)
	}
	require.Equal(t, []string{"direct", "auto", "rate", "direct alone", "auto alone"}, names)
	require.Contains(t, configs[armRate], "rate: 20")
	require.Contains(t, configs[armAuto], "weight:")
	require.NotContains(t, configs[armAuto], "rate:")
	for _, bad := range [][]string{{"-flood", "-1"}, {"-flood", "1", "-flood-rate", "0"}, {"-arms", "direct,rate"}} {
		_, err := parse(bad)
		require.Error(t, err, bad)
	}
}

// slowly is a transport that answers each search after the same time.
type slowly time.Duration

func (d slowly) RoundTrip(*http.Request) (*http.Response, error) {
	time.Sleep(time.Duration(d))
	body := `{"timed_out":false,"_shards":{"total":1,"successful":1,"skipped":0,"failed":0}}`
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(body))}, nil
}

// resultOf is a load of searches that all take so long.
func resultOf(t *testing.T, took time.Duration) (result *loadgen.Result) {
	synctest.Test(t, func(t *testing.T) {
		var err error
		result, err = loadgen.Run(t.Context(), loadgen.Options{Targets: []string{"http://127.0.0.1:1"}, Rate: 10, Duration: time.Second, Deadline: time.Second, Transport: slowly(took)})
		require.NoError(t, err)
	})
	return result
}

func TestFloodReport(t *testing.T) {
	beside := func(took time.Duration, answered int64) *tally {
		one := turnOf(100)
		one.result = resultOf(t, took)
		one.flood = flooded{sent: 100, answered: answered, refused: 25, took: time.Second}
		return &tally{turns: []turn{one, one}}
	}
	l := &level{load: 0.3, arms: []*tally{beside(90*time.Millisecond, 60), beside(400*time.Millisecond, 9), beside(100*time.Millisecond, 0)}}
	for i, name := range []string{armAuto, armRate, armAuto + alone} {
		l.arms[i].arm = name
	}
	r := &report{options: options{flood: 1, floodRate: 10}, floodCapacity: 50, loads: []*level{l}}
	verdicts := r.judgeFlood(l)
	require.Len(t, verdicts, 2)
	require.Contains(t, verdicts[0].String(), "held: p99 of auto beside the flood to alone 0.90")
	require.Contains(t, verdicts[1].String(), "missed: 9.0 searches of the flood answered a second")
	table := r.floodTable(l)
	require.Contains(t, table, "| auto | 100 | 90 |")
	require.Contains(t, table, "| rate | 100 | 400 |", "it is compared with auto")
	require.NotContains(t, table, "| auto alone |")
	require.Contains(t, table, "| 60.0 | 1.20 | 0.250 |")
	require.InDelta(t, 90, mean(l.arms[0].turns[0]), 0.1)
}
