package attempt

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	search = Rule{Steered: 2, Hedged: true, Repeatable: true}
	once   = Rule{Steered: 1}
	byID   = Rule{Steered: 1, Repeatable: true}
	read   = Rule{Repeatable: true}
	write  = Rule{}
)

// step is one attempt: how it is sent and how it ends, and what is to follow.
type step struct {
	narrowed bool
	result   Result
	next     Action
}

func answered(c Cause) Result { return Result{Cause: c} }

func partial(lost int) Result { return Result{Cause: Partial, Lost: lost} }

// full is what comes of a search where the queues of all copies of some shard are full.
func full(c Cause) Result { return Result{Cause: c, Lost: 1, Full: true} }

// ofRequest is what comes of a search where some shard cannot do what is asked.
var ofRequest = Result{Cause: Partial, Lost: 1, OfRequest: true}

func TestWhatFollowsAnAttempt(t *testing.T) {
	steer, unchanged := Action{Do: Steer}, Action{Do: Unchanged}
	answer := func(i int) Action { return Action{Do: Answer, Attempt: i} }
	for name, c := range map[string]struct {
		rule  Rule
		steps []step
	}{
		"a good answer":                     {search, []step{{true, answered(Good), answer(0)}}},
		"the next best copies":              {search, []step{{true, answered(EngineError), steer}, {true, answered(Good), answer(1)}}},
		"the client's own request":          {search, []step{{true, answered(Rejected), steer}, {true, answered(Rejected), unchanged}, {false, answered(Rejected), answer(2)}}},
		"a broken connection":               {search, []step{{true, Result{Cause: Transport}, steer}, {true, answered(Good), answer(1)}}},
		"not sent is free":                  {search, []step{{true, Result{Cause: Unreachable}, steer}, {true, Result{Cause: Unreachable}, steer}, {true, Result{Cause: Unreachable}, steer}, {true, answered(EngineError), steer}}},
		"the preference is forbidden":       {search, []step{{true, answered(Forbidden), unchanged}, {false, answered(Good), answer(1)}}},
		"the request is refused":            {search, []step{{true, answered(Refused), unchanged}, {false, answered(Good), answer(1)}}},
		"a breaker once":                    {search, []step{{true, answered(Breaker), steer}, {true, answered(Breaker), answer(1)}}},
		"a breaker, nothing left out":       {search, []step{{false, answered(Breaker), answer(0)}}},
		"out of time once":                  {search, []step{{true, answered(TimedOut), steer}, {true, answered(TimedOut), answer(1)}}},
		"out of time, nothing left out":     {search, []step{{false, Result{Cause: TimedOut, Unavailable: true}, answer(0)}}},
		"out of time as the client asked":   {search, []step{{true, answered(NoCopy), steer}, {true, answered(NoCopy), unchanged}, {false, Result{Cause: TimedOut, Unavailable: true}, answer(2)}}},
		"shards cannot, once":               {search, []step{{true, ofRequest, steer}, {true, ofRequest, answer(1)}}},
		"shards cannot, nothing left out":   {search, []step{{false, ofRequest, answer(0)}}},
		"no shard can, nothing left out":    {search, []step{{false, Result{Cause: EngineError, Unavailable: true, OfRequest: true}, answer(0)}}},
		"no shard can, as the client asked": {search, []step{{true, answered(NoCopy), steer}, {true, answered(NoCopy), unchanged}, {false, Result{Cause: EngineError, Unavailable: true, OfRequest: true}, answer(2)}}},
		"all queues are full, no list":      {search, []step{{false, full(Rejected), answer(0)}}},
		"some queues are full, no list":     {search, []step{{false, full(Partial), answer(0)}}},
		"some queues are full, others not":  {search, []step{{false, Result{Cause: Partial, Lost: 1, Full: true, Room: true}, steer}, {true, answered(Good), answer(1)}}},
		"all shards are rejected":           {search, []step{{false, Result{Cause: Rejected, Full: true, Room: true}, answer(0)}}},
		"full queues of the nodes listed":   {search, []step{{true, full(Partial), steer}, {true, answered(Good), answer(1)}}},
		"a rejection of one node":           {search, []step{{false, answered(Rejected), steer}, {false, answered(Good), answer(1)}}},
		"it speaks of the request":          {search, []step{{true, answered(Request), answer(0)}}},
		"the better partial answer":         {search, []step{{true, partial(1), steer}, {true, partial(3), unchanged}, {false, partial(2), answer(0)}}},
		"partial twice, then an error":      {search, []step{{true, partial(1), steer}, {true, partial(1), unchanged}, {false, Result{Cause: Partial, Lost: 1, Unavailable: true}, Action{Do: Pause, After: settleTime}}, {false, answered(EngineError), answer(2)}}},
		"an error, then partial":            {search, []step{{true, answered(EngineError), steer}, {true, answered(EngineError), unchanged}, {false, Result{Cause: EngineError, Unavailable: true}, Action{Do: Pause, After: settleTime}}, {false, partial(1), answer(3)}}},
		"partial, an error, less":           {search, []step{{true, partial(1), steer}, {true, answered(EngineError), unchanged}, {false, Result{Cause: EngineError, Unavailable: true}, Action{Do: Pause, After: settleTime}}, {false, partial(3), answer(0)}}},
		"no copies, no list":                {search, []step{{false, Result{Cause: Partial, Lost: 1, Unavailable: true}, Action{Do: Pause, After: settleTime}}, {false, answered(EngineError), answer(0)}}},
		"no copies, then it cannot be done": {search, []step{{false, Result{Cause: Partial, Lost: 1, Unavailable: true}, Action{Do: Pause, After: settleTime}}, {false, answered(Request), answer(0)}}},
		"the engine's verdict stands":       {search, []step{{true, answered(NoCopy), steer}, {true, answered(NoCopy), unchanged}, {false, answered(EngineError), answer(2)}}},
		"state is created once":             {once, []step{{true, answered(EngineError), answer(0)}}},
		"state may have been created":       {once, []step{{true, Result{Cause: Transport}, answer(-1)}}},
		"state was not created":             {once, []step{{true, Result{Cause: Unreachable}, steer}, {true, answered(Good), answer(1)}}},
		"a read by id that broke":           {byID, []step{{true, Result{Cause: Transport}, unchanged}, {false, answered(Good), answer(1)}}},
		"a read by id that failed":          {byID, []step{{true, answered(EngineError), unchanged}, {false, answered(EngineError), answer(1)}}},
		"a write that was not sent":         {write, []step{{false, Result{Cause: Unreachable}, unchanged}, {false, answered(Good), answer(1)}}},
		"a write that may have been done":   {write, []step{{false, Result{Cause: Transport}, answer(-1)}}},
		"a read that broke":                 {read, []step{{false, Result{Cause: Transport}, unchanged}, {false, answered(Good), answer(1)}}},
		"a part of the client's own":        {search, []step{{false, partial(1), steer}, {true, answered(EngineError), unchanged}, {false, answered(EngineError), answer(0)}}},
		"a part of what a list allows":      {search, []step{{true, partial(1), steer}, {true, answered(EngineError), unchanged}, {false, answered(EngineError), answer(2)}}},
		"a search that breaks nodes":        {search, []step{{true, Result{Cause: Transport}, steer}, {true, Result{Cause: Transport}, unchanged}, {false, Result{Cause: Transport}, answer(-1)}}},
		"a read that breaks nodes":          {read, []step{{false, Result{Cause: Transport}, unchanged}, {false, Result{Cause: Transport}, unchanged}, {false, Result{Cause: Transport}, answer(-1)}}},
		"a moment without a manager": {search, []step{
			{true, answered(EngineError), steer},
			{true, answered(EngineError), unchanged},
			{false, Result{Cause: EngineError, Unavailable: true}, Action{Do: Pause, After: settleTime}},
			{false, Result{Cause: EngineError, Unavailable: true}, answer(3)},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var b Budget
			m := New(c.rule, &b)
			next := m.Begin()
			for i, s := range c.steps {
				require.Equal(t, i, m.Sent(s.narrowed, next.Do != Steer))
				next = m.Ended(i, s.result)
				require.Equal(t, s.next, next, "attempt %d", i)
			}
		})
	}
}

