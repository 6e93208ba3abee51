package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	simcluster "sidestep/internal/sim/cluster"
	"sidestep/test/harness"
)

// troubles makes nodes and their proxies fail, one node and one proxy at a time, and
// counts what it did.
type troubles struct {
	stage *stage
	seed  uint64

	killed, paused, slowed, restarted atomic.Int64

	mu     sync.Mutex
	failed error
}

func newTroubles(s *stage, seed uint64) *troubles { return &troubles{stage: s, seed: seed} }

// String says what was done.
func (t *troubles) String() string {
	return fmt.Sprintf("nodes killed %d, paused %d, slowed %d; TLS restarted %d", t.killed.Load(), t.paused.Load(), t.slowed.Load(), t.restarted.Load())
}

// err returns what went wrong with the trouble itself.
func (t *troubles) err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failed
}

// makeNodesFail has one node after the other killed and restarted, standing still or
// slow, for some seconds each, until ctx ends. Then all are well.
func (t *troubles) makeNodesFail(ctx context.Context) {
	rng := rand.New(rand.NewPCG(t.seed, 1))
	all := t.stage.cluster.Nodes()
	for harness.Pause(ctx, 3*time.Second) == nil {
		n := all[rng.IntN(len(all))]
		lasts := time.Second + below(rng, 3*time.Second)
		switch rng.IntN(4) {
		case 0:
			t.paused.Add(1)
			t.whileFault(ctx, n, simcluster.Fault{Pause: true}, lasts)
		case 1:
			t.slowed.Add(1)
			t.whileFault(ctx, n, simcluster.Fault{Extra: 300 * time.Millisecond, Jitter: 100 * time.Millisecond}, lasts)
		default:
			t.killed.Add(1)
			n.Kill()
			_ = harness.Pause(ctx, lasts)
			if err := n.Return(); err != nil {
				t.mu.Lock()
				t.failed = err
				t.mu.Unlock()
				return
			}
		}
	}
}

func (t *troubles) whileFault(ctx context.Context, n *simcluster.Node, f simcluster.Fault, lasts time.Duration) {
	n.SetFault(f)
	_ = harness.Pause(ctx, lasts)
	n.SetFault(simcluster.Fault{})
}

// restartTLS restarts the proxy of one node after the other until ctx ends.
func (t *troubles) restartTLS(ctx context.Context) {
	rng := rand.New(rand.NewPCG(t.seed, 2))
	for harness.Pause(ctx, 5*time.Second) == nil {
		t.restarted.Add(1)
		t.stage.forwarders[rng.IntN(len(t.stage.forwarders))].restart(ctx, time.Second)
	}
}
