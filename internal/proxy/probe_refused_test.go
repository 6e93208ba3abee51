package proxy

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/cluster"
	"sidestep/internal/selection"
)

// The engines open indices of their own to few accounts, and an index may be blocked for all: that a probe of it is refused
// says nothing of the others. All probes rested for a minute.
func TestARefusalOfOneIndexStopsNoOtherProbe(t *testing.T) {
	const refused = `{"error":{"type":"security_exception","reason":"action [indices:data/read/search] is unauthorized"},"status":403}`
	for name, c := range map[string]struct {
		index, body string
		again       int // how often it is asked for in a minute
	}{
		"the engine's own":     {".security-7", refused, 1},
		"a stream of its own":  {".ds-.fleet-actions-1", refused, 1},
		"blocked for everyone": {"closed-to-reads", `{"error":{"type":"cluster_block_exception","reason":"index [closed-to-reads] blocked by: [FORBIDDEN/7/index read (api)];"},"status":403}`, 3},
	} {
		synctest.Test(t, func(t *testing.T) {
			asked := 0
			p := newProbing(t, func(r *http.Request) (*http.Response, error) {
				if strings.HasPrefix(r.URL.Path, "/"+c.index+"/") {
					asked++
					return answers(http.StatusForbidden, c.body)(r)
				}
				return answers(http.StatusOK, good)(r)
			})
			p.UseSnapshot(heldAlone(c.index))
			if plan, _ := p.view.Load().snapshot.Resolve(c.index, ""); plan != nil && c.again == 1 {
				p.probes.recent.add(plan, time.Now())
			}
			for range 3 {
				require.True(t, p.send(t, 2).Unfit, name)
				for range 10 {
					require.False(t, p.send(t, 0).Unfit, name)
				}
			}
			require.Equal(t, c.again, asked, name)
			require.NotContains(t, p.log.String(), "not permitted", name)
			time.Sleep(refusedFor)
			require.True(t, p.send(t, 2).Unfit, name)
			require.Equal(t, c.again+1, asked, "%s: it may be permitted by now", name)
		})
	}
}

// heldAlone is a snapshot of nodes a and b, which hold index idx, and c, which holds this one alone. If it is hidden a has a copy, too.
func heldAlone(index string) *cluster.Snapshot {
	on := func(nodes ...int) (copies []cluster.Copy) {
		for _, n := range nodes {
			copies = append(copies, cluster.Copy{Node: id(n), Kind: 'r', State: cluster.Started})
		}
		return copies
	}
	c := cluster.Contents{PlacedAt: time.Now(), Indices: []cluster.Index{
		{Name: "idx", Shards: []cluster.Shard{{Copies: on(0, 1)}}},
		{Name: index, Shards: []cluster.Shard{{Copies: on(2)}}},
	}}
	if strings.HasPrefix(index, ".") {
		c.Indices[1].Shards[0].Copies = on(0, 2)
	}
	for i := range 3 {
		c.Nodes = append(c.Nodes, &cluster.Node{ID: id(i), Name: string(rune('a' + i)), Roles: []string{"data"}, URL: &url.URL{Scheme: "http", Host: id(i) + ":9200"}})
	}
	return cluster.NewSnapshot(c)
}

// Nobody polls the addresses that were given. One that a connection to was refused once got nothing more while another one
// could be reached.
func TestAnAddressThatWasGivenHasItsTurnAgain(t *testing.T) {
	selector := selection.New(selection.Options{Epoch: time.Now()})
	p, err := New(options(selector, &url.URL{Scheme: "http", Host: "one:9200"}, &url.URL{Scheme: "http", Host: "two:9200"}))
	require.NoError(t, err)
	now := time.Now()
	for range 4 {
		p.blameTransport(p.seeds[0], errors.New("connection refused"), now)
	}
	turns := func(now time.Time) (first int) {
		for range 20 {
			if p.pickSeed(nil, now) == p.seeds[0] {
				first++
			}
		}
		return first
	}
	require.Zero(t, turns(now))
	now = now.Add(2 * time.Minute)
	require.Equal(t, 1, turns(now), "one request tries it")
	selector.Heard(p.seeds[0].node, now)
	require.Equal(t, 10, turns(now))
}

// A probe that is answered tells as well that an address that was given is back.
func TestAProbeTellsThatAnAddressIsBack(t *testing.T) {
	p := newProbing(t, answers(http.StatusOK, good))
	p.UseSnapshot(placed(3, func(int) *url.URL { return nil })) // static discovery
	seed := p.seeds[0].node
	p.o.Selector.MarkUnreachable(seed, "refused", time.Now())
	require.False(t, seed.Alive())
	require.False(t, p.send(t, 2).Unfit)
	require.True(t, seed.Alive())
}

// What clients search is in memory, also if it is an index of the engine's own: it is probed, if that is permitted.
func TestAHiddenIndexThatMayBeReadIsProbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := ""
		p := newProbing(t, func(r *http.Request) (*http.Response, error) {
			asked, _, _ = strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
			return answers(http.StatusOK, good)(r)
		})
		p.UseSnapshot(heldAlone(".kibana"))
		plan, _ := p.view.Load().snapshot.Resolve(".kibana", "")
		require.NotNil(t, plan)
		p.probes.recent.add(plan, time.Now())
		for range 10 {
			require.False(t, p.send(t, 0).Unfit)
			require.Equal(t, ".kibana", asked)
		}
	})
}
