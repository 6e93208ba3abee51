package admin_test

import (
	"errors"
	"log/slog"
	"net"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"sidestep/internal/admin"
)

// leaver is a client that has gone away.
type leaver struct{ *httptest.ResponseRecorder }

func (leaver) Write([]byte) (int, error) {
	return 0, &net.OpError{Op: "write", Net: "tcp", Err: errors.New("broken pipe")}
}

// A scraper that goes away in the middle is no error, of which there would be one for each family of metrics. What cannot
// be gathered is.
func TestOnlyWhatCannotBeToldOfMetricsIsAnError(t *testing.T) {
	var log strings.Builder
	registry := prometheus.NewRegistry()
	promauto.With(registry).NewCounter(prometheus.CounterOpts{Name: "a"}).Inc()
	promauto.With(registry).NewCounter(prometheus.CounterOpts{Name: "b"}).Inc()
	broken := false
	h := admin.New(admin.Options{
		Service: &fake{}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Gatherer: prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
			families, err := registry.Gather()
			if broken {
				err = errors.New("a series is bad")
			}
			return families, err
		}),
	})
	r := httptest.NewRequestWithContext(t.Context(), "GET", "http://localhost/metrics", nil)
	h.ServeHTTP(leaver{httptest.NewRecorder()}, r)
	require.Empty(t, log.String())
	broken = true
	h.ServeHTTP(httptest.NewRecorder(), r)
	require.Contains(t, log.String(), "level=ERROR")
	require.Contains(t, log.String(), "a series is bad")
}
