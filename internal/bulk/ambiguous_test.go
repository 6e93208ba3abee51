package bulk

import (
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAnAmbiguousBulkIsMatchedOnce(t *testing.T) {
	var a Ambiguous
	now := time.Unix(1000, 0)
	k, other := Key{1}, Key{2}
	a.Remember(k, Minted{Prefix: "p"}, now)
	_, ok := a.Take(other, now)
	require.False(t, ok)
	m, ok := a.Take(k, now.Add(ambiguousAge))
	require.True(t, ok)
	require.Equal(t, "p", m.Prefix)
	_, ok = a.Take(k, now)
	require.False(t, ok, "it was matched before")

	a.Remember(k, Minted{Prefix: "q"}, now)
	_, ok = a.Take(k, now.Add(ambiguousAge+1))
	require.False(t, ok, "too old")

	a.Remember(k, Minted{Prefix: "r"}, now)
	_, _ = a.Take(k, now)
	a.Remember(k, Minted{Prefix: "s"}, now.Add(time.Minute)) // again
	m, ok = a.Take(k, now.Add(ambiguousAge+time.Second))
	require.True(t, ok, "the first of its two has become too old, not the second")
	require.Equal(t, "s", m.Prefix)
}

func TestABulkWhoseAnswerIsUnreadIsMatched(t *testing.T) {
	now, k := time.Unix(1000, 0), Key{1}
	for name, c := range map[string]struct {
		seen    bool // by an equal bulk that comes before the end of the connection
		unread  bool // at the end of the connection
		after   time.Duration
		matched bool
	}{
		"read":                               {},
		"reset":                              {unread: true, after: unreadAge, matched: true},
		"reset when it was idle":             {unread: true, after: unreadAge + 1},
		"reset, and seen by the next":        {seen: true, matched: true},
		"reset, and seen by one much later":  {seen: true, after: unreadAge + 1},
		"reset after the next one was there": {unread: true, after: 1},
	} {
		t.Run(name, func(t *testing.T) {
			var a Ambiguous
			settle := a.Answered(k, Minted{Prefix: "p"}, func() bool { return c.seen }, now)
			early := c.seen || strings.HasSuffix(name, "was there")
			if early {
				m, ok := a.Take(k, now.Add(c.after))
				require.Equal(t, c.matched, ok)
				require.Equal(t, c.matched, m.Prefix == "p")
			}
			require.Equal(t, !early && c.matched, settle(c.unread, now.Add(c.after)))
			require.Zero(t, a.answered.bulks.Len())
			require.Equal(t, !early && c.matched, a.unknown.get(k) != nil)
			_, ok := a.Take(k, now.Add(c.after))
			require.Equal(t, !early && c.matched, ok)
			_, ok = a.Take(k, now.Add(c.after))
			require.False(t, ok, "once")
		})
	}
}

// The answer to the second of two equal bulks has nothing to do with the first one's.
func TestEqualAnsweredBulksAreApart(t *testing.T) {
	var a Ambiguous
	now, k := time.Unix(1000, 0), Key{1}
	read := func() bool { return false }
	first := a.Answered(k, Minted{Prefix: "p"}, read, now)
	_, ok := a.Take(k, now)
	require.False(t, ok)
	second := a.Answered(k, Minted{Prefix: "q"}, read, now)
	require.False(t, first(true, now))
	require.True(t, second(true, now))
	m, _ := a.Take(k, now)
	require.Equal(t, "q", m.Prefix)
}

func TestAmbiguousBulksAreBounded(t *testing.T) {
	var a Ambiguous
	now := time.Unix(1000, 0)
	for i := range maxAmbiguous + 10 {
		a.Remember(Key{byte(i), byte(i >> 8)}, Minted{}, now)
	}
	require.Equal(t, maxAmbiguous, a.unknown.bulks.Len())
	_, ok := a.Take(Key{0, 0}, now)
	require.False(t, ok, "the oldest went")
}

func TestEqualBulksAreServedOneAfterTheOther(t *testing.T) {
	var a Ambiguous
	k := Key{1}
	require.Nil(t, a.Enter(k))
	wait := a.Enter(k)
	require.NotNil(t, wait)
	select {
	case <-wait:
		t.Fatal("the first is under way")
	default:
	}
	a.Leave(k)
	<-wait
	require.Nil(t, a.Enter(k))
	a.Leave(k)
	require.Empty(t, a.going)
}

func TestRewriterMakesIDs(t *testing.T) {
	body := "{\"index\":{}}\n{\"a\":\"index\"}\n" + ` { "index" : {"_index":"x"} }` + "\n{}\n{\"create\":{ }}\n{}\n{\"index\":{\"_id\":\"1\"}}\n{}\n"
	read := func(create bool) string {
		m := Minted{Prefix: "P"}
		r := NewRewriter(strings.NewReader(body), Options{
			DefaultIndex: "d", ID: m.IDs(), Create: create,
			Place: place,
		})
		var out strings.Builder
		p := make([]byte, 3)
		for {
			n, err := r.Read(p)
			out.Write(p[:n])
			if err != nil {
				return out.String()
			}
		}
	}
	require.Equal(t, `{"index":{"_id":"P1","routing":"7"}}`+"\n{\"a\":\"index\"}\n"+` { "index" : {"_id":"P2","routing":"7","_index":"x"} }`+
		"\n{}\n{\"create\":{\"_id\":\"P3\",\"routing\":\"7\" }}\n{}\n{\"index\":{\"_id\":\"1\"}}\n{}\n", read(false))
	require.Equal(t, `{"create":{"_id":"P1","routing":"7"}}`+"\n{\"a\":\"index\"}\n"+` { "create" : {"_id":"P2","routing":"7","_index":"x"} }`+
		"\n{}\n{\"create\":{\"_id\":\"P3\",\"routing\":\"7\" }}\n{}\n{\"index\":{\"_id\":\"1\"}}\n{}\n", read(true))
}

// A bulk that is taken and remembered again and again takes the place of no other one.
func TestRepeatedBulksTakeTheRoomOfOne(t *testing.T) {
	var a Ambiguous
	now := time.Unix(1000, 0)
	a.Remember(Key{1}, Minted{Prefix: "p"}, now)
	for i := range 5 * maxAmbiguous {
		at := now.Add(time.Duration(i) * time.Millisecond)
		a.Remember(Key{2}, Minted{}, at)
		_, ok := a.Take(Key{2}, at)
		require.True(t, ok)
	}
	m, ok := a.Take(Key{1}, now.Add(time.Minute))
	require.True(t, ok)
	require.Equal(t, "p", m.Prefix)
	require.Zero(t, a.unknown.bulks.Len())
}

// Bulks that name a thousand indices each are remembered as long as there is room for the names, and so are those that were
// answered, as long as their clients may not have read that. Neither push out the others.
func TestTheNamesThatAreRememberedAreBounded(t *testing.T) {
	var a Ambiguous
	places := map[Part]Slot{}
	for i := range 1000 {
		places[Part{Index: strconv.Itoa(i)}] = slotOf("0")
	}
	key := func(kind byte, i int) Key { return Key{byte(i), byte(i >> 8), kind} }
	now := time.Now()
	const bulks = 2 * maxNames / 1000
	for i := range bulks {
		a.Remember(key(0, i), Minted{Places: places}, now.Add(time.Duration(i)))
	}
	for i := range bulks {
		a.Answered(key(1, i), Minted{Places: places}, func() bool { return true }, now.Add(time.Duration(bulks+i)))
	}
	for kind := range byte(2) {
		held := 0
		for i := range bulks {
			if _, known := a.Take(key(kind, i), now.Add(time.Second)); known {
				held++
				require.GreaterOrEqual(t, i, bulks/2-2)
			}
		}
		require.InDelta(t, maxNames/1000, held, 2)
	}
	require.Zero(t, a.unknown.names)
	require.Zero(t, a.answered.names)
}

// What was answered so long ago that it matches nothing is not kept.
func TestAnsweredBulksAreKeptBriefly(t *testing.T) {
	var a Ambiguous
	now := time.Unix(1000, 0)
	for i := range byte(3) {
		a.Answered(Key{i}, Minted{}, func() bool { return true }, now)
	}
	a.Answered(Key{9}, Minted{}, func() bool { return true }, now.Add(unreadAge+1))
	require.Equal(t, 1, a.answered.bulks.Len())
}

// An idle connection keeps what is to be called once it is known whether its client has read the answer: that keeps nothing else.
func TestWhatWasAnsweredIsKeptByNoConnection(t *testing.T) {
	var a Ambiguous
	now := time.Unix(1000, 0)
	freed := make(chan struct{})
	minted := func() Minted {
		values := new([4]string)
		runtime.AddCleanup(values, func(int) { close(freed) }, 0)
		return Minted{Places: map[Part]Slot{{Index: "i"}: {Logical: Logical{values: values[:]}}}}
	}
	settle := a.Answered(Key{1}, minted(), func() bool { return true }, now)
	a.Answered(Key{2}, Minted{}, func() bool { return true }, now.Add(unreadAge+1))
	require.Eventually(t, func() bool {
		runtime.GC()
		select {
		case <-freed:
			return true
		default:
			return false
		}
	}, 10*time.Second, time.Millisecond)
	require.False(t, settle(true, now))
}
