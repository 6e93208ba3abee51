package client

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"charm.land/lipgloss/v2"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden files")

// golden compares text with a file in testdata.
func golden(t *testing.T, name, text string) {
	t.Helper()
	file := filepath.Join("testdata", name+".txt")
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), text)
}

func TestMain(m *testing.M) {
	time.Local = time.UTC // golden files show times of day
	os.Exit(m.Run())
}

func number(v float64) *float64 { return &v }

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// sample is a status some seconds after noon.
func sample(seconds int64) status {
	at := noon.Add(time.Duration(seconds) * time.Second)
	since := noon.Add(-75 * time.Second)
	s := status{
		At: at, Version: "1.2.3", Mode: "route",
		Requests:  1000 + 200*seconds,
		Decisions: map[string]int64{"ranked": 400 + 60*seconds, "no_outlier": 500 + 100*seconds, "no_gain": 20 * seconds, "not_steerable": 100 + 20*seconds, "one_shard": 50 * seconds, "one_slot": 5 * seconds},
		Failovers: map[string]int64{"rejected": 3 + seconds, "transport": 1},
		Hedges:    map[string]int64{"won": 2, "lost": 1, "over_budget": 9 * seconds},
		Nodes: []node{
			{ID: "a", Name: "es-1", State: "fine", Rank: number(4.25), Parts: parts{ResponseTime: 4.1, ServiceTime: 3.9}, Outstanding: 2, Searches: 100 * seconds, Share: .4, Coordinates: number(.25), PollAge: number(.1)},
			{ID: "b", Name: "es-2", State: "fine", Rank: number(123456), Parts: parts{ResponseTime: 5.5, ServiceTime: 123.4, Queue: 2.5}, Outstanding: 12, Searches: 80 * seconds, Failures: 123456, Share: .59, Coordinates: number(.75), PollAge: number(.2)},
			{ID: "c", Name: "opensearch-data-zone-b-0", State: "slow", Why: "response time 310 ms, limit 42 ms", Since: &since, Rank: number(310), Parts: parts{ResponseTime: 310, ServiceTime: 4}, Searches: 5, Share: .01, Coordinates: number(0), PollAge: number(.3)},
			{ID: "d", Name: "opensearch-data-zone-b-1", State: "unknown"},
		},
		Spikes: []spike{{ID: "17", Node: "opensearch-data-zone-b-0", Began: since, State: "slow", Cause: "network_transport", Summary: "the way to its transport is slow: 310 ms, others 4 ms"}},
	}
	s.Ready.OK = true
	s.Engine.Name, s.Engine.Version = "opensearch", "3.6.0"
	return s
}

// leavingNode is a status in which a node is about to leave.
func leavingNode(s status) status {
	s.Nodes[1].Leaving = "excluded"
	return s
}

func TestScreen(t *testing.T) {
	both := trail{}.add(sample(0)).add(sample(5))
	for _, c := range []struct {
		name string
		view view
	}{
		{"top-80x24", view{trail: both, sort: columnState, width: 80, height: 24}},
		{"top-wide", view{trail: both, sort: columnState, width: 140, height: 24}},
		{"top-once", view{trail: both, sort: columnState}},
		{"top-small", view{trail: both, sort: columnState, width: 80, height: 9}},
		{"top-by-response-reversed", view{trail: both, sort: 3, reverse: true, width: 80, height: 24}},
		{"top-first", view{trail: both[:1], sort: 0, width: 80, height: 24}},
		{"top-leaving", view{trail: trail{}.add(leavingNode(sample(5))), sort: columnState, width: 80, height: 24}},
		{"top-lost", view{trail: both, sort: columnState, width: 80, height: 24, problem: "nothing listens on 127.0.0.1:9211"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			lines := c.view.render()
			golden(t, c.name, strings.Join(lines, "\n")+"\n")
			if c.view.width == 0 {
				return
			}
			require.Less(t, len(lines), c.view.height, "the last line is for the keys")
			for _, line := range append(lines, c.view.keys()) {
				require.LessOrEqual(t, utf8.RuneCountInString(line), c.view.width, line)
			}
		})
	}
}

func TestScreenOfEveryStrangeSize(t *testing.T) {
	both := trail{}.add(sample(0)).add(sample(5))
	for width := 1; width < 90; width += 7 {
		for height := 1; height < 30; height += 3 {
			for offset := range 9 {
				v := view{trail: both, width: width, height: height, offset: offset}
				for _, line := range v.render() {
					require.LessOrEqual(t, utf8.RuneCountInString(line), width)
				}
			}
		}
	}
	require.NotEmpty(t, view{trail: trail{}.add(status{At: noon})}.render(), "no nodes yet")
}

