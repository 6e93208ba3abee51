package admin_test

import (
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
		service := &fake{}
		w := do(t, newHandler(service), "PUT /-/drain", c.body)
		require.Equal(t, http.StatusOK, w.Code, w.Body.String())
		require.Contains(t, w.Body.String(), c.want)
		require.Equal(t, "node-3", service.drained)
		require.Equal(t, c.length, service.drainedFor)
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
	w = do(t, newHandler(&fake{setErr: errors.New("cannot")}), "PUT /-/drain", `{"node":"a"}`)
	require.Equal(t, http.StatusInternalServerError, w.Code)
	w = do(t, newHandlerWith(&fake{}, admin.Access{}), "PUT /-/drain", `{"node":"a"}`)
	require.Equal(t, http.StatusForbidden, w.Code)
}
