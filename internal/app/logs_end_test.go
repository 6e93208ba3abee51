package app

import (
	"log/slog"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"sidestep/internal/config"
	"sidestep/internal/record"
)

// A disk that hangs takes no time from the other log: a stop waits for both at once.
func TestLogsAreEndedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logs, err := newRequestLogs(prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		var cfg config.Logs
		cfg.Access.Output, cfg.Slow.Output = filepath.Join(t.TempDir(), "access.log"), filepath.Join(t.TempDir(), "slow.log")
		opened, err := logs.open(cfg)
		require.NoError(t, err)
		logs.use(cfg, opened)
		goOn := make(chan struct{})
		defer close(goOn)
		for _, log := range logs.logs {
			log.Write(record.Line{Attrs: func() []slog.Attr { <-goOn; return nil }})
		}
		began := time.Now()
		logs.close()
		require.Equal(t, logGrace, time.Since(began))
	})
}