// While failures are general, only what a list may have caused is followed by the request as the client wrote it.
func TestWhatFollowsWhileFailuresAreGeneral(t *testing.T) {
	for narrowed, want := range map[bool]Action{true: {Do: Unchanged}, false: {Do: Answer, Attempt: 0}} {
		var b Budget
		for range maxCredit / creditUnit {
			b.Failed()
		}
		m := New(search, &b)
		m.Begin()
		m.Sent(narrowed, false)
		require.Equal(t, want, m.Ended(0, answered(EngineError)))
	}
}

// Where all other copies are on nodes that reject searches, an answer that the client's own request would have had is the client's.
func TestWhereThereAreNoOtherCopies(t *testing.T) {
	for _, c := range []struct {
		narrowed   bool
		result     Result
		overloaded bool
		want       Do
	}{
		{false, answered(EngineError), true, Answer},
		{false, answered(EngineError), false, Unchanged},
		{true, answered(EngineError), true, Unchanged},
		{false, Result{Cause: Transport}, true, Unchanged},
	} {
		var b Budget
		m := New(search, &b)
		m.Begin()
		m.Sent(c.narrowed, false)
		require.Equal(t, Steer, m.Ended(0, c.result).Do)
		require.Equal(t, c.want, m.NoOther(c.overloaded).Do, "%+v", c)
	}
}

