package diagnosis

import "github.com/prometheus/client_golang/prometheus"

// noCause is the cause of nodes that are not in trouble, so that every node has a series.
const noCause = "none"

// trouble reads at scrape time which nodes are in trouble, and the cause. The counter of
// spikes counts when a record is complete; this gauge shows a cause as soon as it is
// found.
type trouble struct {
	r    *Recorder
	desc *prometheus.Desc
}

func newTrouble(r *Recorder) trouble {
	return trouble{r, prometheus.NewDesc("sidestep_node_spike",
		"1 with the cause found so far, while the node is in trouble and for "+pause.String()+" after that; else 0 with the cause none.",
		[]string{"node", "node_id", "cause"}, nil)}
}

// Describe implements prometheus.Collector.
func (t trouble) Describe(ch chan<- *prometheus.Desc) { ch <- t.desc }

// Collect implements prometheus.Collector.
func (t trouble) Collect(ch chan<- prometheus.Metric) {
	t.r.mu.Lock()
	defer t.r.mu.Unlock()
	for _, n := range t.r.nodes {
		value, cause := 0.0, noCause
		if open := t.r.open[n.ID]; open != nil {
			value, cause = 1, string(open.record.Cause)
		}
		ch <- prometheus.MustNewConstMetric(t.desc, prometheus.GaugeValue, value, n.Name, n.ID, cause)
	}
}
