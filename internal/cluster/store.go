package cluster

import (
	"cmp"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// StoreOptions configures a [Store].
type StoreOptions struct {
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	// OnSnapshot is called after each publication, in order, never concurrently.
	OnSnapshot func(*Snapshot)
}

// Store keeps what is known of one cluster and publishes it as [Snapshot]s. It asks
// nobody: package poll, or a relay, tells it what was found. Make it with [NewStore].
type Store struct {
	o        StoreOptions
	metrics  *storeMetrics
	targets  *Targets
	snapshot atomic.Pointer[Snapshot]

	// publishing is held while a snapshot is made and handed on: it keeps
	// publications in order.
	publishing sync.Mutex
	known      known
	inUse      inUse
}

// NewStore returns a store that knows nothing.
func NewStore(o StoreOptions) *Store {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.OnSnapshot == nil {
		o.OnSnapshot = func(*Snapshot) {}
	}
	st := &Store{o: o}
	st.metrics = newStoreMetrics(o.Registerer, func() time.Time {
		if s := st.Snapshot(); s != nil {
			return s.PlacedAt
		}
		return time.Time{}
	})
	st.targets = newTargets(st.metrics)
	return st
}

// Snapshot returns what is known now; nil until an engine has been recognised.
func (st *Store) Snapshot() *Snapshot { return st.snapshot.Load() }

// Targets returns what index expressions stand for, and what is to be looked up.
func (st *Store) Targets() *Targets { return st.targets }

// Identity says which cluster it is.
type Identity struct {
	Engine      Engine
	ClusterName string
	ClusterUUID string
}

// Placement is where the copies of indices are at a version of the cluster state.
type Placement struct {
	ClusterUUID string
	Version     int64
	Indices     []Index // sorted by name
}

// Publish publishes all that is known, as after targets were learned.
func (st *Store) Publish() {
	st.publishing.Lock()
	defer st.publishing.Unlock()
	st.announce()
}

// Unseen lists the indices in use that are to be read before a version of the cluster state is confirmed that was current
// at this time: those that were not seen at it. While the version stays, as these came into use since, there are none until
// they would not be believed any longer.
func (st *Store) Unseen(version int64, asOf time.Time) []string {
	st.publishing.Lock()
	table, moved, expires := st.known.table, version != st.known.Version, st.known.expires(asOf)
	st.publishing.Unlock()
	if !moved && !expires {
		return nil
	}
	return slices.DeleteFunc(st.NamesInUse(), func(name string) bool {
		p := table.get(name)
		return p == nil && !moved || p != nil && p.version.Load() >= version
	})
}

// NamesInUse lists the indices that searches or learned targets used within
// [UseExpiry].
func (st *Store) NamesInUse() []string {
	since := time.Now().Add(-UseExpiry)
	names := map[string]bool{}
	st.targets.usedSince(since, names)
	for _, name := range st.inUse.names(since) {
		names[name] = true
	}
	return slices.Collect(maps.Keys(names))
}
