package admin_test

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"sidestep/internal/admin"
)

// fake is a Service that remembers what it was told.
type fake struct {
	ready      error
	stopping   bool
	reloadErr  error
	setErr     error
	drained    string
	drainedFor time.Duration
	leaving    string
	nodes      any
	mode       string
	reloads    int
	question   admin.Question
	remembered
	asked atomic.Int64 // how often Status was
}

func (f *fake) Ready() error  { return f.ready }
func (f *fake) Serving() bool { return !f.stopping }
func (f *fake) Nodes() any    { return f.nodes }
func (f *fake) Mode() string  { return f.mode }

func (f *fake) Status() admin.Status {
	f.asked.Add(1)
	return admin.Status{Mode: f.mode, Nodes: f.nodes, Decisions: map[string]int64{"<ranked>": 7}}
}

func (f *fake) Check(context.Context) any { return map[string]string{"level": "ok"} }

func (f *fake) Explain(q admin.Question) (any, error) {
	f.question = q
	if q.Operation == "bulk" {
		return nil, errors.New("unknown operation")
	}
	return map[string]string{"target": q.Target}, nil
}

func (f *fake) Slow(limit int) any { return []int{limit} }

func (f *fake) SetMode(mode string) error {
	if f.setErr == nil {
		f.mode = mode
	}
	return f.setErr
}

func (f *fake) Drain(node string, length time.Duration) (admin.Drained, error) {
	if f.setErr == nil {
		f.drained, f.drainedFor = node, length
	}
	return admin.Drained{Mode: f.mode, Leaving: f.leaving}, f.setErr
}

func (f *fake) Reload() error {
	f.reloads++
	return f.reloadErr
}

// newHandler returns the listener's handler on loopback.
func newHandler(service *fake) http.Handler {
	return newHandlerWith(service, admin.Access{Open: true, Profiles: true})
}

func newHandlerWith(service *fake, access admin.Access) http.Handler {
	registry := prometheus.NewRegistry()
	promauto.With(registry).NewCounter(prometheus.CounterOpts{Name: "sidestep_test_total", Help: "A counter."}).Inc()
	return admin.New(admin.Options{
		Service:  service,
		Access:   func() admin.Access { return access },
		Gatherer: registry,
		Logger:   slog.New(slog.DiscardHandler),
		Version:  "1.2.3<b>",
		Switches: map[string]admin.Switch{
			"routing": {Modes: []string{"route", "observe", "off"}, Get: service.Mode, Set: service.SetMode},
		},
		Snapshots: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, r.URL.RequestURI())
		}),
	})
}

