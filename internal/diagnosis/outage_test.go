package diagnosis

import (
	"fmt"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sidestep/internal/cluster"
)

// BenchmarkOutage is a look at nodes that all got into trouble, and one when their records have all samples.
func BenchmarkOutage(b *testing.B) {
	for _, nodes := range []int{100, 1000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				r := New(Options{Enabled: true, MaxSize: 16 << 20, Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry()})
				readings := make([]Reading, nodes)
				for i := range readings {
					readings[i] = Reading{ID: fmt.Sprintf("node-%d", i), State: "fine", Share: 0.1, Service: 2, Response: 3, Since: time.Now()}
				}
				snapshot := cluster.NewSnapshot(cluster.Contents{})
				r.Use(Source{Read: func() []Reading { return readings }, Snapshot: func() *cluster.Snapshot { return snapshot }, Follows: func() bool { return false }, Client: http.DefaultClient})
				now := time.Now()
				for i := range 900 {
					r.history.add(readings, now.Add(time.Duration(i-900)*time.Second))
				}
				for range maxAtOnce {
					r.slots <- struct{}{}
				}
				for i := range readings {
					readings[i].State = "unreachable"
				}
				b.StartTimer()
				began := time.Now()
				r.look(b.Context(), true)
				first := time.Since(began)
				b.StopTimer()
				for _, o := range r.open {
					o.record.Began = Time{o.record.Began.Add(-maxSpan)}
				}
				b.StartTimer()
				began = time.Now()
				r.look(b.Context(), true)
				b.ReportMetric(first.Seconds(), "s/first")
				b.ReportMetric(time.Since(began).Seconds(), "s/second")
			}
		})
	}
}