// A late search is looked after less and less often.
func TestLooksAtALateSearch(t *testing.T) {
	var b Budget
	m := New(search, &b)
	m.Begin()
	m.Sent(true, false)
	var after []int64
	for range 8 {
		after = append(after, m.Overdue(false, time.Second).After.Milliseconds())
	}
	require.Equal(t, []int64{10, 10, 10, 20, 40, 80, 80, 80}, after)
}

// Nothing more is sent for a client that has left, and of a body that was read.
func TestWhatIsStoppedEnds(t *testing.T) {
	for _, c := range []struct {
		result Result
		answer int
	}{{Result{Cause: Transport}, -1}, {answered(EngineError), 0}} {
		var b Budget
		m := New(search, &b)
		m.Begin()
		m.Sent(true, false)
		m.Stop()
		require.Equal(t, Action{Do: Answer, Attempt: c.answer}, m.Ended(0, c.result))
	}
}

// What a search without a list brought is the client's own answer also if a second attempt was under way.
func TestAResultWithoutSomeShardsBesideAHedge(t *testing.T) {
	var b Budget
	m := New(search, &b)
	m.Begin()
	m.Sent(false, false)
	require.Equal(t, Hedge, m.Overdue(true, 0).Do)
	m.Sent(true, false)
	require.Equal(t, Wait, m.Ended(0, Result{Cause: Partial, Lost: 1, Unavailable: true}).Do)
	for next, i := m.Ended(1, answered(EngineError)), 2; ; i++ {
		if next.Do == Answer {
			require.Zero(t, next.Attempt)
			return
		}
		m.Sent(next.Do == Steer, next.Do != Steer)
		next = m.Ended(i, Result{Cause: EngineError, Unavailable: true})
	}
}

// Of answers that are equally bad the client gets that of the attempt sent last, whichever came first.
func TestOfEqualAnswersTheLastAttemptsIsTheClients(t *testing.T) {
	for _, r := range []Result{answered(EngineError), partial(2)} {
		var b Budget
		m := New(search, &b)
		m.Begin()
		m.Sent(true, false)
		require.Equal(t, Hedge, m.Overdue(true, 0).Do)
		m.Sent(true, false)
		require.Equal(t, Wait, m.Ended(1, r).Do)
		m.Stop()
		require.Equal(t, Action{Do: Answer, Attempt: 1}, m.Ended(0, r))
	}
}

