package proxy

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/cluster"
	"sidestep/internal/selection"
)

// What a full queue rejects is sent again, but blames nobody while all nodes have queues.
func TestAFullQueueBlamesNobodyWhileAllWait(t *testing.T) {
	full := strings.Replace(partial(1, "id-a"), "node_disconnected_exception", "es_rejected_execution_exception", 1)
	for name, tc := range map[string]struct {
		queue  int64
		bad    string
		blamed int64
	}{
		"all wait":                    {20, full, 0},
		"the others have time":        {0, full, 1},
		"all wait, and it fails, too": {20, partial(1, "id-a"), 1},
	} {
		t.Run(name, func(t *testing.T) {
			h := start(t, 4, nil)
			for i := range 4 {
				h.proxy.UseStats(cluster.NodeStats{Node: id(i), At: time.Now(), State: cluster.PollOK, Queue: tc.queue, ServiceTime: time.Millisecond})
			}
			badOnce(h, respond(http.StatusOK, tc.bad))
			_, body := h.do("POST", "/idx/_search", `{}`)
			require.Equal(t, complete, body)
			require.Len(t, h.seen(), 2)
			require.Equal(t, tc.blamed, h.selector.View(h.proxy.view.Load().nodes, time.Now())[0].Failures)
		})
	}
}

// A node that answers clients is not unresponsive for a poll that it has not answered yet.
func TestWhoAnswersClientsIsNotUnresponsive(t *testing.T) {
	h := start(t, 3, nil)
	for i := range 3 {
		h.proxy.UseStats(cluster.NodeStats{Node: id(i), At: time.Now(), State: cluster.PollOK})
	}
	for range 6 { // each node coordinates some
		h.do("POST", "/idx/_search", `{}`)
	}
	late := cluster.NodeStats{Node: "id-a", At: time.Now(), Took: time.Minute, State: cluster.PollUnresponsive}
	h.proxy.UseStats(late)
	require.Equal(t, selection.Fine, h.proxy.view.Load().nodes[0].State())
	late.At, late.Took = time.Now().Add(time.Minute), time.Second
	h.proxy.UseStats(late)
	require.Equal(t, selection.Unresponsive, h.proxy.view.Load().nodes[0].State())
}
