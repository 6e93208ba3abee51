package poll

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"sidestep/internal/cluster"
	"sidestep/internal/cluster/clustertest"
)

// silent is a relay that says nothing any more.
type silent struct{}

func (silent) Follow(context.Context, *Poller) {}
func (silent) LookUp(ctx context.Context, _ cluster.LookUp, _ *cluster.Resolved) error {
	Sleep(ctx, 3*time.Second)
	return errors.New("no answer")
}
func (silent) Use(context.Context, []string) {}

// A whole fleet begins to poll in the same moment when its relay falls silent. It begins as rarely as so many may, and
// asks for nothing that the relay has just told.
func TestAFleetWhoseRelayFallsSilentBeginsToPollSlowly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const sidesteps, during = 500, 10 * time.Second
		n := &countedNodes{tasks: map[string]int{}, asked: map[string]int{}}
		nodes := make([]*cluster.Node, 3)
		for i, id := range []string{"h0", "h1", "h2"} {
			nodes[i] = &cluster.Node{ID: id, Name: id, Roles: []string{"data"}, URL: &url.URL{Scheme: "http", Host: id + ":9200"}}
		}
		fleet, stops := make([]*Poller, sidesteps), make([]func(), sidesteps)
		for i := range fleet {
			p := New(cluster.NewStore(cluster.StoreOptions{}), Options{
				Seeds: []*url.URL{nodes[0].URL}, Client: &http.Client{Transport: n}, Registerer: prometheus.NewRegistry(), Source: silent{},
			})
			p.store.Discovered(cluster.Identity{ClusterUUID: "u"}, nodes, nil)
			p.store.PlacedByRelay(cluster.RelayedPlacement{
				Version: 7, AsOf: time.Now(), Whole: true,
				Indices: []cluster.Index{clustertest.Index("i", []string{"h0"})}, Stale: []bool{false},
			})
			p.store.ContinueRelayed()
			p.Snapshot().Use("i")
			p.RefreshPlacement() // of a search before
			p.ReadersOfRelay(sidesteps)
			fleet[i] = p
		}
		for i, p := range fleet {
			stops[i] = p.Poll(t.Context())
		}
		asked := map[string]float64{}
		for second := range during / time.Second {
			for _, p := range fleet {
				p.Touch()
			}
			time.Sleep(time.Second)
			for kind, count := range n.take(time.Second) {
				asked[kind] += count
				switch kind {
				case "nodes":
					require.LessOrEqual(t, count, 0.2*sidesteps, "in second %d", second)
				case "stats":
					require.LessOrEqual(t, count/float64(len(nodes)), 2.0*pollCeiling, "of a node in second %d", second)
				}
			}
		}
		t.Log(asked)
		require.Positive(t, asked["stats"])
		require.Zero(t, asked["table"], "nothing has moved")
		for i, stop := range stops {
			stop()
			fleet[i].Stop()
		}
	})
}

// A relay tells where it believes indices to be beside where it saw them. What is in use is read once, and what comes into
// use later is looked up, so that one that has moved is not sought for good where it was.
func TestWhatARelayOnlyBelievedIsRead(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 2)
	f.Change(func() {
		f.Indices = []cluster.Index{clustertest.Index("i", []string{"n2"}), clustertest.Index("later", []string{"n2"})}
	})
	seed, err := url.Parse(f.Nodes[0].Server.URL)
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		p := New(cluster.NewStore(cluster.StoreOptions{}), Options{
			Seeds: []*url.URL{seed}, Client: &http.Client{Transport: clustertest.InProcess{Fake: f}}, Source: silent{},
		})
		p.store.Discovered(cluster.Identity{ClusterUUID: f.UUID}, []*cluster.Node{{ID: "n1", URL: seed}, {ID: "n2"}}, nil)
		p.store.PlacedByRelay(cluster.RelayedPlacement{
			Version: f.Version, AsOf: time.Now(), Whole: true,
			Indices: []cluster.Index{clustertest.Index("i", []string{"n1"}), clustertest.Index("later", []string{"n1"})}, Stale: []bool{false, false},
		})
		p.store.ContinueRelayed()
		p.Snapshot().Use("i")
		stop := p.Poll(t.Context())
		require.True(t, p.Snapshot().Believes("later"))
		time.Sleep(cluster.BelieveFor + 2*time.Second)
		require.Equal(t, [][]string{{"n2"}}, clustertest.NodesOf(p.Snapshot(), "i", ""))
		_, miss := p.Snapshot().Resolve("later", "")
		require.Equal(t, cluster.MissUnknownTarget, miss)
		stop()
		p.Stop()
	})
}