// Dedicated managers are nothing to look into.
func TestNodesThatAreNotPolled(t *testing.T) {
	client, _ := answering(t, `{"nodes":[{"name":"m-1","state":"unknown","not_polled":true},{"name":"es-1","state":"fine"},{"name":"es-2","state":"fine"}]}`)
	s, err := client.status(t.Context())
	require.NoError(t, err)
	require.Equal(t, "nodes: 2 fine, 1 not polled", states(s.Nodes))
	lines := view{trail: trail{s}, sort: columnState}.table(s, rates{})
	require.Len(t, lines, 3)
	require.Regexp(t, "^m-1 +not polled ", lines[2])
	s.Nodes[1].State = "slow"
	require.Equal(t, "nodes: 1 slow, 1 fine, 1 not polled", states(s.Nodes))
	require.Equal(t, "nodes: none known", states(nil))
}

// A spike that lasts is told of, though others began and ended since.
func TestTheSpikeThatLastsIsTold(t *testing.T) {
	s := sample(0)
	over := noon.Add(-time.Second)
	lasts := s.Spikes[0]
	s.Spikes = []spike{{Node: "es-2", Began: noon.Add(-5 * time.Second), Ended: &over, Cause: "gc_pause"}, lasts, {Node: "es-1", Began: noon.Add(-time.Hour)}}
	require.Equal(t, "spike: opensearch-data-zone-b-0, for 1 min 15 s now (and 1 more): the way to its transport is slow: 310 ms, others 4 ms", view{}.spikeLine(s))
	s.Spikes = s.Spikes[:1]
	require.Equal(t, "spike: es-2, for 4 s, over since 1 s: gc_pause", view{}.spikeLine(s))
}

// Below a node stands what it is known by to be in its state.
func TestWhyANodeIsInItsStateIsTold(t *testing.T) {
	s := sample(0)
	require.NoError(t, json.Unmarshal([]byte(`{"nodes":[{"id":"a","name":"es-1","state":"unreachable","why":"connection refused"}]}`), &s))
	require.Contains(t, strings.Join(view{trail: trail{s}}.render(), "\n"), "\n  connection refused")
}

func TestStyledScreenSaysTheSame(t *testing.T) {
	plainView := view{trail: trail{}.add(sample(0)), sort: columnState, width: 80, height: 24}
	styled := plainView
	styled.style = func(l look, s string) string { return "<" + s + ">" }
	require.Equal(t, plainView.render(), strings.Split(strings.NewReplacer("<", "", ">", "").Replace(strings.Join(styled.render(), "\n")), "\n"))
}

// Node names come from the cluster.
func TestNothingMovesTheCursor(t *testing.T) {
	s := sample(0)
	s.Nodes[0].Name, s.Nodes[2].Why, s.Spikes[0].Summary = "a\x1b[2J", "b\r\n\x07", "c\u009b1A"
	for _, line := range (view{trail: trail{}.add(s), width: 80, height: 24}).render() {
		require.NotContains(t, line, "\x1b")
		require.NotContains(t, line, "\r")
		require.NotContains(t, line, "\n")
		require.NotContains(t, line, "\u009b")
	}
}

func TestRates(t *testing.T) {
	var seen trail
	require.False(t, seen.add(sample(0)).rates().known)
	for second := range int64(12) {
		seen = seen.add(sample(second))
	}
	require.Len(t, seen, 6, "no more than the window needs")
	r := seen.rates()
	require.True(t, r.known)
	require.InDelta(t, 200, r.requests, 1e-9)
	require.InDelta(t, 1, r.failovers, 1e-9)
	require.Zero(t, r.hedges, "what was not made is none")
	require.InDelta(t, 60./180, r.steered, 1e-9)
	require.InDelta(t, 120./180, r.left, 1e-9)
	require.Equal(t, map[string]float64{"a": 100, "b": 80, "c": 0, "d": 0}, r.searches)

	restarted := sample(12)
	restarted.Requests = 3
	require.Len(t, seen.add(restarted), 1)
	require.Len(t, seen.add(sample(11)), 1, "a clock that was set back")
}

func TestRatesInModeObserve(t *testing.T) {
	observe := func(seconds int64) status {
		s := sample(seconds)
		s.Mode = "observe"
		s.Decisions = map[string]int64{"observe": 100 * seconds}
		s.Observed = map[string]int64{"ranked": 75 * seconds, "no_outlier": 15 * seconds, "no_gain": 10 * seconds}
		return s
	}
	seen := trail{}.add(observe(1)).add(observe(2))
	require.InDelta(t, .75, seen.rates().steered, 1e-9)
	require.Contains(t, strings.Join(view{trail: seen}.render(), "\n"), "would steer 75 %, left to engine 25 %")
}

