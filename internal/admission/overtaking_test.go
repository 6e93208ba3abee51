package admission

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A search that the share of its class holds back is overtaken by nothing that comes later, or a wide one
// would wait for as long as small ones come. Other classes pass.
func TestWhatAShareHoldsBackIsNotOvertaken(t *testing.T) {
	o := limited(20)
	o.Classes = []Class{{Name: "default"}, {Name: "other"}}
	r := newRig(t, o, 1)
	r.poll(Poll{Completed: 1})
	r.of(1, 0)
	var small []*Ticket
	for range 8 {
		small = append(small, r.of(0, 0))
		require.Equal(t, Admitted, small[len(small)-1].Verdict)
	}
	wide := &Ticket{Parts: []Part{{Node: "0", Tasks: 300, Needed: true}}}
	r.Offer(wide, r.now)
	require.Equal(t, Waits, wide.Verdict, "8 in flight and 5 at a time are more than half of the limit")
	later := r.of(0, 0)
	require.Equal(t, Waits, later.Verdict)
	require.Equal(t, Admitted, r.of(1, 0).Verdict)
	for _, s := range small[:3] {
		r.done(s)
	}
	require.Equal(t, []Verdict{Admitted, Waits}, []Verdict{wide.Verdict, later.Verdict})
	r.done(wide)
	require.Equal(t, Admitted, later.Verdict)
	require.Equal(t, Admitted, r.of(0, 0).Verdict)
}

// One that is wider than the share of its class goes when half of the share is free, and not only when nothing of its class is
// in flight.
func TestAWideSearchNeedsHalfOfAShare(t *testing.T) {
	o := limited(20)
	o.Classes = []Class{{Name: "default"}, {Name: "other"}}
	r := newRig(t, o, 1)
	r.poll(Poll{Completed: 1})
	r.of(1, 0)
	for range 5 {
		r.of(0, 0)
	}
	wide := &Ticket{Searches: 2, Parts: []Part{{Node: "0", Tasks: 14, Needed: true}}}
	r.Offer(wide, r.now)
	require.Equal(t, Admitted, wide.Verdict)
}

// What waits for one node reserves on the others what it sends there, and that only if it is the next one for
// the node that it waits for.
func TestANodeThatManyWaitForLeavesTheOthers(t *testing.T) {
	r := newRig(t, limited(4), 3)
	var busy []*Ticket
	for range 4 {
		busy = append(busy, r.search(0))
	}
	var all []*Ticket
	for range 5 {
		s := &Ticket{Parts: []Part{{Node: "0", Tasks: 1, Needed: true}, {Node: "1", Tasks: 1}, {Node: "2", Tasks: 1}}}
		r.Offer(s, r.now)
		require.Equal(t, Waits, s.Verdict)
		all = append(all, s)
	}
	for range 3 {
		require.Equal(t, Admitted, r.search(1).Verdict)
	}
	behind := r.search(1)
	require.Equal(t, Waits, behind.Verdict, "the last place is that of the first that waits")
	r.done(busy[0])
	require.Equal(t, []Verdict{Admitted, Waits, Waits}, []Verdict{all[0].Verdict, all[1].Verdict, behind.Verdict})
}

// What waits for nodes that have not enough room in sum reserves all of it: nothing small keeps it waiting for ever.
func TestWhatLacksRoomInSumIsNotOvertaken(t *testing.T) {
	r := newRig(t, limited(4), 2)
	var small []*Ticket
	for range 3 {
		small = append(small, r.search(0), r.search(1))
	}
	wide := &Ticket{Parts: []Part{{Node: "0", Tasks: 2}, {Node: "1", Tasks: 2}}}
	r.Offer(wide, r.now)
	require.Equal(t, Waits, wide.Verdict)
	require.Equal(t, Waits, r.search(0).Verdict)
	r.done(small[0])
	r.done(small[1])
	require.Equal(t, Admitted, wide.Verdict)
}

