package app_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/config"
)

// There are clients that write and leave without waiting for the answer. The engines carry out what has arrived, so it is
// passed on.
func TestWhatAClientWritesBeforeItLeavesIsPassedOn(t *testing.T) {
	for name, change := range map[string]func(*config.Config){
		"plain": nil,
		"bulks that are read": func(cfg *config.Config) {
			cfg.Bulk.SingleShard = []config.SingleShard{{Index: "idx"}}
		},
		"bulks that may be repeated": func(cfg *config.Config) {
			cfg.Bulk.SingleShard, cfg.Bulk.Idempotent = []config.SingleShard{{Index: "idx"}}, true
		},
	} {
		w := startWire(t, change)
		const line = `{"index":{"_index":"idx"}}` + "\n" + `{"a":1}` + "\n"
		for _, request := range []string{
			"DELETE /idx/_doc/1 HTTP/1.1\r\nHost: es\r\n\r\n",
			"POST /idx/_doc HTTP/1.1\r\nHost: es\r\nContent-Type: application/json\r\nContent-Length: 7\r\n\r\n{\"a\":1}",
			"POST /_bulk HTTP/1.1\r\nHost: es\r\nContent-Type: application/x-ndjson\r\nContent-Length: 35\r\n\r\n" + line,
		} {
			method, _, _ := strings.Cut(request, " ")
			t.Run(name+", "+method, func(t *testing.T) {
				for range 30 { // it is lost or not by chance
					c := w.dial()
					c.send(request)
					require.NoError(t, c.Close())
					select {
					case got := <-w.requests:
						require.Equal(t, parse(t, request), parse(t, got))
					case <-time.After(patience):
						require.Fail(t, "it does not arrive")
					}
				}
			})
		}
	}
}
