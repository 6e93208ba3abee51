package lab

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// station is one node under Poisson arrivals, watched from outside.
type station struct {
	c       clock
	n       *node
	rng     *rand.Rand
	done    int
	refused int
	sojourn time.Duration // sum over completed tasks
	inside  float64       // time integral of the tasks in the node, seconds
	present int
	since   time.Duration
	demand  float64 // sum of CPU seconds that were asked for
}

func newStation(m machine) *station {
	s := &station{rng: rand.New(rand.NewPCG(1, 2))}
	s.n = &node{machine: m, c: &s.c, speed: 1}
	return s
}

// change keeps the integral of the tasks in the node.
func (s *station) change(by int) {
	s.inside += float64(s.present) * (s.c.now - s.since).Seconds()
	s.since = s.c.now
	s.present += by
}

func (s *station) submit(demand float64) {
	began := s.c.now
	s.change(1)
	s.demand += demand
	s.n.submit(&task{demand: demand, done: func(ok bool) {
		s.change(-1)
		if !ok {
			s.refused++
			return
		}
		s.done++
		s.sojourn += s.c.now - began
	}})
}

// load submits tasks at a rate for a time, then lets them finish.
func (s *station) load(rate float64, length time.Duration, draw func() float64) {
	var arrive func()
	arrive = func() {
		if s.c.now >= length {
			return
		}
		s.submit(draw())
		s.c.after(time.Duration(s.rng.ExpFloat64()/rate*1e9), arrive)
	}
	s.c.after(0, arrive)
	for s.c.step(forever) {
		continue
	}
}

func (s *station) mean() float64 { return s.sojourn.Seconds() / float64(s.done) }

func TestEventsComeInOrder(t *testing.T) {
	var c clock
	rng := rand.New(rand.NewPCG(1, 1))
	var got []time.Duration
	for range 2000 {
		c.after(time.Duration(rng.IntN(500)), func() { got = append(got, c.now) })
	}
	same := 0
	for i := range 10 {
		c.at(1000, func() {
			require.Equal(t, same, i) // at one moment: as they were added
			same++
		})
	}
	for c.step(forever) {
		continue
	}
	require.IsNonDecreasing(t, got)
	require.Len(t, got, 2000)
	require.Equal(t, 10, same)
}

// Mean times of one server at 70 % load, against the formulas of queueing theory.
func TestOneServer(t *testing.T) {
	const demand, rate = 0.010, 70.0
	constant := func() float64 { return demand }
	for name, c := range map[string]struct {
		threads int
		scale   float64 // E[S²] / E[S]²: 1 constant, 2 exponential
		want    float64
	}{
		// Pollaczek and Khinchine: W = S + λ·E[S²] / (2(1−ρ)).
		"FIFO, constant":    {1, 1, demand + rate*demand*demand/(2*0.3)},
		"FIFO, exponential": {1, 2, demand / 0.3},
		// Processor sharing: S / (1−ρ), whatever the distribution.
		"PS, constant":    {100000, 1, demand / 0.3},
		"PS, exponential": {100000, 2, demand / 0.3},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStation(machine{cpus: 1, threads: c.threads, queue: 1 << 20})
			draw := constant
			if c.scale == 2 {
				draw = func() float64 { return demand * s.rng.ExpFloat64() }
			}
			s.load(rate, 1500*time.Second, draw)
			require.InEpsilon(t, c.want, s.mean(), 0.05)
		})
	}
}

// Tasks in the node = rate of completions × time of one; CPU time given = asked for.
func TestLittlesLawAndUtilisation(t *testing.T) {
	for _, m := range []machine{
		{cpus: 4, threads: 7, queue: 1000},
		{cpus: 2, threads: 2, queue: 1000},
		{cpus: 1, threads: 1, queue: 5}, // refuses some
	} {
		s := newStation(m)
		s.load(0.85*m.cpus/0.010, 200*time.Second, func() float64 { return 0.010 * s.rng.ExpFloat64() })
		s.change(0)
		length := s.c.now.Seconds()
		inTask := s.inside/length - float64(s.refused)*rejectTime.Seconds()/length
		require.InEpsilon(t, float64(s.done)/length*s.mean(), inTask, 1e-3)
		require.Equal(t, s.n.completed, int64(s.done))
		require.Equal(t, s.n.rejected, int64(s.refused))
		require.Zero(t, s.n.active)
		require.Empty(t, s.n.jobs)
		if s.refused == 0 {
			require.InDelta(t, 0.85, s.demand/length/m.cpus, 0.02)
			// In-thread time is at least the demand: CPUs are shared beyond one thread each.
			require.GreaterOrEqual(t, s.n.inThread.Seconds(), 0.999*s.demand)
		}
	}
}

func TestFIFO(t *testing.T) {
	s := newStation(machine{cpus: 1, threads: 1, queue: 100})
	var order []int
	for i, demand := range []float64{0.3, 0.1, 0.2} {
		s.n.submit(&task{demand: demand, done: func(bool) { order = append(order, i) }})
	}
	for s.c.step(forever) {
		continue
	}
	require.Equal(t, []int{0, 1, 2}, order)
	require.InDelta(t, 0.6, s.c.now.Seconds(), 1e-6)
}

func TestThreadsShareCPUs(t *testing.T) {
	s := newStation(machine{cpus: 1, threads: 3, queue: 100})
	var at []float64
	for _, demand := range []float64{0.1, 0.2, 0.3} {
		s.n.submit(&task{demand: demand, done: func(bool) { at = append(at, s.c.now.Seconds()) }})
	}
	for s.c.step(forever) {
		continue
	}
	require.InDeltaSlice(t, []float64{0.3, 0.5, 0.6}, at, 1e-6)
}

func TestSpeedAndPause(t *testing.T) {
	s := newStation(machine{cpus: 4, threads: 4, queue: 1})
	var at []float64
	note := func(bool) { at = append(at, s.c.now.Seconds()) }
	s.n.submit(&task{demand: 1, done: note})
	s.c.after(500*time.Millisecond, func() { s.n.setSpeed(0.1) }) // half is done
	s.c.after(1500*time.Millisecond, func() { s.n.setPaused(true) })
	s.c.after(2*time.Second, func() { s.n.receive(func() { s.n.submit(&task{demand: 0.1, done: note}) }) })
	s.c.after(4*time.Second, func() { s.n.setSpeed(1) })
	s.c.after(5*time.Second, func() { s.n.setPaused(false) })
	for s.c.step(forever) {
		continue
	}
	// 0.5 s at full speed, 1 s at a tenth leaves 0.4 s of the first after the pause.
	require.InDeltaSlice(t, []float64{5.1, 5.4}, at, 1e-6)
}

func TestFullQueueRefuses(t *testing.T) {
	s := newStation(machine{cpus: 1, threads: 1, queue: 2})
	for range 5 {
		s.submit(0.1)
	}
	for s.c.step(forever) {
		continue
	}
	require.Equal(t, 3, s.done)
	require.Equal(t, 2, s.refused)
}
