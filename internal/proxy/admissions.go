package proxy

import (
	"cmp"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sidestep/internal/admission"
	"sidestep/internal/cluster"
)

// Admission says what waits before the cluster while that is busy.
type Admission struct {
	admission.Options
	// Classes are asked in their order; what is in none is in the class "default".
	// Options.Classes is made of them.
	Classes []AdmissionClass
	// Writes is the same for writes, by the write pools of the nodes. Its classes and
	// TargetResponseTime are not looked at.
	Writes admission.Options
}

// AdmissionClass is a class of searches. Of its conditions those that are set must hold.
type AdmissionClass struct {
	admission.Class
	Operation string // name of an [es.Operation]
	Index     string // name or pattern of names, which all elements of a target must match
	User      string // of basic authentication
	// OpaqueIDPrefix is what X-Opaque-Id begins with.
	OpaqueIDPrefix string
}

// defaultClass is the name of the class of searches that are in no other, writesClass that
// of writes.
const (
	defaultClass = "default"
	writesClass  = "writes"
)

// usualWriteQueue is what the queue of a write pool holds by default, in both engines from
// Elasticsearch 7.9 on.
const usualWriteQueue = 10_000

// ErrNoTarget is why [Proxy.SetAdmissionMode] does not switch to mode target.
var ErrNoTarget = errors.New("mode target needs a response time: set admission.target_response_time in the configuration and reload it")

// admissionClass is an AdmissionClass made ready for use.
type admissionClass struct {
	AdmissionClass
	targets *regexp.Regexp // nil: any
}

// matches reports whether a request is in the class.
func (k *admissionClass) matches(x *exchange) bool {
	if k.Operation != "" && k.Operation != string(x.Operation) || k.targets != nil && !k.targets.MatchString(x.Target) {
		return false
	}
	if k.User != "" {
		if user, _, ok := x.r.BasicAuth(); !ok || user != k.User {
			return false
		}
	}
	return k.OpaqueIDPrefix == "" || strings.HasPrefix(x.r.Header.Get("X-Opaque-Id"), k.OpaqueIDPrefix)
}

// admissions is the admission of one proxy: the control with what guards and drives it.
// While the mode is Off no request takes its lock.
type admissions struct {
	writes   bool         // it is that of writes
	own      atomic.Value // admission.Mode: as it was set
	mode     atomic.Value // admission.Mode: in force
	classes  []admissionClass
	heldBack atomic.Int64 // refusals

	mu      sync.Mutex // guards what follows
	control *admission.Control
	timer   *time.Timer                  // calls turn
	queues  map[string]int               // by id of the node: what the queue of its search pool holds; 0: not known
	polls   map[string]cluster.NodeStats // by id of the node: the last that it answered
}

// newWriteAdmissions returns the admission of writes.
func newWriteAdmissions(o admission.Options) *admissions {
	o.Learns = true
	a := newAdmissions(o, []AdmissionClass{{Class: admission.Class{Name: writesClass}}})
	a.writes = true
	return a
}

// newSearchAdmissions returns the admission of searches.
func newSearchAdmissions(o Admission) *admissions {
	rest := AdmissionClass{Class: admission.Class{Name: defaultClass}}
	classes := slices.Clone(o.Classes)
	if i := slices.IndexFunc(classes, func(k AdmissionClass) bool { return k.Name == defaultClass }); i >= 0 {
		rest = classes[i]
		classes = slices.Delete(classes, i, i+1)
	}
	return newAdmissions(o.Options, append(classes, rest))
}

// newAdmissions returns an admission by these classes, the last of which has no conditions.
func newAdmissions(o admission.Options, classes []AdmissionClass) *admissions {
	a := &admissions{polls: map[string]cluster.NodeStats{}}
	for _, k := range classes {
		ready := admissionClass{AdmissionClass: k}
		if k.Index != "" {
			ready.targets = matchTargets([]string{k.Index})
		}
		a.classes, o.Classes = append(a.classes, ready), append(o.Classes, k.Class)
	}
	a.own.Store(cmp.Or(o.Mode, admission.Off))
	a.mode.Store(admission.Off) // until the proxy's own mode is known
	o.Mode = admission.Off
	a.control = admission.New(o)
	a.timer = time.AfterFunc(time.Hour, a.turn)
	a.timer.Stop()
	return a
}

// AdmissionMode returns the mode that searches are admitted in: the more careful of what
// [Proxy.SetAdmissionMode] and [Proxy.SetMode] have set.
func (p *Proxy) AdmissionMode() admission.Mode { return p.admission.inForce() }

// WritesMode returns the mode that writes are admitted in.
func (p *Proxy) WritesMode() admission.Mode { return p.writes.inForce() }

// OwnAdmissionMode returns the mode that [Proxy.SetAdmissionMode] has set.
func (p *Proxy) OwnAdmissionMode() admission.Mode { return p.admission.own.Load().(admission.Mode) }

// SetAdmissionMode switches the mode of admission at run time. Without a target response
// time mode target is an [ErrNoTarget].
func (p *Proxy) SetAdmissionMode(m admission.Mode) error {
	if _, err := admission.ParseMode(string(m)); err != nil {
		return err
	}
	if m == admission.Target && p.o.Admission.TargetResponseTime <= 0 {
		return ErrNoTarget
	}
	p.admission.own.Store(m)
	p.admission.follow(p)
	return nil
}