func TestConnectionsThatAreLateAreAwaited(t *testing.T) {
	var b Budget
	m := New(write, &b)
	m.Begin()
	for i := range 3 {
		m.Sent(false, true)
		require.Equal(t, Unchanged, m.Ended(i, Result{Cause: Unreachable, Late: true}).Do)
	}
	for i, pause := range []time.Duration{settleTime, 2 * settleTime, 4 * settleTime, longestPause, longestPause} {
		require.Equal(t, Action{Do: Pause, After: pause}, m.NoNode(time.Second))
		m.Sent(false, true)
		m.Ended(3+i, Result{Cause: Unreachable, Late: true})
	}
	m.NoNode(time.Second)
	m.Sent(false, true)
	m.Ended(8, Result{Cause: Unreachable})
	require.Equal(t, Action{Do: Answer, Attempt: -1}, m.NoNode(2*time.Second), "refused, not late")
	m = New(write, &b)
	m.Begin()
	m.Sent(false, true)
	m.Ended(0, Result{Cause: Unreachable, Late: true})
	require.Equal(t, Answer, m.NoNode(connectPatience).Do)
}

func TestAHedge(t *testing.T) {
	begin := func(b *Budget) Machine {
		m := New(search, b)
		m.Begin()
		m.Sent(true, false)
		require.Equal(t, Action{Do: Ask, After: askedLook}, m.Overdue(false, time.Second), "first nodes are asked")
		require.Equal(t, Action{Do: Look, After: askedLook}, m.Overdue(false, time.Second), "once")
		require.Equal(t, Action{Do: Look, After: time.Millisecond}, m.Overdue(false, time.Millisecond))
		require.Equal(t, Action{Do: Suspect, After: firstLook}, m.Overdue(false, 0), "then they are probed")
		require.Equal(t, Action{Do: Suspect, After: 2 * firstLook}, m.Overdue(false, -firstLook))
		require.Equal(t, Hedge, m.Overdue(true, 0).Do)
		m.Sent(true, false)
		require.Equal(t, Wait, m.Overdue(true, 0).Do, "one is enough")
		return m
	}
	var b Budget
	m := begin(&b)
	require.Equal(t, Action{Do: Answer, Attempt: 1}, m.Ended(1, answered(Good)))
	require.Equal(t, Action{Do: Answer, Attempt: 1}, m.Ended(0, answered(Good)), "it lost")

	m = begin(&b)
	require.Equal(t, Action{Do: Wait}, m.Ended(1, answered(EngineError)))
	require.Equal(t, Action{Do: Answer, Attempt: 0}, m.Ended(0, answered(Good)))

	m = begin(&b)
	require.Equal(t, Action{Do: Wait}, m.Ended(0, answered(EngineError)))
	require.Equal(t, Action{Do: Steer}, m.Ended(1, answered(EngineError)), "the pair is one of two sets of copies")

	m = New(once, &b)
	m.Begin()
	m.Sent(true, false)
	require.Equal(t, Wait, m.Overdue(true, 0).Do)

	m = New(search, &b)
	m.Begin()
	m.Sent(true, false)
	require.Equal(t, Action{Do: Ask}, m.Overdue(false, 0), "where all take about as long, it is late when it is overdue")
	require.Equal(t, Suspect, m.Overdue(false, 0).Do)
}

// A hedge would be refused as well, and may hang.
func TestAPreferenceThatIsRefusedEndsTheHedge(t *testing.T) {
	for _, cause := range []Cause{Forbidden, Refused} {
		begin := func(b *Budget) Machine {
			m := New(search, b)
			m.Begin()
			m.Sent(true, false)
			require.Equal(t, Hedge, m.Overdue(true, 0).Do)
			m.Sent(true, false)
			require.Equal(t, Action{Do: Unchanged}, m.Ended(0, answered(cause)))
			return m
		}
		for name, hedge := range map[string]Result{"refused": answered(cause), "a failure": answered(EngineError), "cancelled": {}} {
			t.Run(string(cause)+", "+name, func(t *testing.T) {
				var b Budget
				m := begin(&b)
				require.Equal(t, Wait, m.Ended(1, hedge).Do, "before the client's own request is sent")
				m.Sent(false, true)
				require.Equal(t, Action{Do: Answer, Attempt: 2}, m.Ended(2, answered(EngineError)))

				m = begin(&b)
				m.Sent(false, true)
				require.Equal(t, Wait, m.Overdue(true, 0).Do)
				require.Equal(t, Action{Do: Unchanged}, m.Ended(2, Result{Cause: Unreachable}))
				require.Equal(t, Wait, m.Ended(1, hedge).Do)
				m.Sent(false, true)
				require.Equal(t, Action{Do: Answer, Attempt: 3}, m.Ended(3, answered(EngineError)))

				m = begin(&b)
				m.Sent(false, true)
				require.Equal(t, Action{Do: Answer, Attempt: 2}, m.Ended(2, answered(Good)))
				require.Equal(t, Action{Do: Answer, Attempt: 2}, m.Ended(1, hedge))
				require.Zero(t, b.used.Load())
			})
		}
	}
}

