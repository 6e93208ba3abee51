package e2e

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// report is the answer of /check.
type report struct {
	Took     float64   `json:"took_ms"`
	Findings []finding `json:"findings"`
}

type finding struct {
	Level  string `json:"level"`
	Topic  string `json:"topic"`
	Text   string `json:"text"`
	Advice string `json:"advice"`
}

// checked asks sidestep what it finds about the cluster.
func checked(t *testing.T) report {
	t.Helper()
	return inTime(t, func() (r report) {
		require.NoError(t, shared.sidestep.AdminJSON(t.Context(), "/check", &r))
		return r
	})
}

// inTime has a check made until all of its questions are answered in time.
func inTime(t *testing.T, check func() report) report {
	t.Helper()
	for end := time.Now().Add(patience); ; {
		r := check()
		for _, f := range r.Findings {
			t.Log(f.Level, f.Topic, f.Text)
		}
		t.Logf("took %.0f ms", r.Took)
		if !r.late() {
			return r
		}
		require.True(t, time.Now().Before(end), "a question is never answered in time")
	}
}

// find returns the finding whose text matches.
func (r report) find(t *testing.T, pattern string) finding {
	t.Helper()
	for _, f := range r.Findings {
		if regexp.MustCompile(pattern).MatchString(f.Text) {
			return f
		}
	}
	require.Fail(t, "no finding matches "+pattern)
	return finding{}
}

// late reports whether a question was not answered in time: two clusters that are tested side
// by side can take longer. What a check says then is to ask again.
func (r report) late() bool {
	return slices.ContainsFunc(r.Findings, func(f finding) bool {
		return strings.Contains(f.Text, "no answer within")
	})
}

// A cluster without security, nothing wrong with it: what the check asks is
// understood by the engine, and nothing is taken for a problem.
func TestCheck(t *testing.T) {
	placed(t)
	r := checked(t)
	for _, f := range r.Findings {
		if f.Topic != "traffic" { // has what other tests do
			require.NotEqual(t, "problem", f.Level, f.Text)
			require.NotContains(t, f.Text, "could not be read")
			require.NotContains(t, f.Text, "not answered as expected")
		}
	}
	c := shared.Cluster
	require.Contains(t, strings.ToLower(r.find(t, " "+regexp.QuoteMeta(c.Version)+", cluster sidestep-test$").Text), c.Distribution)
	r.find(t, `^all 3 nodes answer at the addresses that they publish$`)
	r.find(t, `^all \d+ kinds of requests that sidestep makes are answered$`)
	r.find(t, `^all 3 nodes have version `+regexp.QuoteMeta(c.Version)+`$`)
	r.find(t, `^3 nodes: 3 with data, 3 that may be elected, 3 that searches may be sent through$`)
	r.find(t, `^the nodes' clocks agree with this one to within \d+ ms$`)
	r.find(t, `adaptive selection is on`)
}
