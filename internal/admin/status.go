package admin

import (
	"net/http"
	"time"
)

// Status is everything that an operator wants to see at a glance. The web page
// and the terminal are made of it.
type Status struct {
	At      time.Time `json:"at"`
	Version string    `json:"version"`
	Mode    string    `json:"mode"`
	Policy  string    `json:"policy"`
	Ready   Readiness `json:"ready"`
	Engine  Engine    `json:"engine"`
	Nodes   any       `json:"nodes"` // as /nodes
	// Requests counts the clients' requests, Decisions the same by reason and
	// Outcomes by how they ended; Observed counts what mode observe only decided,
	// Failovers second attempts by cause and Hedges such for overdue searches by
	// result.
	// All begin at 0 when a reload brings another upstream.
	Requests  int64            `json:"requests"`
	Decisions map[string]int64 `json:"decisions"`
	Observed  map[string]int64 `json:"observed"`
	Outcomes  map[string]int64 `json:"outcomes"`
	Failovers map[string]int64 `json:"failovers"`
	Hedges    map[string]int64 `json:"hedges"`
	Spikes    any              `json:"spikes"` // the newest, as /spikes
	// Admission is nil while it is off.
	Admission *Admission `json:"admission,omitempty"`
	// Bulks is nil if bulk.single_shard names no index.
	Bulks *Bulks `json:"bulks,omitempty"`
}

// Admission is what became of searches that had to wait.
type Admission struct {
	Mode    string `json:"mode"`
	Waiting int64  `json:"waiting"` // searches
	Refused int64  `json:"refused"` // since the start
	Dropped int64  `json:"dropped"`
	Classes any    `json:"classes"` // see proxy.AdmissionClassStatus
}

// Bulks is what became of bulks.
type Bulks struct {
	Mode    string           `json:"mode"`
	Results map[string]int64 `json:"results"` // bulks by result
	// Operations are those of the bulks by plan: planned, or why they stayed as they were.
	Operations map[string]int64 `json:"operations"`
	Indices    any              `json:"indices"` // those that were written to, see proxy.BulkIndex
	// Skew is that of the most uneven index of the last hour, Index, 0 if there is none.
	Index string  `json:"index,omitempty"`
	Skew  float64 `json:"skew"`
}

// Readiness says whether searches can be steered and, if not, what is missing.
type Readiness struct {
	OK      bool   `json:"ok"`
	Missing string `json:"missing,omitempty"`
}

// Engine is what the upstream is; empty until it is known.
type Engine struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// statusOf completes what the service says with what every listener knows.
func (h *handler) statusOf() Status {
	s := h.service.Status()
	s.At = time.Now().UTC().Truncate(time.Millisecond)
	s.Version = h.version
	s.Ready = Readiness{OK: true}
	if err := h.service.Ready(); err != nil {
		s.Ready = Readiness{Missing: err.Error()}
	}
	return s
}

func (h *handler) status(w http.ResponseWriter, _ *http.Request) {
	h.json(w, http.StatusOK, h.statusOf())
}