// What waits for a node that has left the cluster waits no longer.
func TestANodeThatLeavesIsNotWaitedFor(t *testing.T) {
	r := newRig(t, limited(1), 2)
	r.search(0)
	waits := r.search(0)
	require.Equal(t, Waits, waits.Verdict)
	r.Update([]string{"1"})
	r.poll(Poll{})
	require.Equal(t, Admitted, waits.Verdict)
}

// While its nodes are full, what exceeds the rate of a class is of the lower one: it would wait for the clock later.
func TestWhatWaitsForRoomUsesUpTheRate(t *testing.T) {
	o := limited(1)
	o.Classes = []Class{{Name: "first", Rate: 5, Downgrade: "second"}, {Name: "second"}}
	r := newRig(t, o, 1)
	busy := r.of(1, 0)
	a, b := r.of(0, 0), r.of(0, 0)
	require.Equal(t, []int{0, 1}, []int{a.Class, b.Class})
	r.done(busy)
	r.done(a)
	require.Equal(t, Admitted, b.Verdict)
}

// What comes within the rate of a class is never of the lower one, however many wait for room.
func TestWhatIsWithinTheRateIsNotDowngraded(t *testing.T) {
	o := limited(1)
	o.Classes = []Class{{Name: "first", Rate: 10, Downgrade: "second"}, {Name: "second"}}
	r := newRig(t, o, 1)
	r.of(1, 0)
	for range 50 {
		require.Zero(t, r.of(0, 0).Class)
		r.now = r.now.Add(200 * time.Millisecond)
		r.poll(Poll{})
	}
	require.Equal(t, 50, r.Classes()[0].Waiting)
}

// In place of a search of another class one of a flood is refused that makes room, whatever came last.
func TestAFullQueueLooksForWhatMakesRoom(t *testing.T) {
	o := limited(1)
	o.Classes = []Class{{Name: "flood"}, {Name: "other"}}
	r := newRig(t, o, 2)
	for _, n := range r.order {
		n.capacity = 10
	}
	r.of(0, 0)
	r.of(0, 1)
	for range 10 {
		require.Equal(t, Waits, r.of(0, 0).Verdict)
	}
	require.Equal(t, Waits, r.of(0, 1).Verdict)
	other := &Ticket{Class: 1, Parts: []Part{{Node: "0", Tasks: 1, Needed: true}}}
	turned := r.Offer(other, r.now)
	require.Equal(t, Waits, other.Verdict)
	require.Len(t, turned, 1)
	require.Equal(t, "0", turned[0].Parts[0].Node)
	require.Equal(t, 10, r.Classes()[0].Waiting)
}

// A deadline that is longer than clients wait does not keep the order of arrival once they leave.
func TestClientsMayWaitForLessThanADeadline(t *testing.T) {
	o := limited(1)
	o.Classes = []Class{{Name: "default", Deadline: time.Hour}}
	r := newRig(t, o, 1)
	under := r.search(0)
	for range 5 {
		gone := r.search(0)
		r.now = r.now.Add(time.Second)
		r.poll(Poll{})
		r.Abandon(gone, r.now)
	}
	oldest := r.search(0)
	r.now = r.now.Add(time.Second)
	newest := r.search(0)
	r.done(under)
	require.Equal(t, []Verdict{Waits, Admitted}, []Verdict{oldest.Verdict, newest.Verdict})
}

// What a class is sent while another waits for the clock alone costs it no turn later.
func TestWhatWaitsForTheClockMakesNoDebt(t *testing.T) {
	o := limited(1000)
	o.Classes = []Class{{Name: "slow", Rate: 1}, {Name: "default"}, {Name: "other"}}
	r := newRig(t, o, 1)
	r.of(0, 0)
	require.Equal(t, Waits, r.of(0, 0).Verdict)
	for range 100 {
		r.done(r.of(1, 0))
	}
	require.Zero(t, r.classes[1].virtual)
}

