package admin_test

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"sidestep/internal/admin"
	"sidestep/internal/testkit"
)

// A web page may have its own name resolve to the listener's address.
func TestForeignNamesAreRefused(t *testing.T) {
	access := admin.Access{Open: true, Profiles: true, Hosts: []string{"web-1", "sidestep.example"}}
	for host, status := range map[string]int{
		"127.0.0.1:9211": 200, "127.0.0.1": 200, "10.0.0.7:9211": 200, "[::1]:9211": 200, "[fd00::7]": 200,
		"localhost:9211": 200, "LocalHost": 200, "localhost.:9211": 200,
		"web-1:9211": 200, "sidestep.example": 200, "SIDESTEP.example.:9211": 200,
		"":             200, // no browser leaves it out
		"evil.example": 421, "evil.example:9211": 421, "127.0.0.1.evil.example": 421, "localhost.evil.example": 421, "evil.localhost": 421,
		"web-1.evil.example": 421, "xsidestep.example": 421, "2130706433": 421, "*": 421, ":9211": 421, "evil.example@127.0.0.1": 421,
	} {
		h := newHandlerWith(&fake{mode: "route"}, access)
		for _, line := range []string{"GET /", "GET /metrics", "GET /status", "GET /-/routing", "PUT /-/routing", "GET /debug/pprof/", "GET /ui/index.js", "GET /snapshot"} {
			w := do(t, h, line, `{"mode":"off"}`, "Host", host)
			require.Equal(t, status, w.Code, "%s of %q", line, host)
			if status == http.StatusMisdirectedRequest {
				require.Contains(t, w.Body.String(), "admin.allowed_hosts")
				require.Equal(t, "application/json", w.Header().Get("Content-Type"))
			}
		}
	}
	every := newHandlerWith(&fake{}, admin.Access{Hosts: []string{"*"}})
	require.Equal(t, 200, do(t, every, "GET /status", "", "Host", "evil.example").Code)
}

func TestCertificatesAreForNoForeignName(t *testing.T) {
	h := newHandlerWith(&fake{}, admin.Access{})
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "https://sidestep.monitoring.svc:9211/metrics", http.NoBody)
	r.TLS = &tls.ConnectionState{}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	require.Equal(t, http.StatusOK, w.Code)
}

// Balancers ask for health by names of their own; what is missing is not for all.
func TestHealthIsToldByAnyName(t *testing.T) {
	h := newHandlerWith(&fake{ready: errors.New("es-1 refuses")}, admin.Access{})
	foreign := []string{"Host", "evil.example"}
	require.Equal(t, "healthy\n", do(t, h, "GET /-/healthy", "", foreign...).Body.String())
	w := do(t, h, "GET /-/ready", "", foreign...)
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Equal(t, "not ready\n", w.Body.String())
	require.Equal(t, "not ready: es-1 refuses\n", do(t, h, "GET /-/ready", "").Body.String())
}

// Sidecars reach their relay by the name of a Service, and a page has no token.
func TestASnapshotWithATokenIsToldByAnyName(t *testing.T) {
	const relay = "sidestep-relay:9211"
	free := newHandlerWith(&fake{}, admin.Access{})
	guarded := newHandlerWith(&fake{}, admin.Access{SnapshotToken: func() string { return "opensesame" }})
	for _, line := range []string{"GET /snapshot", "GET /snapshot/target?x=1", "POST /snapshot/uses"} {
		require.Equal(t, http.StatusOK, do(t, free, line, "").Code, line)
		require.Equal(t, http.StatusMisdirectedRequest, do(t, free, line, "", "Host", relay).Code, line)
		require.Equal(t, http.StatusOK, do(t, guarded, line, "", "Host", relay, "Authorization", "Bearer opensesame").Code, line)
		for _, authorization := range []string{"", "Bearer ", "Bearer opensesam", "Basic opensesame", "opensesame"} {
			w := do(t, guarded, line, "", "Host", relay, "Authorization", authorization)
			require.Equal(t, http.StatusUnauthorized, w.Code, line)
			require.Equal(t, `Bearer realm="snapshot"`, w.Header().Get("WWW-Authenticate"))
			require.Contains(t, w.Body.String(), "the token in admin.snapshot_token_file")
			require.NotContains(t, w.Body.String(), "sesam")
		}
	}
}

func TestChangesNeedAToken(t *testing.T) {
	token := func() string { return "opensesame" }
	for name, c := range map[string]struct {
		access        admin.Access
		authorization string
		status        int
		want          string
	}{
		"on loopback":          {admin.Access{Open: true}, "", 200, ""},
		"not on loopback":      {admin.Access{}, "", 403, "set admin.token_file"},
		"none there is":        {admin.Access{}, "Bearer ", 403, "set admin.token_file"},
		"without":              {admin.Access{Token: token}, "", 401, "the token in admin.token_file"},
		"without, on loopback": {admin.Access{Token: token, Open: true}, "", 401, "the token in admin.token_file"},
		"another":              {admin.Access{Token: token}, "Bearer opensesam", 401, "the token in admin.token_file"},
		"not a bearer's":       {admin.Access{Token: token}, "Basic opensesame", 401, "the token in admin.token_file"},
		"the right one":        {admin.Access{Token: token}, "Bearer opensesame", 200, ""},
		"in small letters":     {admin.Access{Token: token}, "bearer opensesame", 200, ""},
		"without a scheme":     {admin.Access{Token: token}, "opensesame", 401, "the token in admin.token_file"},
	} {
		t.Run(name, func(t *testing.T) {
			service := &fake{mode: "route"}
			h := newHandlerWith(service, c.access)
			for _, line := range []string{"PUT /-/routing", "POST /-/reload"} {
				w := do(t, h, line, `{"mode":"off"}`, "Authorization", c.authorization)
				require.Equal(t, c.status, w.Code, line)
				require.Contains(t, w.Body.String(), c.want)
				require.NotContains(t, w.Body.String(), "sesam")
				require.Equal(t, c.status == 401, w.Header().Get("WWW-Authenticate") != "")
			}
			require.Equal(t, c.status == 200, service.reloads == 1 && service.mode == "off")
			require.Equal(t, 200, do(t, h, "GET /-/routing", "").Code, "reading changes nothing")
			require.Equal(t, 200, do(t, h, "POST /snapshot/uses", "").Code, "it has a token of its own")
		})
	}
}

