package admin_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// remembered is a Diagnosis with one record.
type remembered struct{ from time.Time }

func (r *remembered) History(from time.Time) any {
	r.from = from
	return map[string][]int{"at": {}}
}

func (r *remembered) Spikes() any { return map[string][]int{"spikes": {1}} }

func (r *remembered) Spike(id string) (any, bool) {
	return map[string]string{"id": id}, id == "s1"
}

func (r *remembered) Folded(id string) (string, bool) { return "root;leaf 3\n", id == "s1" }

func TestDiagnosisPages(t *testing.T) {
	const none = "{\n  \"error\": \"there is no such record: /spikes lists the records\"\n}\n"
	for _, c := range []struct {
		target string
		status int
		want   string
	}{
		{"/history", 200, "{\"at\":[]}\n"},
		{"/history?seconds=60", 200, "{\"at\":[]}\n"},
		{"/history?seconds=0", 400, "{\n  \"error\": \"seconds must be a whole number above 0, not \\\"0\\\"\"\n}\n"},
		{"/history?seconds=1m", 400, "{\n  \"error\": \"seconds must be a whole number above 0, not \\\"1m\\\"\"\n}\n"},
		{"/spikes", 200, "{\"spikes\":[1]}\n"},
		{"/spikes/s1", 200, "{\"id\":\"s1\"}\n"},
		{"/spikes/s2", 404, none},
		{"/spikes/s1/folded", 200, "root;leaf 3\n"},
		{"/spikes/s2/folded", 404, none},
	} {
		w := do(t, newHandler(&fake{}), "GET "+c.target, "")
		require.Equal(t, c.status, w.Code, c.target)
		require.Equal(t, c.want, w.Body.String(), c.target)
		require.Equal(t, "no-store", w.Header().Get("Cache-Control"), c.target)
	}
	require.Equal(t, http.StatusMethodNotAllowed, do(t, newHandler(&fake{}), "POST /spikes", "").Code)
}

func TestHistoryReachesBackAsFarAsAsked(t *testing.T) {
	service := &fake{}
	for target, want := range map[string]time.Duration{"/history": 5 * time.Minute, "/history?seconds=60": time.Minute} {
		do(t, newHandler(service), "GET "+target, "")
		require.WithinDuration(t, time.Now().Add(-want), service.from, time.Minute/2, target)
	}
}
