package bulk

import (
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

func TestAmbiguousBulksAreBounded(t *testing.T) {
	var a Ambiguous
	now := time.Unix(1000, 0)
	for i := range maxAmbiguous + 10 {
		a.Remember(Key{byte(i), byte(i >> 8)}, Minted{}, now)
	}
	require.LessOrEqual(t, len(a.bulks), maxAmbiguous)
	require.LessOrEqual(t, len(a.order), maxAmbiguous)
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
	read := func(create bool) (string, []bool) {
		m := Minted{Prefix: "P"}
		r := NewRewriter(strings.NewReader(body), Options{
			DefaultIndex: "d", ID: m.IDs(), Create: create,
			Place: func(string) (string, Reason) { return "7", "" },
		})
		var out strings.Builder
		p := make([]byte, 3)
		for {
			n, err := r.Read(p)
			out.Write(p[:n])
			if err != nil {
				return out.String(), r.Renamed()
			}
		}
	}
	got, renamed := read(false)
	require.Equal(t, `{"index":{"_id":"P1","routing":"7"}}`+"\n{\"a\":\"index\"}\n"+` { "index" : {"_id":"P2","routing":"7","_index":"x"} }`+
		"\n{}\n{\"create\":{\"_id\":\"P3\",\"routing\":\"7\" }}\n{}\n{\"index\":{\"_id\":\"1\"}}\n{}\n", got)
	require.Empty(t, renamed)
	got, renamed = read(true)
	require.Equal(t, `{"create":{"_id":"P1","routing":"7"}}`+"\n{\"a\":\"index\"}\n"+` { "create" : {"_id":"P2","routing":"7","_index":"x"} }`+
		"\n{}\n{\"create\":{\"_id\":\"P3\",\"routing\":\"7\" }}\n{}\n{\"index\":{\"_id\":\"1\"}}\n{}\n", got)
	require.Equal(t, []bool{true, true, false}, renamed)
}
