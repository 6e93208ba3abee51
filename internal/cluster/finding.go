package cluster

import "time"

// Finding is a round of probes, sent in the same instant to be compared with each other, as one sidestep
// tells another of it.
type Finding struct {
	// Number grows from one finding of a sidestep to the next.
	Number int64
	// Sent is when the probes were sent.
	Sent time.Time
	// Local: of two nodes, one was asked through itself.
	Local  bool
	Probes []FoundProbe
}

// FoundProbe is one probe of a [Finding].
type FoundProbe struct {
	Node, Via string // ids
	Burst     bool   // it was several searches at once
	Took      time.Duration
	Failed    bool
	Message   string // what went wrong, for operators
}