func TestATokenDoesNotLetOtherSitesIn(t *testing.T) {
	h := newHandlerWith(&fake{mode: "route"}, admin.Access{Token: func() string { return "opensesame" }})
	w := do(t, h, "PUT /-/routing", `{"mode":"off"}`, "Authorization", "Bearer opensesame", "Origin", "https://evil.example")
	require.Equal(t, http.StatusForbidden, w.Code)
	w = do(t, h, "PUT /-/routing", `{"mode":"off"}`, "Authorization", "Bearer opensesame", "Origin", "http://127.0.0.1:9211")
	require.Equal(t, http.StatusOK, w.Code)
}

func TestAccessIsThatOfTheMoment(t *testing.T) {
	var access atomic.Pointer[admin.Access]
	access.Store(&admin.Access{})
	h := admin.New(admin.Options{
		Service: &fake{}, Gatherer: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler), Access: func() admin.Access { return *access.Load() },
	})
	require.Equal(t, http.StatusForbidden, do(t, h, "POST /-/reload", "").Code)
	access.Store(&admin.Access{Open: true})
	require.Equal(t, http.StatusOK, do(t, h, "POST /-/reload", "").Code)
}

func TestRefusalsAreLoggedNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log testkit.Log
		h := admin.New(admin.Options{Service: &fake{}, Gatherer: prometheus.NewRegistry(), Logger: slog.New(slog.NewTextHandler(&log, nil))})
		refused := func() int {
			for range 3 {
				require.Equal(t, http.StatusForbidden, do(t, h, "POST /-/reload", "", "Authorization", "Bearer opensesame").Code)
			}
			return strings.Count(log.String(), "admin request refused")
		}
		require.Equal(t, 1, refused())
		time.Sleep(2 * time.Minute)
		require.Equal(t, 2, refused())
		require.NotContains(t, log.String(), "opensesame")
	})
}

func TestProfilesAreOffUnlessSwitchedOn(t *testing.T) {
	h := newHandlerWith(&fake{}, admin.Access{Open: true})
	for _, page := range []string{"", "heap", "goroutine?debug=2", "profile?seconds=1", "trace", "cmdline", "symbol"} {
		w := do(t, h, "GET /debug/pprof/"+page, "")
		require.Equal(t, http.StatusForbidden, w.Code, page)
		require.Contains(t, w.Body.String(), "admin.profiles", page)
	}
}

func TestProfilesAreBounded(t *testing.T) {
	h := newHandler(&fake{})
	for _, page := range []string{
		"profile?seconds=61", "trace?seconds=60.5", "trace?seconds=inf", "trace?seconds=nan", "heap?seconds=3600", "heap?seconds=-1",
		"profile?seconds=x", "profile?seconds=0x7000", "profile?seconds=99999999999999999999",
	} {
		w := do(t, h, "GET /debug/pprof/"+page, "")
		require.Equal(t, http.StatusBadRequest, w.Code, page)
		require.Contains(t, w.Body.String(), "seconds must be a number up to 60", page)
	}
	// net/http/pprof would look into the body of a form, too, and have what is too long for memory written to files.
	body := strings.NewReader("--b\r\nContent-Disposition: form-data; name=\"seconds\"\r\n\r\n3600\r\n--b--\r\n")
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/debug/pprof/heap", body)
	r.Header.Set("Content-Type", "multipart/form-data; boundary=b")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	require.Equal(t, http.StatusOK, w.Code)
	require.NotZero(t, body.Len(), "no body is read")
	require.Equal(t, http.StatusOK, do(t, h, "GET /debug/pprof/trace?seconds=0.01", "").Code)
}

func TestOneProfileAtATime(t *testing.T) {
	h := newHandler(&fake{})
	first := newStuckWriter()
	done := make(chan struct{})
	go func() {
		defer close(done)
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/debug/pprof/goroutine?debug=1", http.NoBody)
		h.ServeHTTP(first, r)
	}()
	<-first.writing
	w := do(t, h, "GET /debug/pprof/heap", "")
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Contains(t, w.Body.String(), "another profile is being taken")
	require.Equal(t, "60", w.Header().Get("Retry-After"))
	close(first.released)
	<-done
	require.Equal(t, http.StatusOK, do(t, h, "GET /debug/pprof/heap", "").Code)
}

// stuckWriter keeps who writes to it until it is released.
type stuckWriter struct {
	*httptest.ResponseRecorder
	begun    sync.Once
	writing  chan struct{} // closed by the first write
	released chan struct{}
}

func newStuckWriter() *stuckWriter {
	return &stuckWriter{ResponseRecorder: httptest.NewRecorder(), writing: make(chan struct{}), released: make(chan struct{})}
}

func (w *stuckWriter) Write(p []byte) (int, error) {
	w.begun.Do(func() { close(w.writing) })
	<-w.released
	return w.ResponseRecorder.Write(p)
}