// run sends one search through a cluster that answers as fails says and returns the
// attempts and whether it succeeded.
func run(b *Budget, fails func(attempt int) bool) (attempts int, ok bool) {
	rule := search
	if !b.Allows() {
		rule = Rule{Repeatable: true}
	}
	m := New(rule, b)
	for next := m.Begin(); ; {
		switch next.Do {
		case Answer:
			return attempts, ok
		case Steer, Unchanged, Pause:
			i := m.Sent(next.Do == Steer, next.Do != Steer)
			r := answered(Good)
			if fails(attempts) {
				r = Result{Cause: EngineError, Unavailable: true}
			}
			attempts++
			ok = r.Cause == Good
			next = m.Ended(i, r)
		}
	}
}

// A cluster that fails everything sees hardly more than the clients' searches; a node
// that fails costs no search; between the two the change takes a few searches.
func TestRetriesAreNoStorm(t *testing.T) {
	var b Budget
	r := rand.New(rand.NewPCG(1, 2))
	oneOfFive := func(attempt int) bool { return attempt == 0 && r.IntN(5) == 0 }
	everything := func(int) bool { return true }
	phase := func(searches int, fails func(int) bool) (attempts, failed int) {
		for range searches {
			n, ok := run(&b, fails)
			attempts += n
			if !ok {
				failed++
			}
		}
		return attempts, failed
	}
	_, failed := phase(2000, oneOfFive)
	require.Zero(t, failed)
	attempts, failed := phase(2000, everything)
	require.Equal(t, 2000, failed)
	require.LessOrEqual(t, attempts, 2200)
	_, failed = phase(100, oneOfFive)
	require.LessOrEqual(t, failed, 10, "until the first of them succeeded")
	_, failed = phase(2000, oneOfFive)
	require.Zero(t, failed)
}

// A client whose searches fail wherever they go does not cost the others their failover.
func TestABrokenClientCostsTheOthersLittle(t *testing.T) {
	var b Budget
	r := rand.New(rand.NewPCG(3, 4))
	failed := 0
	for i := range 10_000 {
		if i%20 == 0 {
			run(&b, func(int) bool { return true })
			continue
		}
		if _, ok := run(&b, func(attempt int) bool { return attempt == 0 && r.IntN(5) == 0 }); !ok {
			failed++
		}
	}
	require.LessOrEqual(t, failed, 200, "2 % of the others' searches")
}

// A second attempt that is sent while the first is late repeats nothing: if both fail, that says no more of the cluster
// than one failure does. The one after them is charged.
func TestAPairThatFailsIsNoFailedRepetition(t *testing.T) {
	var b Budget
	m := New(Rule{Steered: 2, Hedged: true, Repeatable: true}, &b)
	require.Equal(t, Steer, m.Begin().Do)
	m.Sent(true, false)
	require.Equal(t, Hedge, m.Overdue(true, 0).Do)
	m.Sent(true, false)
	m.Ended(1, Result{Cause: EngineError})
	next := m.Ended(0, Result{Cause: EngineError})
	require.Zero(t, b.used.Load())
	require.Equal(t, Steer, next.Do)
	m.Sent(true, false)
	m.Ended(2, Result{Cause: EngineError})
	require.EqualValues(t, creditUnit, b.used.Load())
}