// do makes one request, of loopback; line is its method and target.
func do(t *testing.T, h http.Handler, line, body string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	method, target, _ := strings.Cut(line, " ")
	r := httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
	r.Host = "127.0.0.1:9211"
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" { // which is no header to net/http
			r.Host = headers[i+1]
			continue
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestPages(t *testing.T) {
	for _, c := range []struct {
		name, method, target, body string
		service                    *fake
		status                     int
		want                       string
	}{
		{name: "healthy", method: "GET", target: "/-/healthy", status: 200, want: "healthy\n"},
		{name: "serving", method: "GET", target: "/-/serving", status: 200, want: "serving\n"},
		{name: "stopping", method: "GET", target: "/-/serving", service: &fake{stopping: true}, status: 503, want: "stopping\n"},
		{name: "ready", method: "GET", target: "/-/ready", status: 200, want: "ready\n"},
		{
			name: "not ready", method: "GET", target: "/-/ready",
			service: &fake{ready: errors.New("no node answers")}, status: 503, want: "not ready: no node answers\n",
		},
		{
			name: "nodes", method: "GET", target: "/nodes",
			service: &fake{nodes: []map[string]string{{"name": "<a>"}}}, status: 200,
			want: "[\n  {\n    \"name\": \"<a>\"\n  }\n]\n",
		},
		{
			name: "not JSON", method: "GET", target: "/nodes", service: &fake{nodes: math.NaN()}, status: 500,
			want: "cannot encode the page: json: unsupported value: NaN\n",
		},
		{
			name: "explain", method: "GET", target: "/explain?target=logs-*,-logs-old&routing=x", status: 200,
			want: "{\n  \"target\": \"logs-*,-logs-old\"\n}\n",
		},
		{
			name: "explain misspelt", method: "GET", target: "/explain?index=logs", status: 400,
			want: "{\n  \"error\": \"parameter \\\"index\\\" is unknown, or given twice\",\n  \"valid\": [\n    \"bulk\",\n    \"id\",\n    \"opaque_id\",\n    \"operation\",\n    \"preference\",\n    \"routing\",\n    \"target\",\n    \"user\"\n  ]\n}\n",
		},
		{
			name: "explain what cannot be read", method: "GET", target: "/explain?target=logs-%zz", status: 400,
			want: "{\n  \"error\": \"the parameters cannot be read: invalid URL escape \\\"%zz\\\"\"\n}\n",
		},
		{
			name: "explain a bulk and a search", method: "GET", target: "/explain?bulk=logs&routing=x", status: 400,
			want: "{\n  \"error\": \"bulk is the name of an index, and no other parameter goes with it\"\n}\n",
		},
		{
			name: "explain a bulk for nothing", method: "GET", target: "/explain?bulk=", status: 400,
			want: "{\n  \"error\": \"bulk is the name of an index, and no other parameter goes with it\"\n}\n",
		},
		{
			name: "explain what cannot be", method: "GET", target: "/explain?operation=bulk", status: 400,
			want: "{\n  \"error\": \"unknown operation\"\n}\n",
		},
		{name: "slow", method: "GET", target: "/slow", status: 200, want: "{\"slow\":[50]}\n"},
		{name: "slow, some", method: "GET", target: "/slow?limit=3", status: 200, want: "{\"slow\":[3]}\n"},
		{
			name: "slow, none", method: "GET", target: "/slow?limit=0", status: 400,
			want: "{\n  \"error\": \"limit must be a whole number above 0, not \\\"0\\\"\"\n}\n",
		},
		{name: "check", method: "GET", target: "/check", status: 200, want: "{\n  \"level\": \"ok\"\n}\n"},
		{name: "mode", method: "GET", target: "/-/routing", service: &fake{mode: "observe"}, status: 200, want: "{\n  \"mode\": \"observe\"\n}\n"},
		{name: "switch", method: "PUT", target: "/-/routing", body: `{"mode":"off"}`, status: 200, want: "{\n  \"mode\": \"off\"\n}\n"},
		{name: "reload", method: "POST", target: "/-/reload", status: 200, want: "{\n  \"reloaded\": true\n}\n"},
		{
			name: "bad reload", method: "POST", target: "/-/reload",
			service: &fake{reloadErr: errors.Join(errors.New("f:1: a: b"), errors.New("f:2: c: d"))}, status: 422,
			want: "{\n  \"error\": \"not reloaded: the old configuration stays\",\n  \"problems\": [\n    \"f:1: a: b\",\n    \"f:2: c: d\"\n  ]\n}\n",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := do(t, newHandler(cmp.Or(c.service, &fake{})), c.method+" "+c.target, c.body)
			require.Equal(t, c.status, w.Code)
			require.Equal(t, c.want, w.Body.String())
			require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
		})
	}
}

// None is left out in silence: what is explained then would be another search.
func TestExplainTakesEachParameterOnce(t *testing.T) {
	service := &fake{}
	w := do(t, newHandler(service), "GET /explain?target=a&target=b", "")
	require.Equal(t, http.StatusBadRequest, w.Code)
	require.Contains(t, w.Body.String(), `parameter \"target\" is unknown, or given twice`)
	require.Zero(t, service.question)
}

func TestExplainPassesTheParameters(t *testing.T) {
	service := &fake{}
	do(t, newHandler(service), "GET /explain?target=logs-%2A&routing=a%26b", "")
	require.Equal(t, admin.Question{Target: "logs-*", Routing: "a&b"}, service.question)
	do(t, newHandler(service), "GET /explain?bulk=a%2Bb", "")
	require.Equal(t, admin.Question{Bulk: "a+b"}, service.question)
	do(t, newHandler(service), "GET /explain?operation=get&target=a&id=7&preference=kim", "")
	require.Equal(t, admin.Question{Operation: "get", Target: "a", ID: "7", Preference: "kim"}, service.question)
}

