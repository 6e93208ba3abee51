package diagnosis

import (
	"context"
	"slices"
	"time"
)

// Spike is the summary of a record, as lists show it.
type Spike struct {
	ID     string `json:"id"`
	Node   string `json:"node"`
	NodeID string `json:"node_id"`
	Began  Time   `json:"began"`
	Ended  *Time  `json:"ended"` // nil while it lasts
	// State is the first state of the spike, Why the evidence against the node.
	State string `json:"state"`
	Why   string `json:"why"`
	// Again is how often the node got into trouble again within 15 s of its recovery.
	Again   int    `json:"again,omitempty"`
	Cause   Cause  `json:"cause"`
	Summary string `json:"summary"`
}

// Record is everything that is known of a spike.
type Record struct {
	Spike
	// Bouts are when the node was in trouble: more than one if it flapped.
	Bouts []Bout `json:"bouts"`
	// Evidence is that of the named cause. Causes are all with any evidence.
	Evidence []Evidence    `json:"evidence"`
	Causes   []ScoredCause `json:"causes"`
	// Samples are the series of the node and, second, of the median of the others.
	Samples  Timeline  `json:"samples"`
	Captures []Capture `json:"captures"`
	// Stats are the node's counters over time, from before the spike on. Others are the
	// rates of the other nodes meanwhile.
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
	// Alike is the largest share of the other nodes that were in trouble at the same
	// time, 0..1.
	Alike float64 `json:"others_in_trouble"`
}

// Capture is one attempt to ask about the node. Durations are in milliseconds.
type Capture struct {
	At Time `json:"at"`
	// Took is how long the node itself was waited for; nil if its address is unknown.
	Took  *float64 `json:"took_ms"`
	Error string   `json:"error,omitempty"`
	// Status is that of an answer that is an error. It says nothing of the node but that it is there.
	Status int `json:"status,omitempty"`
	// Via is the other node that was asked about it at the same time.
	Via      string   `json:"via,omitempty"`
	ViaTook  *float64 `json:"via_took_ms,omitempty"`
	ViaError string   `json:"via_error,omitempty"`
	// ViaStatus is the same of the other node: the one that it was asked about did not come into it.
	ViaStatus int `json:"via_status,omitempty"`
	// Notes say what else could not be captured.
	Notes []string `json:"notes,omitempty"`
}

// askedDirect and askedVia report whether it tells how long the node takes to answer itself, and other nodes.
func (c Capture) askedDirect() bool { return c.Took != nil && c.Status == 0 }
func (c Capture) askedVia() bool    { return c.ViaTook != nil && c.ViaStatus == 0 }

// answeredDirect and answeredVia report whether the node itself, and the other node,
// answered.
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
	// Off says that none are recorded.
	Off bool `json:"off,omitempty"`
}

// Newest returns the newest spikes, at most so many, and before them in time those that last.
func (s Spikes) Newest(most int) []Spike {
	most = min(most, len(s.Spikes))
	found := slices.Clone(s.Spikes[:most])
	for _, older := range s.Spikes[most:] {
		if older.Ended == nil {
			found = append(found, older)
		}
	}
	return found
}

const (
	// before is the part of the history before a spike that goes into its record.
	before = time.Minute
	// maxSpan bounds the samples of a record, from the beginning of the spike.
	maxSpan = 5 * time.Minute
	// captureFor is how long the node is asked for, once every captureEvery.
	captureFor   = 30 * time.Second
	captureEvery = time.Second
	// hotAfter is how long hot threads wait for the first counters. Walking the stacks
	// stops the node, and one short of CPU would answer nothing else for seconds.
	hotAfter = 500 * time.Millisecond
	// hotAgain is when hot threads are asked for a second time.
	hotAgain = 1500 * time.Millisecond
	// pause is how long a node must be out of trouble until its record is closed. New
	// trouble before that belongs to the same record. The selection lets a node return
	// within ten seconds; later trouble may have another cause.
	pause = 15 * time.Second
	// longest is after what time the record of a node that flaps is closed as soon as that is out of trouble.
	longest = 15 * time.Minute
	// busyLong is how long a node must be busy until that is trouble: uneven load makes nodes busy for a moment.
	busyLong = time.Second
	// maxCaptures, maxHot and maxBouts bound what is recorded of a node that flaps:
	// captures, answers of hot threads, and bouts, of which the last one goes on.
	maxCaptures, maxHot, maxBouts = 120, 8, 8
	// settled is when a spike is counted that is not over: by then the captures of its first bout are complete. It may
	// last, or the node flap, for hours.
	settled = 40 * time.Second
	// maxAtOnce bounds the nodes that are asked at the same time. When many nodes are in
	// trouble asking them all would add to the load and show little more.
	maxAtOnce = 4
)

// recording is a record that is not closed yet. Its fields are guarded by Recorder.mu.
type recording struct {
	record Record
	folded map[string]int
	// capturing says that the node is being asked; well ends that.
	capturing bool
	well      context.CancelFunc
	counted   bool
	sampled   bool // all samples are in the record
}

// lasts reports whether there is such a record, and its node is in trouble.
func (o *recording) lasts() bool { return o != nil && o.record.Ended == nil }

// ends notes that the node is no longer in trouble, or seen.
func (r *Record) ends(now time.Time) {
	r.Ended = &Time{now}
	r.Bouts = slices.Clone(r.Bouts) // a page may be reading them
	if n := len(r.Bouts); n > 0 {   // else a file has none
		r.Bouts[n-1].Ended = r.Ended
	}
}

// over reports whether the node has been out of trouble for long enough, or is so for a moment and has flapped for
// too long.
func (o *recording) over(now time.Time) bool {
	if o.lasts() || o.capturing {
		return false
	}
	return now.Sub(o.record.Ended.Time) >= pause || o.record.Again > 0 && now.Sub(o.record.Began.Time) >= longest
}