// Where most of many indices are in use their placement is brought up to date at once all the same.
func TestManyIndicesInUseAreReadSoonAfterARelayFellSilent(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 1)
	seed, err := url.Parse(f.Nodes[0].Server.URL)
	require.NoError(t, err)
	p := New(cluster.NewStore(cluster.StoreOptions{}), Options{Seeds: []*url.URL{seed}, Client: f.Nodes[0].Server.Client(), Source: silent{}})
	p.store.Discovered(cluster.Identity{ClusterUUID: f.UUID}, []*cluster.Node{{ID: "n1", URL: seed}}, nil)
	for i := range minHalf + 1 {
		f.Indices = append(f.Indices, clustertest.Index(fmt.Sprintf("i%03d", i), []string{"n1"}))
	}
	p.store.PlacedByRelay(cluster.RelayedPlacement{Version: f.Version, AsOf: time.Now(), Whole: true, Indices: f.Indices, Stale: make([]bool, len(f.Indices))})
	p.store.ContinueRelayed()
	placer := &placer{poller: p, whole: p.wholeKnown()}
	placer.whole.grace = time.Now().Add(wholeGrace)
	f.Change(func() {})
	require.NoError(t, placer.check(t.Context(), false))
	require.Nil(t, placer.whole.answer, "nobody searches them")
	for _, index := range f.Indices {
		p.Snapshot().Use(index.Name)
	}
	f.Change(func() {})
	require.NoError(t, placer.check(t.Context(), false))
	require.NotNil(t, placer.whole.answer)
	placer.wholeArrived(t.Context(), <-placer.whole.answer)
	require.Equal(t, f.Version, p.Snapshot().Version)
}

// What a relay could not say can be looked up as soon as it is asked for again, or the cluster is asked in its place.
func TestTargetsThatARelayDoesNotTellRestForAMoment(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		seed := &url.URL{Scheme: "http", Host: "h0:9200"}
		n := &countedNodes{tasks: map[string]int{}, asked: map[string]int{}}
		p := New(cluster.NewStore(cluster.StoreOptions{}), Options{Seeds: []*url.URL{seed}, Client: &http.Client{Transport: n}, Source: silent{}})
		discover(p, nil)
		p.SetSource(FromRelay)
		target := cluster.LookUp{Target: cluster.Target{Expression: "logs-*"}}
		require.Nil(t, p.LookUp(t.Context(), target))
		require.False(t, p.store.Targets().Admits(target), "it may have refused at once")
		time.Sleep(2 * time.Second)
		require.True(t, p.store.Targets().Admits(target))
	})
}

// While it cannot be read which indices are left alone, what a relay told of them stays.
func TestWhatARelayToldToBeLeftAloneStays(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 1)
	f.On(func(_ *clustertest.Node, w http.ResponseWriter, r *http.Request) bool {
		if strings.HasPrefix(r.URL.Path, "/_all/_settings") {
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		}
		return false
	})
	seed, err := url.Parse(f.Nodes[0].Server.URL)
	require.NoError(t, err)
	p := New(cluster.NewStore(cluster.StoreOptions{}), Options{Seeds: []*url.URL{seed}, Client: f.Nodes[0].Server.Client(), Source: silent{}})
	p.DiscoveredByRelay(&cluster.Identity{ClusterUUID: f.UUID}, []*cluster.Node{{ID: "n1"}}, nil, map[string]cluster.Miss{"mounted": cluster.MissUnsupported, "shut": cluster.MissClosed})
	shut := clustertest.Index("shut", []string{"n1"})
	p.store.PlacedByRelay(cluster.RelayedPlacement{Version: 7, AsOf: time.Now(), Whole: true, Indices: []cluster.Index{shut}, Stale: []bool{false}})
	p.store.ContinueRelayed()
	p.takeOver(p.Snapshot())
	for range 2 {
		require.NoError(t, p.discover(t.Context()))
		p.leftAlone.after = time.Time{}
	}
	require.Positive(t, f.Count("/_all/_settings/index.store.type,index.warm,index.verified_before_close"))
	require.Equal(t, cluster.MissUnsupported, p.Snapshot().LeftAlone()["mounted"])
	_, miss := p.Snapshot().Resolve("shut", "")
	require.Equal(t, cluster.MissClosed, miss)
}
