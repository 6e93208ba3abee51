package diagnosis

import "github.com/prometheus/client_golang/prometheus"

// noCause stands for the cause of nodes that are not in trouble: a metric without a
// series could not be told from one that is gone.
const noCause = "none"

// trouble reads at scrape time which nodes are in trouble and of what. The counter of
// spikes tells when all is known; this one names a cause as soon as it is found.
type trouble struct {
	r    *Recorder
	desc *prometheus.Desc
}

func newTrouble(r *Recorder) trouble {
	return trouble{r, prometheus.NewDesc("sidestep_node_spike",
		"1 with the cause found so far, from when the node gets into trouble until it has been well for "+pause.String()+"; else 0 with the cause none.",
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
