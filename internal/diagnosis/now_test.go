package diagnosis

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

func TestTroubleIsAMetricAtOnce(t *testing.T) {
	r := &Recorder{
		nodes: []Reading{{ID: "1", Name: "a"}, {ID: "2", Name: "b"}},
		open:  map[string]*recording{"2": {record: Record{Spike: Spike{NodeID: "2", Cause: CauseMerge}}}},
	}
	require.NoError(t, testutil.CollectAndCompare(newTrouble(r), strings.NewReader(`
# HELP sidestep_node_spike 1 with the cause found so far, while the node is in trouble and for 15s after that; else 0 with the cause none.
# TYPE sidestep_node_spike gauge
sidestep_node_spike{cause="none",node="a",node_id="1"} 0
sidestep_node_spike{cause="merge_burst",node="b",node_id="2"} 1
`)))
}