// Deciding anew where a search is sent frees the node where it was to be sent, for what waits there.
func TestMovingATicketLetsAnotherIn(t *testing.T) {
	r := newRig(t, limited(1), 2)
	s, waits := r.search(0), r.search(0)
	s.Parts = []Part{{Node: "1", Tasks: 1, Needed: true}}
	require.Len(t, r.Move(s, r.now), 1)
	require.Equal(t, Admitted, waits.Verdict)
}

// Once nodes have been full, what waits within the rate of a class that has a lower one goes as there is room: as many come as
// the rate allows, so that by the clock they would wait for ever, and longer than what the lower class was given.
func TestWhatIsWithinTheRateDoesNotWaitForTheClock(t *testing.T) {
	o := limited(1)
	o.Classes = []Class{{Name: "first", Rate: 10, Downgrade: "second"}, {Name: "second"}}
	r := newRig(t, o, 1)
	busy := r.of(1, 0)
	for range 50 {
		require.Zero(t, r.of(0, 0).Class)
		r.now = r.now.Add(100 * time.Millisecond)
	}
	require.Equal(t, 50, r.Waiting())
	for turned := r.Done(busy, r.now); len(turned) > 0; {
		turned = r.Done(turned[0], r.now)
	}
	require.Zero(t, r.Waiting())
}

// What waited for a node that has left waits for room where it is sent to now, by the time of its arrival: else all of it would be there at once.
func TestWhatIsMovedWaitsForRoomThere(t *testing.T) {
	r := newRig(t, limited(1), 2)
	gone, busy := r.search(0), r.search(1)
	waits := []*Ticket{r.search(0), r.search(0)}
	r.now = r.now.Add(time.Millisecond)
	later := r.search(1)
	r.Update([]string{"1"})
	require.Len(t, r.Turn(r.now), 2)
	for _, s := range waits {
		s.Parts = []Part{{Node: "1", Tasks: 1, Needed: true}}
		require.Empty(t, r.Move(s, r.now))
	}
	require.Equal(t, []Verdict{Waits, Waits, Waits}, []Verdict{waits[0].Verdict, waits[1].Verdict, later.Verdict})
	r.done(gone)
	for _, s := range append(waits, later) {
		require.Equal(t, []*Ticket{s}, r.Done(busy, r.now))
		busy = s
	}
	r.done(busy)
	require.Equal(t, int64(5), r.Classes()[0].Admitted)
}

// Once nothing is left of the nodes that something waits for, no more is looked at: nodes to which nothing goes, as dedicated
// managers, do not count.
func TestAFullClusterIsNotSearchedForRoom(t *testing.T) {
	r := newRig(t, limited(1), 2)
	r.Update([]string{"0", "1", "manager"})
	r.search(0)
	r.search(1)
	for range 500 {
		require.Equal(t, Waits, r.search(0, 1).Verdict)
	}
	r.Observe("0", Poll{Threads: 2}, r.now)
	require.Less(t, r.classes[0].missed, 10)
}

// A node that has left counts for as long as something waits for it: what waits is looked at although nothing is left of the others.
func TestWhatWaitsForANodeThatLeftIsLookedAt(t *testing.T) {
	r := newRig(t, limited(1), 3)
	for _, n := range []int{0, 1, 2} {
		r.search(n)
	}
	full := r.search(0)
	freed := r.search(2)
	r.Update([]string{"0", "1"})
	require.Equal(t, []*Ticket{freed}, r.Turn(r.now))
	require.Equal(t, []Verdict{Waits, Admitted}, []Verdict{full.Verdict, freed.Verdict})
	require.Equal(t, 1, r.sought)
	r.Abandon(full, r.now)
	require.Zero(t, r.sought)
}