func TestKeys(t *testing.T) {
	v := view{trail: trail{}.add(sample(0)), sort: columnState, height: frame + 2}
	press := func(keys ...string) view {
		at := v
		for _, key := range keys {
			at = at.pressed(key)
		}
		return at
	}
	require.Equal(t, 0, press("left").sort)
	require.Equal(t, len(columns())-1, press("left", "left").sort)
	require.Equal(t, columnState, press("right", "S").sort)
	require.True(t, press("r").reverse)
	require.True(t, press("p").paused)
	require.False(t, press("p", "space").paused)
	require.Equal(t, 0, press("up").offset)
	lines := len(v.table(v.trail.latest(), v.trail.rates()))
	require.Equal(t, lines-2, press("pgdown", "pgdown").offset, "the last two lines are shown")
	require.Equal(t, lines-3, press("pgdown", "pgdown", "up").offset)
	v.height = 0
	require.Equal(t, 0, press("down").offset, "all are shown")
	require.Equal(t, 0, press("down", "down", "home").offset)

	paused := press("p")
	require.Len(t, paused.told(news{status: sample(1)}).trail, 1)
	require.Equal(t, "gone", v.told(news{err: os.ErrNotExist}).told(news{err: errorText("gone")}).problem)
	require.Empty(t, v.told(news{err: os.ErrNotExist}).told(news{status: sample(1)}).problem)
}

type errorText string

func (e errorText) Error() string { return string(e) }

func TestFigures(t *testing.T) {
	for v, want := range map[float64]string{0: "0.0", .04: "0.0", 4.25: "4.2", 99.94: "99.9", 99.96: "100", 12345.6: "12346", 123456: "123k", 12345678: "1.2e+07", -5: "-5.0"} {
		require.Equal(t, want, figure(v))
		require.LessOrEqual(t, len(figure(v)), 7)
	}
	for n, want := range map[int64]string{0: "0", 99999: "99999", 123456: "123k", 123456789: "123M"} {
		require.Equal(t, want, whole(n))
	}
	for d, want := range map[time.Duration]string{
		-time.Second: "0 s", 5500 * time.Millisecond: "6 s", 75 * time.Second: "1 min 15 s", 90 * time.Minute: "1 h 30 min", 75 * time.Hour: "3 days",
	} {
		require.Equal(t, want, age(d))
	}
}

func TestBulksOnTheScreen(t *testing.T) {
	s := sample(0)
	require.Empty(t, bulks(s))
	require.NoError(t, json.Unmarshal([]byte(`{"bulks":{"mode":"route","results":{"one_shard":7,"mixed":2,"passed":1},"skew":0}}`), &s))
	require.Equal(t, " · bulks 7 one shard, 2 mixed, 1 passed", bulks(s))
	s.Bulks.Mode, s.Bulks.Index, s.Bulks.Skew = "observe", "logs-1", 1.256
	require.Equal(t, " · bulks observe: 7 one shard, 2 mixed, 1 passed, skew 1.26", bulks(s))
}

// Characters of East Asia take two columns of a terminal, and some that are added to others none.
func TestNamesOfAnyScriptKeepTheColumns(t *testing.T) {
	s := sample(5)
	s.Nodes[0].Name, s.Nodes[1].Name, s.Nodes[2].Name = "検索ノード-1", "Knoten-gro\u0308ßer-2", strings.Repeat("節点", 30)+"-3"
	for width := 1; width < 200; width += 9 {
		v := view{trail: trail{}.add(s), sort: columnState, width: width}
		for _, line := range v.render() {
			require.LessOrEqual(t, lipgloss.Width(line), width, line)
		}
	}
	lines := view{trail: trail{}.add(s), width: 120}.render()
	title := lines[4]
	for _, name := range []string{"検索ノード-1", "Knoten-gro\u0308ßer-2", "節点-3"} {
		row := lines[slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, name+" ") })]
		before, _, _ := strings.Cut(row, " fine ")
		before, _, _ = strings.Cut(before, " slow ")
		require.Equal(t, strings.Index(title, "STATE")-1, lipgloss.Width(before), row)
	}
	var out strings.Builder
	g := newGrid(&out, "NODE", "STATE")
	g.row("検索", "fine")
	g.row("es-1", "slow")
	g.flush()
	require.Equal(t, "NODE  STATE\n検索  fine\nes-1  slow\n", out.String())
}
