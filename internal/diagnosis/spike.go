package diagnosis

// Spike is what is told of a node's trouble in a list.
type Spike struct {
	ID     string `json:"id"`
	Node   string `json:"node"`
	NodeID string `json:"node_id"`
	Began  Time   `json:"began"`
	Ended  *Time  `json:"ended"` // nil while it lasts
	// State is the first state that the node was seen in, Why what spoke against it.
	State   string `json:"state"`
	Why     string `json:"why"`
	Cause   Cause  `json:"cause"`
	Summary string `json:"summary"`
}

// Cause is what lies behind a spike. The set is closed: it is a metric label.
type Cause string

// Spikes is the answer of /spikes.
type Spikes struct {
	Spikes []Spike `json:"spikes"` // the newest first
}

// Spikes lists the records, the newest first.
func (r *Recorder) Spikes() Spikes { return Spikes{Spikes: []Spike{}} }

// Spike returns a whole record; false if there is none of this id.
func (r *Recorder) Spike(string) (*Record, bool) { return nil, false }

// Folded returns the stacks of a record's hot threads, folded.
func (r *Recorder) Folded(string) (string, bool) { return "", false }

// Record is everything that is known of a spike.
type Record struct {
	Spike
}
