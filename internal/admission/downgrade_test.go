package admission

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// lowering are classes of which each gives to the next what it would refuse.
func lowering() []Class {
	return []Class{
		{Name: "first", Rate: 10, Deadline: time.Second, Downgrade: "second"},
		{Name: "second", Deadline: time.Second, Downgrade: "third"},
		{Name: "third", Deadline: 10 * time.Second},
	}
}

// A search beyond the rate of its class is one of the lower class, and does not wait for a turn.
func TestWhatExceedsTheRateIsDowngraded(t *testing.T) {
	o := limited(100)
	o.Classes = lowering()
	r := newRig(t, o, 1)
	first, second := r.of(0, 0), r.of(0, 0)
	require.Equal(t, []Verdict{Admitted, Admitted}, []Verdict{first.Verdict, second.Verdict})
	require.Equal(t, []int{0, 1}, []int{first.Class, second.Class})
	require.Equal(t, int64(1), r.Classes()[0].Downgraded)
	require.Equal(t, []int64{1, 1, 0}, []int64{r.Classes()[0].Admitted, r.Classes()[1].Admitted, r.Classes()[2].Admitted})
	r.done(second)
	r.now = r.now.Add(time.Second)
	require.Zero(t, r.of(0, 0).Class, "there is something left of the rate")
	passes := &Ticket{Passes: true, Parts: []Part{{Node: "0", Tasks: 1}}}
	r.Offer(passes, r.now)
	require.Zero(t, passes.Class)
}

// One that has waited for its deadline waits on in the first class below that is more
// patient, and comes to an end there.
func TestADeadlineDowngradesBeforeItRefuses(t *testing.T) {
	o := limited(1)
	o.Classes = lowering()
	r := newRig(t, o, 1)
	busy := r.search(0)
	late := r.of(1, 0)
	require.Equal(t, Waits, late.Verdict)
	r.now = r.now.Add(r.Patience(late.Class))
	require.Empty(t, r.Turn(r.now))
	require.Equal(t, 2, late.Class)
	require.Equal(t, []int{0, 0, 1}, []int{r.Classes()[0].Waiting, r.Classes()[1].Waiting, r.Classes()[2].Waiting})
	require.Equal(t, 10*time.Second, r.Patience(late.Class))
	r.done(busy)
	require.Equal(t, Admitted, late.Verdict)
	r.now = r.now.Add(10 * time.Second)
	require.Empty(t, r.Turn(r.now), "it has been admitted")
	r.done(late)
	require.Zero(t, r.View("0", r.now).Admitted)
}

// Classes that name each other let nothing wait for ever, and queue.time bounds all of them.
func TestDowngradesComeToAnEnd(t *testing.T) {
	o := limited(1)
	o.Classes = []Class{{Name: "a", Rate: 0.1, Deadline: time.Second, Downgrade: "b"}, {Name: "b", Rate: 0.1, Deadline: 2 * time.Second, Downgrade: "a"}}
	r := newRig(t, o, 1)
	for range 3 {
		r.search(0)
	}
	waits := r.search(0)
	r.now = r.now.Add(2 * time.Second)
	r.Turn(r.now)
	require.Equal(t, []any{Refused, TooLate}, []any{waits.Verdict, waits.Reason})
	o.Classes, o.Queue.Time = lowering(), time.Second
	r = newRig(t, o, 1)
	r.search(0)
	waits = r.of(1, 0)
	r.now = r.now.Add(time.Second)
	require.Equal(t, []*Ticket{waits}, r.Turn(r.now))
	require.Equal(t, []any{Refused, TooLate}, []any{waits.Verdict, waits.Reason})
}

func TestObserveCountsDowngrades(t *testing.T) {
	r := observed(t, QueueOptions{}, lowering()...)
	busy, second := r.of(2, 0), r.of(1, 0)
	require.Equal(t, []Verdict{Admitted, Admitted}, []Verdict{busy.Verdict, second.Verdict})
	r.now = r.now.Add(1100 * time.Millisecond)
	r.poll(Poll{})
	require.Equal(t, int64(1), r.Classes()[1].Downgraded)
	require.Empty(t, r.Classes()[1].WouldRefuse)
	r.done(busy)
	r.done(second)
	require.Empty(t, r.Classes()[2].WouldRefuse)
	require.Zero(t, r.View("0", r.now).Admitted)
}

