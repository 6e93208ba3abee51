package admission

import "time"

// Ticket is one search on its way: a request, whatever it is sent as. The caller fills in
// what is exported and keeps it until [Control.Done].
type Ticket struct {
	Class int // position in Options.Classes
	// Parts are what it sends to which node; none: to any node, and how much is not
	// known.
	Parts []Part
	// Searches is how many searches it stands for; 0: one.
	Searches int
	// AtOnce is how many of these the engine has at a time; 0: as many as it does by default.
	AtOnce int
	// Passes: it goes on at once whatever the limits, but is counted.
	Passes bool
	Bytes  int64 // that are held while it waits
	Owner  any   // the caller's own
	// Failed: no node has answered it well. How long that took says nothing of its class.
	Failed bool

	Verdict Verdict
	Reason  Reason // of a refusal
	// Unmeasured: it was admitted because nothing is known of the load of its nodes.
	Unmeasured bool

	charges []charge
	cost    float64
	each    float64   // what one of its searches costs; 0: that is not known
	began   time.Time // when it was offered
	sent    time.Time // when it was last admitted, or was refused
	charged bool      // it is in flight
	placed  bool      // and there was room for it
	paid    float64   // what that cost its class of its turn, see class.virtual
	queued  bool      // it is in the queue of its class
	blocked int       // position in charges of the node where something came before it last
	next    *Ticket   // in its class's queue
	before  *Ticket
}

// charge is a part of a ticket on its node.
type charge struct {
	node   *Node
	tasks  float64
	needed bool
}

// atNodes returns how many shard queries the nodes have of the ticket at a time.
func (t *Ticket) atNodes() float64 {
	sum := 0.0
	for _, h := range t.charges {
		sum += h.tasks
	}
	return sum
}

// Reset makes t ready for another search.
func (t *Ticket) Reset() { *t = Ticket{Parts: t.Parts[:0], charges: t.charges[:0], Owner: t.Owner} }

// Expect adds shard queries to what the ticket sends to a node.
func (t *Ticket) Expect(p Part) {
	for i := range t.Parts {
		if t.Parts[i].Node == p.Node {
			t.Parts[i].Tasks += p.Tasks
			t.Parts[i].Needed = t.Parts[i].Needed || p.Needed
			return
		}
	}
	t.Parts = append(t.Parts, p)
}

// Waited returns for how long the ticket waited before it was admitted.
func (t *Ticket) Waited() time.Duration { return max(0, t.sent.Sub(t.began)) }
