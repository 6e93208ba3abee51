package proxy

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sidestep/internal/admission"
	"sidestep/internal/cluster"
	"sidestep/internal/es"
	"sidestep/internal/selection"
)

// What would be done with a request is what is done with it.
func TestExplainSaysWhatAdmissionWouldDo(t *testing.T) {
	c := startGated(t, 1, func(a *Admission) {
		a.Classes = []AdmissionClass{{Class: admission.Class{Name: "vip"}, OpaqueIDPrefix: "vip-", User: "kim"}}
	})
	e := c.explain(Question{Target: "lone", User: "kim", OpaqueID: "vip-1"}).Admission
	require.Equal(t, []any{"vip", "admit", "It would be sent at once."}, []any{e.Class, e.Would, e.Summary})
	require.Len(t, e.Nodes, 1)
	require.Equal(t, []any{"a", 1.0, 1.0, 0.0}, []any{e.Nodes[0].Node, e.Nodes[0].Adds, *e.Nodes[0].Limit, e.Nodes[0].Admitted})
	first := c.search()
	e = c.explain(Question{Target: "lone"}).Admission
	require.Equal(t, []any{defaultClass, "wait", 0, 1.0}, []any{e.Class, e.Would, e.Waiting, e.Nodes[0].Admitted})
	second := c.search()
	e = c.explain(Question{Target: "lone"}).Admission
	require.Equal(t, []any{"refuse", admission.QueueFull, 1}, []any{e.Would, e.Reason, e.Waiting})
	require.Contains(t, e.Summary, "429")
	require.Nil(t, c.explain(Question{Operation: es.Get, Target: "lone", ID: "1"}).Admission, "it is no load of the search threads")
	require.Nil(t, c.explain(Question{Operation: es.PIT, Target: "lone"}).Admission, "it searches nothing")
	require.Equal(t, []AdmissionClassStatus{{Class: "vip"}, {Class: defaultClass, Waiting: 1, Admitted: 1}}, c.proxy.AdmissionClasses())
	for _, one := range []<-chan answered{first, second} {
		c.let <- struct{}{}
		require.Equal(t, http.StatusOK, (<-one).status)
	}
	require.NoError(t, c.proxy.SetAdmissionMode(admission.Observe))
	first = c.search()
	e = c.explain(Question{Target: "lone"}).Admission
	require.Equal(t, "wait", e.Would)
	require.Contains(t, e.Summary, "As the mode is observe")
	c.let <- struct{}{}
	<-first
	require.NoError(t, c.proxy.SetAdmissionMode(admission.Off))
	require.Nil(t, c.explain(Question{Target: "lone"}).Admission)
}

// A search that goes past a full node is explained as it is sent, and that node has not failed it.
func TestExplainGoesPastAFullNode(t *testing.T) {
	c := startPair(t, 2)
	require.NoError(t, c.proxy.Drain("b", time.Hour))
	first := c.send(t.Context(), http.MethodGet, "/idx/_search", "")
	c.arrives(0)
	require.NoError(t, c.proxy.Drain("b", 0))
	c.queued(0, 50)
	e := c.explain(Question{Target: "idx"})
	require.Equal(t, []any{[]string{"b"}, "admit"}, []any{e.Nodes, e.Admission.Would})
	require.Len(t, e.Admission.Nodes, 1)
	require.Equal(t, "b", e.Admission.Nodes[0].Node)
	require.Equal(t, selection.FailedBefore, e.Decision.Candidates[0].Excluded)
	require.Contains(t, e.Decision.Candidates[0].Why, "had no room for it")
	second := c.send(t.Context(), http.MethodGet, "/idx/_search", "")
	c.arrives(1)
	c.let <- struct{}{}
	c.let <- struct{}{}
	require.Equal(t, http.StatusOK, (<-first).status)
	require.Equal(t, http.StatusOK, (<-second).status)
}

// A search that is sent as its client wrote it may go to any node: the nodes that it would be sent to if it were steered say nothing
// of it.
func TestExplainOfWhatIsNotSteeredIsOfAnyNode(t *testing.T) {
	c := startPair(t, 2)
	for i := range c.nodes { // they serve
		c.proxy.UseStats(cluster.NodeStats{Node: id(i), At: time.Now(), State: cluster.PollOK, Threads: 2, Queries: 1})
	}
	require.NoError(t, c.proxy.Drain("b", time.Hour))
	first := c.send(t.Context(), http.MethodGet, "/idx/_search", "")
	c.arrives(0)
	require.Equal(t, "wait", c.explain(Question{Target: "idx"}).Admission.Would)
	c.proxy.o.Off = []string{string(es.Search)}
	e := c.explain(Question{Target: "idx"}).Admission
	require.Equal(t, "admit", e.Would)
	require.Empty(t, e.Nodes)
	second := c.send(t.Context(), http.MethodGet, "/idx/_search", "")
	require.Eventually(t, func() bool { return len(c.seen()) == 1 }, admitPatience, time.Millisecond)
	c.let <- struct{}{}
	c.let <- struct{}{}
	require.Equal(t, http.StatusOK, (<-first).status)
	require.Equal(t, http.StatusOK, (<-second).status)
}
