package diagnosis

import (
	"context"
	"time"
)

// Spike is what is told of a node's trouble in a list.
type Spike struct {
	ID     string `json:"id"`
	Node   string `json:"node"`
	NodeID string `json:"node_id"`
	Began  Time   `json:"began"`
	Ended  *Time  `json:"ended"` // nil while it lasts
	// State is the first state that the node was seen in, Why what spoke against it.
	State string `json:"state"`
	Why   string `json:"why"`
	// Again is how often the node got into trouble anew within 15 s of recovering.
	Again   int    `json:"again,omitempty"`
	Cause   Cause  `json:"cause"`
	Summary string `json:"summary"`
}

// Record is everything that is known of a spike.
type Record struct {
	Spike
	// Bouts are when the node was in trouble: more than one if it flapped.
	Bouts []Bout `json:"bouts"`
	// Evidence is that of the cause, Causes all that were thought of.
	Evidence []Evidence    `json:"evidence"`
	Causes   []ScoredCause `json:"causes"`
	// Samples are those of the node and, second, the median of the others.
	Samples  Timeline  `json:"samples"`
	Captures []Capture `json:"captures"`
	// Stats are the node's counters over time, from before the spike on; Others is how
	// the other nodes fared meanwhile.
	Stats      []Counters   `json:"stats"`
	Others     Rates        `json:"others"`
	Tasks      []Task       `json:"tasks"`
	Pending    *Pending     `json:"pending_tasks"`
	HotThreads []HotThreads `json:"hot_threads"`
}

// Bout is a time during which a node was in trouble.
type Bout struct {
	Began Time  `json:"began"`
	Ended *Time `json:"ended"` // nil while it lasts
	// Alike is the largest share of the other nodes that were in trouble at once, 0..1.
	Alike float64 `json:"others_in_trouble"`
}

// Capture is one attempt at asking about the node. Durations are in milliseconds.
type Capture struct {
	At Time `json:"at"`
	// Took is how long the node itself was waited for, nil if it has no address.
	Took  *float64 `json:"took_ms"`
	Error string   `json:"error,omitempty"`
	// Via is the node that was asked about it at the same time.
	Via      string   `json:"via,omitempty"`
	ViaTook  *float64 `json:"via_took_ms,omitempty"`
	ViaError string   `json:"via_error,omitempty"`
	// Notes say what else could not be captured.
	Notes []string `json:"notes,omitempty"`
}

// answeredDirect and answeredVia report whether the node, or another about it, answered.
func (c Capture) answeredDirect() bool { return c.Took != nil && c.Error == "" }
func (c Capture) answeredVia() bool    { return c.ViaTook != nil && c.ViaError == "" }

// Evidence is one finding, with its figure.
type Evidence struct {
	Text  string  `json:"text"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

// Spikes is the answer of /spikes.
type Spikes struct {
	Spikes []Spike `json:"spikes"` // the newest first
}

const (
	// before is how much of the history before a spike goes into its record.
	before = time.Minute
	// maxSpan bounds the samples of a record, from the beginning of the spike on.
	maxSpan = 5 * time.Minute
	// captureFor is for how long the node is asked, every captureEvery.
	captureFor   = 30 * time.Second
	captureEvery = time.Second
	// hotAfter is how long hot threads wait for the first counters: the node stops for
	// walking its stacks, and one starved of CPU would tell nothing else for seconds.
	hotAfter = 500 * time.Millisecond
	// hotAgain is when hot threads are asked for a second time.
	hotAgain = 1500 * time.Millisecond
	// pause is for how long a node must be well until its record is closed: who gets
	// into trouble again before that adds to it. The selection lets a node back within
	// ten seconds, and what comes later may have another cause.
	pause = 15 * time.Second
	// longest is after which time a record is closed although its node flaps.
	longest = 15 * time.Minute
	// maxCaptures and maxHot bound what is captured of a node that flaps, and maxBouts
	// the bouts told apart.
	maxCaptures, maxHot, maxBouts = 120, 8, 8
	// maxAtOnce is how many nodes are asked at the same time. When many nodes are in
	// trouble the questions would add to it, and they all tell the same.
	maxAtOnce = 4
)

// recording is a record in the making. Its fields are guarded by Recorder.mu.
type recording struct {
	record Record
	folded map[string]int
	// capturing says that the node is being asked; well ends that.
	capturing bool
	well      context.CancelFunc
	counted   bool
}