// One that is downgraded has waited for longer than what came to the lower class meanwhile,
// and goes before it.
func TestWhatIsDowngradedKeepsItsPlace(t *testing.T) {
	o := limited(1)
	o.Classes = lowering()
	r := newRig(t, o, 1)
	busy := r.of(2, 0)
	eldest := r.of(2, 0)
	r.now = r.now.Add(time.Millisecond)
	late := r.of(1, 0)
	r.now = r.now.Add(900 * time.Millisecond)
	younger := r.of(2, 0)
	r.now = late.began.Add(r.Patience(late.Class))
	r.Turn(r.now)
	k := &r.classes[2]
	require.Equal(t, []*Ticket{eldest, late, younger}, []*Ticket{k.oldest, k.oldest.next, k.oldest.next.next})
	require.Equal(t, []*Ticket{younger, late, eldest}, []*Ticket{k.newest, k.newest.before, k.newest.before.before})
	for _, one := range []*Ticket{busy, eldest, late} {
		r.done(one)
	}
	require.Equal(t, Admitted, younger.Verdict)
	r.done(younger)
	require.Nil(t, k.oldest)
	require.Nil(t, k.newest)
}

// Its patience counts from when it was offered, also where mode observe looks.
func TestObserveCountsDeadlinesOfWhatIsDowngraded(t *testing.T) {
	r := observed(t, QueueOptions{}, lowering()...)
	r.of(2, 0)
	r.of(1, 0)
	r.now = r.now.Add(900 * time.Millisecond)
	r.of(2, 0)
	r.now = r.now.Add(200 * time.Millisecond)
	r.poll(Poll{})
	require.Equal(t, int64(1), r.Classes()[1].Downgraded)
	r.now = r.now.Add(8900*time.Millisecond + time.Millisecond)
	r.poll(Poll{})
	require.Equal(t, map[Reason]int64{TooLate: 1}, r.Classes()[2].WouldRefuse)
}

// A class has no more than its rate, also of what others downgrade to it.
func TestADowngradeKeepsToTheRateOfTheLowerClass(t *testing.T) {
	o := limited(1)
	o.Classes = []Class{{Name: "first", Deadline: time.Second, Downgrade: "second"}, {Name: "second", Rate: 1, Downgrade: "third"}, {Name: "third"}}
	r := newRig(t, o, 1)
	r.search(0)
	a, b := r.search(0), r.search(0)
	r.now = r.now.Add(time.Second)
	r.Turn(r.now)
	require.Equal(t, []int{1, 2}, []int{a.Class, b.Class})
}

// Nothing is refused for a rate: where only a class that has used up its own has patience, that one takes it.
func TestARateRefusesNothing(t *testing.T) {
	o := limited(1)
	o.Classes = []Class{
		{Name: "first", Deadline: 2 * time.Second, Downgrade: "second"}, {Name: "second", Rate: 0.1, Downgrade: "third"}, {Name: "third", Deadline: time.Second},
	}
	r := newRig(t, o, 1)
	require.Equal(t, []int{1, 2}, []int{r.of(1, 0).Class, r.of(1, 0).Class})
	late := r.of(0, 0)
	r.now = r.now.Add(2 * time.Second)
	r.Turn(r.now)
	require.Equal(t, 1, late.Class)
}

// What has waited for as long as it may is refused by the clock alone, whatever else waits.
func TestADeadlineEndsTheWait(t *testing.T) {
	o := limited(1)
	o.Classes = []Class{{Name: "hurried", Deadline: time.Second}, {Name: "patient"}}
	r := newRig(t, o, 1)
	busy, late := r.of(1, 0), r.of(0, 0)
	patient := r.of(1, 0)
	require.Equal(t, r.now.Add(time.Second), r.Next(r.now))
	r.now = r.Next(r.now)
	require.Equal(t, []*Ticket{late}, r.Turn(r.now))
	require.Equal(t, []any{Refused, TooLate, Waits}, []any{late.Verdict, late.Reason, patient.Verdict})
	r.done(busy)
	require.Equal(t, Admitted, patient.Verdict)
}

// One that is decided anew after its deadline, and finds no room, is refused at once: the caller looks at its verdict.
func TestADeadlineEndsAWaitThatBeginsAgain(t *testing.T) {
	o := limited(1)
	o.Classes = []Class{{Name: "hurried", Deadline: time.Second}, {Name: "patient"}}
	r := newRig(t, o, 2)
	busy, late := r.of(1, 0), r.of(0, 0)
	r.of(1, 1)
	r.done(busy)
	require.Equal(t, Admitted, late.Verdict)
	r.now = r.now.Add(time.Second)
	late.Parts = []Part{{Node: "1", Tasks: 1, Needed: true}}
	require.Empty(t, r.Move(late, r.now))
	require.Equal(t, []any{Refused, TooLate}, []any{late.Verdict, late.Reason})
	require.Zero(t, r.View("0", r.now).Admitted)
}
