package lab

import (
	"math"
	"slices"
	"time"
)

// machine is what a node is made of.
type machine struct {
	cpus    float64
	threads int // of the search pool
	queue   int // searches that may wait for a thread
}

// node is one simulated node: a bounded FIFO queue, search threads, and the CPUs
// that all running jobs share equally, each job at most one of them.
type node struct {
	machine
	c  *clock
	id int

	role role

	// state that faults change: a switch may be on for several faults at once
	speed      float64 // of each CPU; 1 is a healthy node's
	paused     bool
	pauses     switches
	transport  time.Duration // added to what reaches the node from other nodes
	http       time.Duration // added to what reaches it from clients
	rejects    switches      // answers every shard query with 429
	fails      switches      // answers everything, polls too, with 503
	absent     switches
	stopped    func()        // ends what it coordinates, as its process ends; may be nil
	unplaced   bool          // sidecars know that it is absent
	failAfter  time.Duration // fails every shard query after this time; 0: no
	indexSlow  []float64     // factor of shard queries by index; nil: 1
	statsDelay time.Duration // of the answer to a poll
	lost       *lostPolls
	avoided    switches   // a client in the know would not use it now
	avoidedFor []switches // the same, for an index

	jobs           heap[job]
	given          float64 // CPU seconds that each running job has been given since the start
	givenAt        time.Duration
	busy           float64       // CPU seconds that its CPUs were at work
	used, busyThen float64       // as the node last looked
	lookedAt       time.Duration // when that was
	planned        uint64        // number of the completion that is planned; others are void
	active         int           // search threads in use
	waiting        []*task
	asleep         []func() // what reached the node while it was paused

	assigned  int // shard queries sent here and not answered, wherever they are
	completed int64
	rejected  int64
	told      int64         // polls answered
	probed    int           // probes of its copies that were sent
	inThread  time.Duration // sum over completed tasks: the engine's query_time
	service   average       // ms, as the node tells its coordinating nodes
	latencies [16]time.Duration
}

// task is one shard query on a node.
type task struct {
	demand    float64 // CPU seconds
	cancelled *bool   // nobody waits for it any more; nil: somebody always does
	refused   bool    // for want of room, not for a failure
	arrived   time.Duration
	started   time.Duration
	done      func(ok bool)
}

// job is work that shares the CPUs: a task, or what a node does beside these (task is nil).
type job struct {
	finish float64 // value of given at which it is done
	task   *task
	beside bool // the task holds no search thread
	done   func()
}

// Before orders jobs as they end.
func (j job) Before(o job) bool { return j.finish < o.finish }

// rate returns the CPUs each running job has.
func (n *node) rate() float64 {
	if n.paused || len(n.jobs) == 0 {
		return 0
	}
	return n.speed * min(1, n.cpus/float64(len(n.jobs)))
}

// switches counts what turns something on.
type switches int

func (s *switches) set(on bool) {
	if on {
		*s++
		return
	}
	*s--
}

func (s switches) on() bool { return s > 0 }

// settle brings given up to now; to be called before anything changes the rate.
func (n *node) settle() {
	given := n.rate() * (n.c.now - n.givenAt).Seconds()
	n.given += given
	if !n.paused {
		n.busy += min(float64(len(n.jobs)), n.cpus) * (n.c.now - n.givenAt).Seconds()
	}
	n.givenAt = n.c.now
}

// usage returns how many CPUs the node kept busy until it last looked, since it did so before: once a second at most.
func (n *node) usage() float64 {
	if elapsed := n.c.now - n.lookedAt; elapsed >= time.Second {
		n.settle()
		n.used = (n.busy - n.busyThen) / elapsed.Seconds()
		n.lookedAt, n.busyThen = n.c.now, n.busy
	}
	return n.used
}

// plan schedules the next completion; to be called after the rate changed.
func (n *node) plan() {
	n.planned++
	rate := n.rate()
	if rate == 0 {
		return
	}
	number := n.planned
	left := max(0, n.jobs[0].finish-n.given) / rate
	n.c.after(time.Duration(math.Ceil(left*1e9)), func() {
		if number == n.planned {
			n.finishJobs()
		}
	})
}

func (n *node) finishJobs() {
	n.settle()
	// The event was planned for this job: rounding must not leave it running.
	n.given = max(n.given, n.jobs[0].finish)
	var finished []job
	for len(n.jobs) > 0 && n.jobs[0].finish <= n.given {
		finished = append(finished, n.jobs.pop())
	}
	for _, j := range finished {
		if j.task != nil && !j.beside {
			n.free(j.task)
		}
	}
	n.plan()
	for _, j := range finished {
		if j.task != nil {
			j.task.done(true)
			continue
		}
		j.done()
	}
}