// One that is decided anew and waits again has not yet been sent: by the rate and the turn of its class, too. It is counted once.
func TestWhatWaitsAgainHasNotHadItsTurn(t *testing.T) {
	o := limited(1)
	o.Classes = []Class{{Name: "limited", Rate: 0.001}, {Name: "other"}}
	r := newRig(t, o, 2)
	first, busy := r.of(1, 0), r.of(1, 1)
	waits := r.of(0, 0)
	r.of(1, 1)
	r.Update([]string{"1"})
	require.Equal(t, []*Ticket{waits}, r.Turn(r.now))
	require.Equal(t, int64(1), r.Classes()[0].Admitted)
	waits.Parts = []Part{{Node: "1", Tasks: 1, Needed: true}}
	r.Move(waits, r.now)
	require.Equal(t, Waits, waits.Verdict)
	require.Equal(t, int64(1), r.Classes()[0].Admitted)
	require.Zero(t, r.classes[0].virtual)
	r.done(first)
	require.Equal(t, []*Ticket{waits}, r.Done(busy, r.now))
	require.Equal(t, int64(1), r.Classes()[0].Admitted)
	require.False(t, r.classes[0].may(r.now))
}

// What the share of its class holds back is overtaken by nothing of the class, although no node was left when its turn came.
func TestWhatIsHeldBackIsNotOvertakenWhereNoNodeIsLeft(t *testing.T) {
	o := limited(10)
	o.Classes = []Class{{Name: "first"}, {Name: "second"}}
	r := newRig(t, o, 2)
	r.poll(Poll{Completed: 1}) // they serve
	for range 9 {
		r.of(0, 0)
	}
	r.of(1, 0)
	for range 5 {
		r.of(1, 1)
	}
	require.Equal(t, Waits, r.of(0, 0).Verdict)
	wide := &Ticket{Class: 1, Parts: []Part{{Node: "0", Tasks: 5, Needed: true}}}
	r.Offer(wide, r.now)
	require.True(t, r.classes[1].held)
	r.Turn(r.now)
	require.Equal(t, Waits, r.of(1, 1).Verdict)
}

// What waits may be decided anew: it waits for room where it is to go now, by the time of its arrival.
func TestWhatWaitsIsMoved(t *testing.T) {
	r := newRig(t, limited(1), 2)
	first, busy := r.search(0), r.search(1)
	moved := r.search(0)
	r.now = r.now.Add(time.Millisecond)
	later := r.search(1)
	require.Equal(t, []*Ticket{moved}, r.Awaiting("0"))
	moved.Parts = []Part{{Node: "1", Tasks: 1, Needed: true}}
	require.Empty(t, r.Move(moved, r.now))
	require.Empty(t, r.Awaiting("0"))
	require.Equal(t, []*Ticket{moved}, r.Done(busy, r.now))
	require.Equal(t, []*Ticket{later}, r.Done(moved, r.now))
	r.done(first)
	again := r.search(1)
	again.Parts = []Part{{Node: "0", Tasks: 1, Needed: true}}
	require.Empty(t, r.Move(again, r.now), "the caller looks at its verdict")
	require.Equal(t, Admitted, again.Verdict)
	require.Equal(t, []float64{1, 1}, []float64{r.View("0", r.now).Admitted, r.View("1", r.now).Admitted})
}

// Of two nodes that others wait for a search may need one, though it needs neither of them.
func TestWhatMayNeedOneOfTwoFullNodesWaitsForThem(t *testing.T) {
	r := newRig(t, limited(4), 4)
	for range 5 { // both are full, and one waits for each
		r.search(0)
		r.search(1)
	}
	s := &Ticket{}
	for _, node := range []string{"0", "1", "2", "3"} { // some shard may have its copies on the two
		s.Expect(Part{Node: node, Tasks: 0.5})
	}
	r.Offer(s, r.now)
	require.Equal(t, Waits, s.Verdict)
}

