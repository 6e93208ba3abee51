package relay

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/cluster"
	"sidestep/internal/cluster/clustertest"
	"sidestep/internal/cluster/poll"
)

// slowLookUps is a cluster whose look-ups of targets take a while.
type slowLookUps struct {
	clustertest.InProcess
	takes time.Duration
	made  atomic.Int64
}

func (s *slowLookUps) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, "_search_shards") {
		s.made.Add(1)
		time.Sleep(s.takes)
	}
	return s.InProcess.RoundTrip(r)
}

// A target whose look-up takes long is told although the cluster state moves meanwhile, as it does all the time, and is
// looked up for all as rarely as for one.
func TestSlowLookUpsAreToldWhileTheClusterStateMoves(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, 1)
	f.Change(func() {
		f.Indices = []cluster.Index{clustertest.Index("a", []string{"n1"})}
		f.Targets[cluster.Target{Expression: "wide"}] = []cluster.ShardName{{Index: "a", Number: 0}}
	})
	seed, err := url.Parse(f.Nodes[0].Server.URL)
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		transport := &slowLookUps{InProcess: clustertest.InProcess{Fake: f}, takes: 1500 * time.Millisecond}
		p, server := readyRelay(t, seed, transport)
		done := make(chan struct{})
		go func() {
			for range 700 {
				f.Change(func() {})
				time.Sleep(100 * time.Millisecond)
			}
			close(done)
		}()
		ask := func() (told resolvedTarget) {
			w := httptest.NewRecorder()
			server.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/snapshot/target?version=1&about=shards&expression=wide", http.NoBody))
			require.Equal(t, http.StatusOK, w.Code)
			require.NoError(t, json.Unmarshal(plain(t, w.Body), &told))
			require.Equal(t, []packedShards{{Index: "a", Numbers: []int{0}}}, told.Shards)
			return told
		}
		before := ask()
		require.Less(t, before.StateVersion, p.Snapshot().Version, "it moved meanwhile")
		for range 60 {
			time.Sleep(time.Second)
			told := ask()
			require.GreaterOrEqual(t, told.StateVersion, before.StateVersion)
			if told.StateVersion == before.StateVersion {
				require.Greater(t, told.Age, before.Age)
			}
			before = told
		}
		require.LessOrEqual(t, transport.made.Load(), int64(5))
		<-done
		p.Stop()
	})
}

// What a relay found a while ago is not taken for what was found just now.
func TestTheAgeOfWhatARelayFoundIsTakenIn(t *testing.T) {
	t.Parallel()
	at := newAddress(t)
	at.use(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = clustertest.WriteJSON(w, resolvedTarget{StateVersion: 7, Age: 5000, Shards: packShards([]cluster.ShardName{{Index: "a"}})})
	}))
	u, err := url.Parse(at.URL + "/snapshot")
	require.NoError(t, err)
	f := NewFollower(Options{URL: u, Client: at.Client()})
	f.p = poll.New(cluster.NewStore(cluster.StoreOptions{}), poll.Options{})
	asked := time.Now()
	found := &cluster.Resolved{Version: 9, At: asked}
	require.NoError(t, f.LookUp(t.Context(), cluster.LookUp{}, found))
	require.Equal(t, &cluster.Resolved{Version: 7, At: asked.Add(-5 * time.Second), Shards: []cluster.ShardName{{Index: "a"}}}, found)
}