// free gives the thread of a finished task to the next one.
func (n *node) free(t *task) {
	n.active--
	took := n.c.now - t.started
	n.inThread += took
	n.service.observe(millis(took))
	n.latencies[n.completed%int64(len(n.latencies))] = n.c.now - t.arrived
	n.completed++
	if len(n.waiting) > 0 {
		next := n.waiting[0]
		n.waiting[0] = nil
		n.waiting = n.waiting[1:]
		n.start(next)
	}
}

// submit takes in a shard query that has reached the node.
func (n *node) submit(t *task) {
	t.arrived = n.c.now
	switch {
	case n.absent.on():
		t.done(false)
	case n.rejects.on() || n.fails.on():
		n.reject(t)
	case n.failAfter > 0:
		n.c.after(n.failAfter, func() { t.done(false) })
	case n.active < n.threads:
		n.settle()
		n.start(t)
		n.plan()
	case len(n.waiting) < n.queue:
		n.waiting = append(n.waiting, t)
	default:
		n.reject(t)
	}
}

func (n *node) reject(t *task) {
	if t.refused = !n.fails.on(); t.refused {
		n.rejected++
	}
	n.c.after(rejectTime, func() { t.done(false) })
}

// rejectTime is how long a node takes to say no.
const rejectTime = 200 * time.Microsecond

// start gives t a thread; the caller settles before and plans after.
func (n *node) start(t *task) {
	n.active++
	t.started = n.c.now
	demand := t.demand
	if t.cancelled != nil && *t.cancelled {
		demand = 0
	}
	n.jobs.push(job{finish: n.given + demand, task: t})
}

// work runs demand CPU seconds beside the search threads, then done.
func (n *node) work(demand float64, done func()) {
	if n.absent.on() {
		return
	}
	if demand <= 0 && !n.paused {
		done()
		return
	}
	n.push(job{finish: demand, done: done})
}

// push begins a job, which takes finish CPU seconds.
func (n *node) push(j job) {
	n.settle()
	j.finish += n.given
	n.jobs.push(j)
	n.plan()
}

// setSpeed changes the speed of the CPUs.
func (n *node) setSpeed(speed float64) {
	n.settle()
	n.speed = speed
	n.plan()
}

// setPaused stops the node or lets it go on. What reaches a paused node waits.
func (n *node) setPaused(paused bool) {
	n.pauses.set(paused)
	if n.paused == n.pauses.on() {
		return
	}
	n.settle()
	n.paused = n.pauses.on()
	n.plan()
	if n.paused {
		return
	}
	asleep := n.asleep
	n.asleep = nil
	for _, do := range asleep {
		do()
	}
}

// setAbsent stops the node's process or starts it: what it was doing is lost.
func (n *node) setAbsent(absent bool) {
	n.absent.set(absent)
	if !absent || n.absent > 1 {
		return
	}
	jobs, waiting, asleep := n.jobs, n.waiting, n.asleep
	n.settle()
	n.jobs, n.waiting, n.asleep, n.active = nil, nil, nil, 0
	n.plan()
	if n.stopped != nil {
		n.stopped()
	}
	for _, do := range asleep {
		do() // and finds that there is no process
	}
	for _, j := range jobs {
		if j.task != nil {
			j.task.done(false)
		}
	}
	for _, t := range waiting {
		t.done(false)
	}
}

// read serves a document, beside the search threads.
func (n *node) read(t *task) {
	switch {
	case n.absent.on():
		t.done(false)
	case n.fails.on():
		n.c.after(rejectTime, func() { t.done(false) })
	default:
		n.push(job{finish: t.demand, task: t, beside: true})
	}
}

// receive does what reaches the node: at once, or when it wakes.
func (n *node) receive(do func()) {
	if n.paused && !n.absent.on() {
		n.asleep = append(n.asleep, do)
		return
	}
	do()
}

// slowFor returns by what factor shard queries of an index take longer.
func (n *node) slowFor(index int) float64 {
	if n.indexSlow == nil {
		return 1
	}
	return n.indexSlow[index]
}

// toAvoid reports whether a client in the know would not use the node now for an
// index; below 0: for whatever it is.
func (n *node) toAvoid(index int) bool {
	return n.avoided.on() || index >= 0 && n.avoidedFor != nil && n.avoidedFor[index].on()
}

// median returns the median time of its latest shard queries, queue included.
func (n *node) median() time.Duration {
	known := min(n.completed, int64(len(n.latencies)))
	if known == 0 {
		return 0
	}
	sorted := n.latencies
	slices.Sort(sorted[:known])
	return sorted[known/2]
}

// average is an exponentially weighted moving average with the engine's α.
type average struct {
	value float64
	known bool
}

const alpha = 0.3

func (a *average) observe(v float64) {
	if !a.known {
		a.value, a.known = v, true
		return
	}
	a.value += alpha * (v - a.value)
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func fromMillis(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }
