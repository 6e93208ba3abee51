package record

import (
	"log/slog"
	"reflect"
	"strings"
	"time"

	"sidestep/internal/es"
	"sidestep/internal/selection/account"
)

// Record describes one client request. It holds no body, no query string, no id of a
// document and no header except the two ids by which clients find a request again. Times
// are in milliseconds. docs/logs.md explains each field.
type Record struct {
	At        time.Time    `json:"at"` // when the request's head had arrived
	Client    string       `json:"client,omitempty"`
	Method    string       `json:"method"`
	Path      string       `json:"path"` // ids replaced, bounded
	Operation es.Operation `json:"operation"`
	Target    string       `json:"target,omitempty"` // index expression of operations that are steered
	Routed    bool         `json:"routed,omitempty"` // it has a routing
	Mode      string       `json:"mode"`
	Reason    string       `json:"reason"`
	// Status is 0 if no answer began.
	Status   int      `json:"status"`
	Outcome  string   `json:"outcome"`
	Duration float64  `json:"duration_ms"`
	Upstream float64  `json:"upstream_ms"` // waiting for upstreams until the head of the answer
	Took     *float64 `json:"took_ms"`     // the engine's own, null if the answer has none that is read
	// Class is the class of admission, and Waited how long the request waited for
	// admission.
	Class         string  `json:"class,omitempty"`
	Waited        float64 `json:"waited_ms,omitempty"`
	RequestBytes  int64   `json:"request_bytes"`
	ResponseBytes int64   `json:"response_bytes"`
	// Bulk is absent if the request is no bulk, or a bulk that sidestep does not read.
	Bulk *Bulk `json:"bulk,omitempty"`
	// Nodes are the names of the nodes listed for the attempt that was answered.
	Nodes       []string        `json:"nodes,omitempty"`
	Coordinator string          `json:"coordinator,omitempty"` // name of the node that the answer came through
	Attempts    []AttemptRecord `json:"attempts"`
	OpaqueID    string          `json:"x_opaque_id,omitempty"`
	TraceID     string          `json:"trace_id,omitempty"`
	// Kept says why the record is kept: "slow", "failed", "failover", "hedge".
	Kept []string `json:"kept,omitempty"`
	// Decision is the first decision, with what was known then; only in records that are
	// kept.
	Decision *account.Account `json:"decision,omitempty"`

	ended time.Time
}

// Bulk counts the operations of a bulk.
type Bulk struct {
	Operations int `json:"operations"` // as far as the body was read
	Planned    int `json:"planned"`    // of them, those that were given a routing
	Shards     int `json:"shards"`     // that these were written to
	// OK, Rejected (429) and Failed count the items of the answer by status, as far as it
	// was read: a compressed one is not.
	OK       int `json:"ok"`
	Rejected int `json:"rejected"`
	Failed   int `json:"failed"`
}

// AttemptRecord is one attempt at a request.
type AttemptRecord struct {
	Kind   string `json:"kind"` // "first", "failover" or "hedge"
	Node   string `json:"node"` // name of the coordinating node
	NodeID string `json:"node_id"`
	// Preference is the kind that was added: "only_nodes", "prefer_nodes" or "none".
	Preference string   `json:"preference"`
	Nodes      []string `json:"nodes,omitempty"` // names of those that were listed
	Start      float64  `json:"start_ms"`        // after the request's head
	// Duration is until the head of the answer, or the attempt's end.
	Duration float64 `json:"duration_ms"`
	// Outcome is "answered", "abandoned", "canceled", "cut_off" or a cause of failovers.
	Outcome string `json:"outcome"`
	Status  int    `json:"status,omitempty"`
	Error   string `json:"error,omitempty"`
}

// Ended returns when the request ended.
func (r *Record) Ended() time.Time { return r.ended }

// Attrs returns the record as attributes of a log line, named as in JSON. It leaves out
// empty fields where JSON omits them.
func (r *Record) Attrs() []slog.Attr {
	v := reflect.ValueOf(r).Elem()
	attrs := make([]slog.Attr, 0, v.NumField())
	for i := range v.NumField() {
		name, options, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if name == "" || (options == "omitempty" && v.Field(i).IsZero()) {
			continue
		}
		attrs = append(attrs, slog.Any(name, v.Field(i).Interface()))
	}
	return attrs
}

// BriefAttrs is Attrs without the decision, which is of use for single records only.
func (r *Record) BriefAttrs() []slog.Attr {
	brief := *r
	brief.Kept, brief.Decision = nil, nil
	return brief.Attrs()
}
