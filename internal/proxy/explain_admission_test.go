package proxy

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"sidestep/internal/admission"
	"sidestep/internal/es"
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
