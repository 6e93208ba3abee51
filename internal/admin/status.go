package admin

import (
	"net/http"
	"time"
)

// Status is the state of sidestep at a glance. The web page and the terminal show it.
type Status struct {
	At      time.Time `json:"at"`
	Version string    `json:"version"`
	Mode    string    `json:"mode"`
	Ready   Readiness `json:"ready"`
	Engine  Engine    `json:"engine"`
	Nodes   any       `json:"nodes"` // as /nodes
	// Requests counts the clients' requests. Decisions counts them by reason, Outcomes by
	// how they ended. Observed counts decisions that were only made, in mode observe.
	// Failovers counts further attempts by cause, Hedges those for overdue searches by
	// result. All begin at 0 when a reload changes more than the modes of routing, bulks and
	// admission, the admin listener, the logs, tracing or the times of a stop.
	Requests  int64            `json:"requests"`
	Decisions map[string]int64 `json:"decisions"`
	Observed  map[string]int64 `json:"observed"`
	Outcomes  map[string]int64 `json:"outcomes"`
	Failovers map[string]int64 `json:"failovers"`
	Hedges    map[string]int64 `json:"hedges"`
	Spikes    any              `json:"spikes"` // the newest and those that last, as /spikes
	// SpikesOff says that none are recorded.
	SpikesOff bool `json:"spikes_off,omitempty"`
	// Admission is nil while neither searches nor writes are admitted by it.
	Admission *Admission `json:"admission,omitempty"`
	// Bulks is nil if neither bulk.single_shard nor bulk.routing_size names an index.
	Bulks *Bulks `json:"bulks,omitempty"`
}

// Admission counts searches and writes that had to wait.
type Admission struct {
	Mode    string `json:"mode"`    // of searches
	Writes  string `json:"writes"`  // the mode of writes
	Waiting int64  `json:"waiting"` // searches and writes
	Refused int64  `json:"refused"` // since the start
	Dropped int64  `json:"dropped"`
	Classes any    `json:"classes"` // see proxy.AdmissionClassStatus
}

// Bulks counts bulks and their operations.
type Bulks struct {
	Mode    string           `json:"mode"`
	Results map[string]int64 `json:"results"` // bulks by result
	// Operations are those of the bulks by plan: planned, or why they stayed unchanged.
	Operations map[string]int64 `json:"operations"`
	Indices    any              `json:"indices"` // those that were written to, see proxy.BulkIndex
	// Skew is the largest skew of an index in the last hour, and Index its name; 0 if
	// there is none.
	Index string  `json:"index,omitempty"`
	Skew  float64 `json:"skew"`
}

// Readiness says whether searches can be steered and, if not, what is missing.
type Readiness struct {
	OK      bool   `json:"ok"`
	Missing string `json:"missing,omitempty"`
}

// Engine is the upstream's distribution and version; empty until known.
type Engine struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// statusOf completes the service's status with the listener's own fields.
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