func TestSwitchRefusesWhatItDoesNotUnderstand(t *testing.T) {
	valid := "\n  \"valid\": [\n    \"route\",\n    \"observe\",\n    \"off\"\n  ]\n}\n"
	for _, c := range []struct {
		name, body string
		status     int
		want       string
	}{
		{"unknown mode", `{"mode":"on"}`, 400, `"\"on\" is not a mode"`},
		{"no mode", `{}`, 400, `"\"\" is not a mode"`},
		{"empty", ``, 400, `EOF`},
		{"unknown key", `{"mode":"off","for":"1h"}`, 400, `unknown field \"for\"`},
		{"not a text", `{"mode":1}`, 400, `cannot unmarshal number`},
		{"two objects", `{"mode":"off"}{"mode":"route"}`, 400, `something follows the object`},
		{"too large", `{"mode":"` + strings.Repeat("o", 5000) + `"}`, 413, `request body too large`},
	} {
		t.Run(c.name, func(t *testing.T) {
			service := &fake{mode: "route"}
			w := do(t, newHandler(service), "PUT /-/routing", c.body)
			require.Equal(t, c.status, w.Code)
			require.Contains(t, w.Body.String(), c.want)
			require.True(t, strings.HasSuffix(w.Body.String(), valid), w.Body.String())
			require.Equal(t, "route", service.mode)
		})
	}
	w := do(t, newHandler(&fake{setErr: errors.New("cannot")}), "PUT /-/routing", `{"mode":"off"}`)
	require.Equal(t, http.StatusInternalServerError, w.Code)
	w = do(t, newHandler(&fake{setErr: admin.Unconfigured("set this")}), "PUT /-/routing", `{"mode":"off"}`)
	require.Equal(t, http.StatusConflict, w.Code)
	require.Contains(t, w.Body.String(), "set this")
}

func TestMethods(t *testing.T) {
	for _, c := range []struct{ target, allowed string }{
		{"/", "GET, HEAD"},
		{"/-/healthy", "GET, HEAD"},
		{"/-/ready", "GET, HEAD"},
		{"/nodes", "GET, HEAD"},
		{"/status", "GET, HEAD"},
		{"/events", "GET, HEAD"},
		{"/explain", "GET, HEAD"},
		{"/slow", "GET, HEAD"},
		{"/check", "GET, HEAD"},
		{"/metrics", "GET, HEAD"},
		{"/-/routing", "GET, HEAD, PUT"},
		{"/-/reload", "POST"},
		{"/-/drain", "PUT"},
		{"/snapshot", "GET, HEAD"},
		{"/snapshot/target", "GET, HEAD"},
		{"/snapshot/uses", "POST"},
		{"/debug/pprof/heap", "GET, HEAD"},
	} {
		w := do(t, newHandler(&fake{}), "DELETE "+c.target, "")
		assert.Equal(t, http.StatusMethodNotAllowed, w.Code, c.target)
		assert.Equal(t, c.allowed, w.Header().Get("Allow"), c.target)
	}
	require.Equal(t, http.StatusNotFound, do(t, newHandler(&fake{}), "GET /none", "").Code)
}

func TestOtherSitesMayNotSwitch(t *testing.T) {
	for _, headers := range [][]string{
		{"Sec-Fetch-Site", "cross-site"},
		{"Sec-Fetch-Site", "same-site"},
		{"Origin", "https://evil.example"},
	} {
		service := &fake{mode: "route"}
		h := newHandler(service)
		require.Equal(t, http.StatusForbidden, do(t, h, "PUT /-/routing", `{"mode":"off"}`, headers...).Code)
		require.Equal(t, http.StatusForbidden, do(t, h, "POST /-/reload", "", headers...).Code)
		require.Equal(t, "route", service.mode)
		require.Zero(t, service.reloads)
		require.Equal(t, http.StatusOK, do(t, h, "GET /-/ready", "", headers...).Code)
	}
}

func TestIndexNamesEveryPage(t *testing.T) {
	w := do(t, newHandler(&fake{}), "GET /", "")
	require.Equal(t, http.StatusOK, w.Code)
	for _, page := range []string{"/-/healthy", "/-/serving", "/-/ready", "/nodes", "/explain", "/slow", "/check", "/history", "/spikes", "/metrics", "/-/routing", "/-/bulk", "/-/admission", "/-/drain", "/snapshot", "/-/reload", "/debug/pprof/"} {
		require.Contains(t, w.Body.String(), page)
	}
	require.Equal(t, "text/html; charset=utf-8", w.Header().Get("Content-Type"))
}

func TestMetricsAndProfiles(t *testing.T) {
	server := httptest.NewServer(newHandler(&fake{}))
	defer server.Close()
	for _, c := range []struct{ path, accept, want string }{
		{"/metrics", "", "sidestep_test_total 1"},
		{"/metrics", "application/openmetrics-text; version=1.0.0", "# EOF"},
		{"/debug/pprof/", "", "goroutine"},
		{"/debug/pprof/goroutine?debug=1", "", "goroutine profile"},
		{"/debug/pprof/cmdline", "", "admin.test"},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+c.path, http.NoBody)
		require.NoError(t, err)
		r.Header.Set("Accept", c.accept)
		response, err := server.Client().Do(r)
		require.NoError(t, err)
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, http.StatusOK, response.StatusCode, c.path)
		require.Contains(t, string(body), c.want, c.path)
	}
}