// What is decided anew after its wait stays off the node where something that waits needs the room, so that gathers there.
func TestWhatIsDecidedAnewLeavesRoomForWhatWaits(t *testing.T) {
	r := newRig(t, limited(4), 3)
	var wide []*Ticket
	for range 4 {
		wide = append(wide, r.search(0, 1, 2))
	}
	large := &Ticket{}
	large.Expect(Part{Node: "0", Tasks: 3, Needed: true})
	r.Offer(large, r.now)
	next := r.search(0, 1, 2)
	require.Equal(t, []Verdict{Waits, Waits}, []Verdict{large.Verdict, next.Verdict})
	r.done(wide[0])
	r.done(wide[1])
	require.Equal(t, []Verdict{Waits, Admitted}, []Verdict{large.Verdict, next.Verdict})
	r.Move(next, r.now)
	r.done(wide[2])
	require.Equal(t, Admitted, large.Verdict)
	for _, s := range []*Ticket{wide[3], next, large} {
		r.done(s)
	}
	for _, n := range r.order {
		require.Equal(t, []float64{0, 0, 0}, []float64{n.ours, n.searches, n.waiting})
	}
}

// What can go to other nodes does not wait for one that others wait for, and takes no room there: what needs it goes next.
func TestWhatCanGoElsewhereDoesNotWaitForAFullNode(t *testing.T) {
	r := newRig(t, limited(4), 3)
	var busy []*Ticket
	for range 4 {
		busy = append(busy, r.search(0))
	}
	waits := r.search(0)
	var others []*Ticket
	for range 2 {
		others = append(others, r.search(0, 1, 2))
		require.Equal(t, Admitted, others[len(others)-1].Verdict)
	}
	require.Equal(t, []float64{4, 3, 3}, []float64{r.View("0", r.now).Admitted, r.View("1", r.now).Admitted, r.View("2", r.now).Admitted})
	behind := r.search(0, 1, 2)
	require.Equal(t, []Verdict{Waits, Waits}, []Verdict{waits.Verdict, behind.Verdict}, "the others have no room for it")
	small := r.search(1)
	require.Equal(t, Waits, small.Verdict, "what is left is reserved")
	r.done(busy[0])
	require.Equal(t, []Verdict{Admitted, Waits}, []Verdict{waits.Verdict, behind.Verdict})
	for _, s := range append(others, busy[1:]...) {
		r.done(s)
	}
	for _, s := range []*Ticket{waits, behind, small} {
		require.Equal(t, Admitted, s.Verdict)
		r.done(s)
	}
	for _, n := range r.order {
		require.Equal(t, []float64{0, 0, 0}, []float64{n.ours, n.searches, n.waiting})
	}
}

// What the share of its class holds back reserves no room, although it lacks some: searches of other classes go as when the next
// answer has come.
func TestWhatAShareHoldsBackReservesNoRoom(t *testing.T) {
	o := limited(20)
	o.Classes = []Class{{Name: "flood"}, {Name: "other"}}
	r := newRig(t, o, 1)
	r.poll(Poll{Completed: 1})
	for range 6 {
		require.Equal(t, Admitted, r.of(1, 0).Verdict)
	}
	for range 10 {
		require.Equal(t, Admitted, r.of(0, 0).Verdict)
	}
	wide := &Ticket{Parts: []Part{{Node: "0", Tasks: 5, Needed: true}}}
	r.Offer(wide, r.now)
	require.Equal(t, Waits, wide.Verdict, "its class has its share, and the node room for four")
	require.Equal(t, Waits, r.of(0, 0).Verdict)
	require.Equal(t, Admitted, r.of(1, 0).Verdict)
}

// Of two nodes of which something that waits has reserved a part, and that have room, a search that need not go there waits for
// neither: what is reserved stays free.
func TestWhatIsReservedInPartKeepsNothingWaiting(t *testing.T) {
	r := newRig(t, limited(4), 4)
	for range 4 {
		r.search(0)
	}
	for range 3 {
		r.search(1)
		r.search(2)
	}
	first := &Ticket{Parts: []Part{{Node: "0", Tasks: 1, Needed: true}, {Node: "1", Tasks: 1}, {Node: "2", Tasks: 1}}}
	r.Offer(first, r.now)
	require.Equal(t, []Verdict{Waits, Admitted}, []Verdict{first.Verdict, r.search(1, 2, 3).Verdict})
	require.Equal(t, []float64{3, 3, 3}, []float64{r.View("1", r.now).Admitted, r.View("2", r.now).Admitted, r.View("3", r.now).Admitted})
}