// follow puts the mode in force that the proxy's own leaves. Both are read under the lock: whoever comes last sees what
// was set.
func (a *admissions) follow(p *Proxy) {
	a.do(func(now time.Time) []*admission.Ticket {
		routing, m := p.Mode(), a.own.Load().(admission.Mode)
		switch {
		case routing == ModeOff:
			m = admission.Off
		case routing == ModeObserve && m != admission.Off:
			m = admission.Observe
		}
		a.mode.Store(m)
		return a.control.SetMode(m, now)
	})
}

// NeedsPolls reports whether anything is chosen or admitted by what polls of the node of this id tell.
func (p *Proxy) NeedsPolls(node string) bool {
	return p.o.Selector.NeedsPolls(node, time.Now()) || p.admission.inForce() != admission.Off || p.writes.inForce() != admission.Off
}

// inForce returns the mode in force.
func (a *admissions) inForce() admission.Mode { return a.mode.Load().(admission.Mode) }

// classOf returns the position of the class of a request: the first of which the conditions hold.
func (a *admissions) classOf(x *exchange) int {
	return slices.IndexFunc(a.classes, func(k admissionClass) bool { return k.matches(x) })
}

// decide has the control do something with the ticket of x, and returns the verdict about it. The class of the ticket is guarded
// by a.mu once it was offered: that of x is what it is now, which may be a lower one.
func (a *admissions) decide(x *exchange, what func(*admission.Control, *admission.Ticket, time.Time) []*admission.Ticket) (admission.Verdict, admission.Reason) {
	a.mu.Lock()
	defer a.mu.Unlock()
	t, now := &x.ticket, time.Now()
	a.signal(what(a.control, t, now), now)
	x.Class = a.classes[t.Class].Name
	return t.Verdict, t.Reason
}

// await waits until the verdict about the ticket of x has come, or it is to be decided anew. It leaves once its client is gone.
func (a *admissions) await(x *exchange) (admission.Verdict, admission.Reason) {
	select {
	case <-x.turn:
	case <-x.r.Context().Done():
	}
	return a.decide(x, func(c *admission.Control, t *admission.Ticket, now time.Time) []*admission.Ticket {
		if t.Verdict == admission.Waits && x.r.Context().Err() != nil {
			return c.Abandon(t, now)
		}
		return nil
	})
}

// fits reports whether there is room for a ticket where it is to go.
func (a *admissions) fits(t *admission.Ticket) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.control.Fits(t, time.Now())
}

// full reports whether something waits for room.
func (a *admissions) full() bool {
	if a.inForce() == admission.Off {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.control.Full(time.Now())
}

// turn is called by the timer when something is to be done with what waits, see [admission.Control.Next].
func (a *admissions) turn() { a.do(a.control.Turn) }

// do has the control do something, and tells the requests that got a verdict by it.
func (a *admissions) do(what func(now time.Time) []*admission.Ticket) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	a.signal(what(now), now)
}

// signal has requests look at their verdicts. a.mu is held.
func (a *admissions) signal(turned []*admission.Ticket, now time.Time) {
	for _, t := range turned {
		select {
		case t.Owner.(*exchange).turn <- struct{}{}:
		default: // it has not yet looked since it was last told
		}
	}
	if next := a.control.Next(now); !next.IsZero() {
		a.timer.Reset(time.Until(next))
	}
}

// reconsider has what waits for a node decided anew.
func (a *admissions) reconsider(node string) {
	a.do(func(time.Time) []*admission.Ticket { return a.control.Awaiting(node) })
}

// update takes in which nodes there are. What waits for one that has left waits no longer.
func (a *admissions) update(s *cluster.Snapshot) {
	ids, queues := make([]string, len(s.Nodes)), make(map[string]int, len(s.Nodes))
	for i, n := range s.Nodes {
		ids[i] = n.ID
		queues[n.ID] = n.SearchQueue
	}
	a.do(func(now time.Time) []*admission.Ticket {
		a.queues = queues
		maps.DeleteFunc(a.polls, func(id string, _ cluster.NodeStats) bool { _, there := queues[id]; return !there })
		a.control.Update(ids)
		return a.control.Turn(now)
	})
}

// observe takes in a poll.
func (a *admissions) observe(st cluster.NodeStats) {
	if st.State != cluster.PollOK || a.writes && st.WriteThreads == 0 {
		return // it did not answer, or a relay of an older version does not tell of its write pool
	}
	p := admission.Poll{
		Threads: st.Threads, Queue: float64(st.Queue), Active: st.Active,
		Completed: st.Queries, ServiceTime: st.ServiceTime, Rejected: st.RejectedTasks,
	}
	if a.writes {
		p = admission.Poll{
			Threads: st.WriteThreads, Queue: float64(st.WriteQueue), Active: float64(st.WriteActive),
			QueueSize: usualWriteQueue, Completed: st.Writes, Rejected: st.WriteRejected,
		}
	}
	p.Stalled = st.Throttled
	a.mu.Lock()
	defer a.mu.Unlock()
	st.Coordinated = nil // it may be large, and is not needed
	a.polls[st.Node] = st
	if !a.writes {
		p.QueueSize = int64(a.queues[st.Node])
	}
	a.signal(a.control.Observe(st.Node, p, st.At), st.At)
}

// classViews describes the classes; none while admission of writes is off, which nobody
// asked for.
func (a *admissions) classViews() []admission.ClassView {
	if a.writes && a.inForce() == admission.Off {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.control.Classes()
}

// view describes the load of a node; nil while admission is off.
func (a *admissions) view(id string, now time.Time) *admission.Load {
	if a.inForce() == admission.Off {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	v := a.control.View(id, now)
	return &v
}
