package admission

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAuto(t *testing.T) {
	f := frame{limit: 20, takes: 1002, min: 2, wanted: 4, part: 1, peak: 20, rate: 100, base: 0.02}
	for _, c := range []struct {
		name   string
		change func(*frame)
		limit  float64
		why    Change
	}{
		{"a short queue", func(f *frame) { f.queue = 0 }, 22, Grew},
		{"a short queue, most of what is in flight being elsewhere", func(f *frame) { f.queue, f.part = 0, 0.25 }, 28, Grew},
		{"a short queue, nearly all being elsewhere", func(f *frame) { f.queue, f.part = 0, 0.01 }, 30, Grew},
		{"a short queue, whatever keeps the load low", func(f *frame) { f.queue, f.peak = 0, 10 }, 22, Grew},
		{"a short queue, less than half being in use", func(f *frame) { f.queue, f.peak = 0, 9 }, 30, Grew},
		{"a short queue, at what the node takes", func(f *frame) { f.takes = 20 }, 20, Kept},
		{"it was lowered in this frame", func(f *frame) { f.rejected = true }, 20, Kept},
		{"the queue that is wanted", func(f *frame) { f.queue = 4.5 }, 20, Kept},
		{"a long queue", func(f *frame) { f.queue = 14 }, 15, Shrank},
		{"a long queue, of others", func(f *frame) { f.queue, f.peak = 14, 12 }, 7, Shrank},
		{"what gathers while it stands still", func(f *frame) { f.queue, f.wanted = 14, 14 }, 20, Kept},
		{"more than that", func(f *frame) { f.queue, f.wanted = 24, 14 }, 15, Shrank},
		{"less than that", func(f *frame) { f.queue, f.wanted = 5, 14 }, 24.5, Grew},
		{"not below what it carries", func(f *frame) { f.queue = 1000 }, 6, Shrank},
		{"not below the least", func(f *frame) { f.queue, f.rate = 1000, 0 }, 2, Shrank},
		{"not above the most", func(f *frame) { f.max = 20.5 }, 20.5, Grew},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := f
			c.change(&f)
			limit, why := f.auto()
			require.Equal(t, c.limit, limit)
			require.Equal(t, c.why, why)
		})
	}
}

// The example of the published work: 15 a second within 4 s are 60.
func TestTarget(t *testing.T) {
	f := frame{limit: 1000, peak: 1000, min: 1, rate: 15}
	for range 100 {
		before := f.limit
		f.limit, _ = f.target(4 * time.Second)
		require.LessOrEqual(t, before-f.limit, 50.0)
	}
	require.Equal(t, 60.0, f.limit)
	f.limit, f.peak = math.Inf(1), 20
	f.limit, _ = f.target(4 * time.Second)
	require.Equal(t, 60.0, f.limit, "one that was never in use says nothing")
	f.limit = 4
	f.limit, _ = f.target(4 * time.Second)
	require.Equal(t, 5.0, f.limit, "steps of small limits are small")
}

// A simulated node of two threads whose limit is always in use: its queue is what is in
// flight beyond the threads. Slowed down tenfold for ten minutes its limit stays.
func TestASlowdownDoesNotMoveTheLimit(t *testing.T) {
	r := newRig(t, Options{Mode: Auto}, 1)
	n := r.nodes["0"]
	service := 20 * time.Millisecond
	at := map[int]float64{}
	for tick := range 5 * 900 { // polls of 200 ms
		if tick == 5*120 {
			service *= 10
		}
		n.ours = n.most()
		completed := 2 * 0.2 / service.Seconds()
		r.now = r.now.Add(200 * time.Millisecond)
		r.poll(Poll{Queue: max(0, float64(int(n.ours))-2), Active: 2, Completed: int64(completed), ServiceTime: service})
		at[tick/5] = n.limit
	}
	require.InDelta(t, 2*(1+waiting), at[110], 2, "healthy")
	require.InEpsilon(t, at[240], at[720], 0.1, "between the second and the tenth minute")
	require.InEpsilon(t, at[110], at[720], 0.1)
}

// Until its queue was too long a node takes half of its queue. The first limit is made of what was in flight then, after
// about a second, however much more the node would hold.
func TestALimitBeginsWithALongQueue(t *testing.T) {
	for most, first := range map[float64]float64{0: 1002, 100: 100} {
		r := newRig(t, Options{Mode: Auto, Max: most}, 1)
		n := r.nodes["0"]
		poll := func(queue float64) float64 {
			for range 6 { // of 200 ms
				r.now = r.now.Add(200 * time.Millisecond)
				n.ours = queue + 2
				n.raisePeak(1)
				r.poll(Poll{Queue: queue, Active: 2, QueueSize: 2000, Completed: 20})
			}
			return *r.View("0", r.now).Limit
		}
		require.Equal(t, first, poll(3), "threads and half of the queue, or what is configured")
		require.InDelta(t, 42-gain*((3+4*40)/5.0-4), poll(40), 1e-9, "what was in flight without half of what was too much, of a frame of five polls")
	}
}

// What a long queue taught is forgotten once the queue is short, however little is in flight: else the next burst would
// wait for what the node can take.
func TestALimitGrowsAlsoWhileItIsNotInUse(t *testing.T) {
	r := newRig(t, Options{Mode: Auto}, 1)
	n := r.nodes["0"]
	n.limit = 9
	for range 5 * 10 { // polls of 200 ms: in steps of one it would be at 19
		r.now = r.now.Add(200 * time.Millisecond)
		n.ours = 2
		n.raisePeak(1)
		r.poll(Poll{Active: 2, QueueSize: 50, Completed: 20})
	}
	require.Equal(t, 27.0, *r.View("0", r.now).Limit)
	before := r.LimitChanges(Grew)
	r.now = r.now.Add(10 * time.Second)
	r.poll(Poll{QueueSize: 50, Completed: 20})
	require.Equal(t, before, r.LimitChanges(Grew), "it takes no more")
}

// Where its CPU quota runs out a node stands still for a part of each period. It is busy for the rest
// of it only if as much has gathered as comes in a whole one: λ·P.
func TestAQuotaThatRunsOutMakesALongerQueue(t *testing.T) {
	settled := func(stalled time.Duration) float64 {
		r := newRig(t, Options{Mode: Auto}, 1)
		n := r.nodes["0"]
		for range 5 * 300 { // polls of 200 ms: 300 shard queries a second
			n.ours = n.most()
			r.now = r.now.Add(200 * time.Millisecond)
			r.poll(Poll{Queue: max(0, n.ours-2), Active: 2, Completed: 60, ServiceTime: 5 * time.Millisecond, Stalled: stalled})
		}
		require.Equal(t, min(n.limit, n.threads*(1+waiting)+n.gathers), n.ample(&r.o), "what keeps it busy")
		return n.limit
	}
	none := settled(0)
	require.InDelta(t, 2*(1+waiting), none, 2)
	require.InDelta(t, none+300*0.1, settled(100*time.Millisecond), 8)
}

// What is in flight and in no pool takes no place in a queue. But a search waits for its slowest
// node: beside a full pool no more is sent to the others than theirs take.
func TestWhatIsInNoPoolTakesNoPlaceInAQueue(t *testing.T) {
	of := func(o Options, other float64) float64 {
		r := newRig(t, o, 2)
		for range 5 * 60 { // polls of 200 ms
			r.now = r.now.Add(200 * time.Millisecond)
			for i, queue := range []float64{1, other} {
				n := r.order[i]
				n.ours = n.most()
				r.Observe(n.ID, Poll{Threads: 2, Queue: queue, Active: 2, QueueSize: 50, Completed: 60, ServiceTime: 5 * time.Millisecond, Stalled: 100 * time.Millisecond}, r.now)
			}
		}
		require.LessOrEqual(t, r.order[0].wanted(), 25.0, "half of the queue is for bursts")
		limit := *r.View("0", r.now).Limit
		r.SetMode(Target, r.now)
		require.LessOrEqual(t, *r.View("0", r.now).Limit, 27.0, "the other mode knows nothing of pools")
		return limit
	}
	require.Greater(t, of(Options{Mode: Auto}, 1), 200.0)
	require.Equal(t, 27.0, of(Options{Mode: Auto}, 50))
	require.Equal(t, 27.0, of(Options{Mode: Target, TargetResponseTime: time.Minute}, 1))
	require.Equal(t, 27.0, of(Options{Mode: Auto, Learns: true}, 1), "what writes send to a node is not known")
}

// Mode observe finds what is in flight and in no pool, too: once auto is on, as much goes as before.
func TestAutoKnowsWhatObserveFound(t *testing.T) {
	r := newRig(t, Options{Mode: Observe}, 1)
	n := r.nodes["0"]
	n.ours = 100
	for range 20 {
		r.now = r.now.Add(200 * time.Millisecond)
		r.poll(Poll{Threads: 2, Active: 2, QueueSize: 50, Completed: 60, ServiceTime: 5 * time.Millisecond})
	}
	r.SetMode(Auto, r.now)
	require.Equal(t, Admitted, r.search(0).Verdict)
}

// Rejections lower the limit at once, once in a frame, and never below the least.
func TestRejectionsLowerTheLimitAtOnce(t *testing.T) {
	r := newRig(t, Options{Mode: Auto, Min: 3}, 1)
	n := r.nodes["0"]
	n.ours = 40
	before := n.ours
	r.poll(Poll{Queue: 4, Completed: 10, Rejected: 1})
	require.Equal(t, afterRejection*before, n.limit)
	r.poll(Poll{Queue: 4, Completed: 10, Rejected: 100})
	require.Equal(t, afterRejection*before, n.limit)
	for range 100 {
		r.now = r.now.Add(2 * time.Second)
		r.poll(Poll{Queue: 4, Completed: 1000, Rejected: 1})
	}
	require.Equal(t, 3.0, n.limit)
	require.Positive(t, r.LimitChanges(Rejected))
}

// The load of other clients counts, and sidesteps that share a limit get a part each.
func TestLimitsAreShared(t *testing.T) {
	r := newRig(t, limited(12), 1)
	for range 60 {
		r.now = r.now.Add(200 * time.Millisecond)
		r.poll(Poll{Queue: 6, Active: 2})
	}
	require.InDelta(t, 8, r.View("0", r.now).Others, 0.1)
	for range 4 {
		require.Equal(t, Admitted, r.search(0).Verdict)
	}
	require.Equal(t, Waits, r.search(0).Verdict)

	o := limited(12)
	o.Sidesteps = 3
	r = newRig(t, o, 1)
	for range 4 {
		require.Equal(t, Admitted, r.search(0).Verdict)
	}
	require.Equal(t, Waits, r.search(0).Verdict)
	for range 60 {
		r.poll(Poll{Queue: 10, Active: 2}) // the 8 of the other two
	}
	require.Zero(t, r.View("0", r.now).Others)
}

func TestUtilisation(t *testing.T) {
	r := newRig(t, Options{Mode: Auto}, 2)
	_, nodes := r.Utilisation(r.now)
	require.Zero(t, nodes)
	r.poll(Poll{Active: 1, Completed: 5})
	u, nodes := r.Utilisation(r.now)
	require.Equal(t, 0.5, u)
	require.Equal(t, 2, nodes)
}

// What other clients have sent counts for about a second after it ended, however rarely a node is polled.
func TestOtherClientsAreForgottenInTime(t *testing.T) {
	for _, every := range []time.Duration{200 * time.Millisecond, 10 * time.Second} {
		r := newRig(t, limited(10), 1)
		poll := func(p Poll) {
			r.now = r.now.Add(every)
			r.poll(p)
		}
		for range 50 {
			poll(Poll{Queue: 500, Active: 2, Completed: 3})
		}
		require.InDelta(t, 502, r.View("0", r.now).Others, 1)
		for ended := r.now; r.now.Sub(ended) < 5*time.Second; {
			poll(Poll{})
		}
		require.Less(t, r.View("0", r.now).Others, 5.0)
	}
}
