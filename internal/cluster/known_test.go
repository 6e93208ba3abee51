package cluster

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// Another cluster may have been found behind the addresses since the version was read, and
// nothing may be placed of it yet.
func TestForgetVersionsOfAnotherCluster(t *testing.T) {
	st := NewStore(StoreOptions{Registerer: prometheus.NewRegistry()})
	st.Discovered(Identity{ClusterUUID: "new"}, nil, nil)
	st.ForgetVersions("new")
	st.ForgetVersions("old")
	st.PlacedAll("whole", time.Now(), &Placement{ClusterUUID: "new", Version: 7})
	st.ForgetVersions("old")
	require.EqualValues(t, 7, st.known.version)
	st.ForgetVersions("new")
	require.Zero(t, st.known.version)
}
