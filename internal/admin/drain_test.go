package admin_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/admin"
)

func TestDrain(t *testing.T) {
	for _, c := range []struct {
		body, want string
		length     time.Duration
	}{
		{`{"node":"node-3"}`, `"for": "10m0s"`, 10 * time.Minute},
		{`{"node":"node-3","for":"90s"}`, `"for": "1m30s"`, 90 * time.Second},
		{`{"node":"node-3","for":"0s"}`, `"for": "0s"`, 0},
	} {
		service := &fake{mode: "route"}
		w := do(t, newHandler(service), "PUT /-/drain", c.body)
		require.Equal(t, http.StatusOK, w.Code, w.Body.String())
		require.Contains(t, w.Body.String(), c.want)
		require.NotContains(t, w.Body.String(), "note")
		require.Equal(t, "node-3", service.drained)
		require.Equal(t, c.length, service.drainedFor)
	}
}

// The answer says if a node that is drained is used all the same, and if one that is no longer is left out all the same.
func TestDrainSaysWhatItDoesNotChange(t *testing.T) {
	for _, c := range []struct{ mode, leaving, length, note string }{
		{"route", "drained", "5m", ""},
		{"observe", "drained", "5m", "the mode here is observe: "},
		{"off", "drained", "5m", "the mode here is off: "},
		{"off", "", "0s", ""},
		{"route", "excluded", "0s", "the cluster announces that the node leaves (excluded): "},
		{"route", "drained_at_relay", "0s", "the relay was told that the node leaves: "},
	} {
		w := do(t, newHandler(&fake{mode: c.mode, leaving: c.leaving}), "PUT /-/drain", `{"node":"a","for":"`+c.length+`"}`)
		require.Equal(t, http.StatusOK, w.Code, w.Body.String())
		var told struct{ Mode, Leaving, Note string }
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &told))
		require.Equal(t, []string{c.mode, c.leaving}, []string{told.Mode, told.Leaving})
		require.Equal(t, c.note == "", told.Note == "")
		require.Contains(t, told.Note, c.note)
	}
}

func TestDrainRefusesWhatItDoesNotUnderstand(t *testing.T) {
	for body, want := range map[string]string{
		``:                             "EOF",
		`{}`:                           "node is missing",
		`{"node":"a","for":"long"}`:    "not \\\"long\\\"",
		`{"node":"a","for":"-1s"}`:     "from 0s",
		`{"node":"a","for":"25h"}`:     "to 24h",
		`{"node":"a","until":"later"}`: "unknown field",
		`{"node":"a"}{}`:               "something follows",
	} {
		service := &fake{}
		w := do(t, newHandler(service), "PUT /-/drain", body)
		require.Equal(t, http.StatusBadRequest, w.Code, body)
		require.Contains(t, w.Body.String(), want, body)
		require.Empty(t, service.drained)
	}
	w := do(t, newHandler(&fake{setErr: admin.NoNode("there is no such node")}), "PUT /-/drain", `{"node":"a"}`)
	require.Equal(t, http.StatusNotFound, w.Code)
	w = do(t, newHandler(&fake{setErr: admin.SeveralNodes("there are several")}), "PUT /-/drain", `{"node":"a"}`)
	require.Equal(t, http.StatusConflict, w.Code)
	w = do(t, newHandler(&fake{setErr: errors.New("cannot")}), "PUT /-/drain", `{"node":"a"}`)
	require.Equal(t, http.StatusInternalServerError, w.Code)
	w = do(t, newHandlerWith(&fake{}, admin.Access{}), "PUT /-/drain", `{"node":"a"}`)
	require.Equal(t, http.StatusForbidden, w.Code)
}
