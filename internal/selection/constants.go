package selection

import "time"

const (
	// firstHold is how long an ejected node stays out after the last proof against it, give
	// or take a fifth; twice as long, up to longestHold, each time that it is ejected again
	// within holdMemory of its return.
	firstHold   = 2 * time.Second
	longestHold = 8 * time.Second
	holdMemory  = time.Minute
	// goodProbes must have been as good as those of its peers since.
	goodProbes = 2
	// rampTime is how long the share of a node that is back, or new, grows, from
	// rampFloor on.
	rampTime  = 3 * time.Second
	rampFloor = 0.1
	// failuresInARow, each within failureMemory of the one before, are proof.
	failuresInARow = 2
	failureMemory  = 10 * time.Second
	// fullLoad is the utilisation of the others' CPUs above which a node is needed, unless it
	// does less than one part in useFactor of what another does.
	fullLoad  = 0.9
	useFactor = 4
	// rejectsMuch is the share of rejected tasks from which on a node's queue is full.
	rejectsMuch = 0.02

	// peerFactor and peerSlack (ms) say from when on a probe speaks against its node:
	// peerFactor times what the probes of its peers took, plus peerSlack.
	peerFactor = 3
	peerSlack  = 20.0
	// fineSlack (ms) takes the place of peerSlack where response times speak against the
	// node for every target that it serves.
	fineSlack = 1.0
	// proofTime is for how long probes must speak against a node until it is ejected. What
	// is avoided meanwhile costs nothing, and a burst of searches does not last so long.
	proofTime = 500 * time.Millisecond
	// roundSize is how many nodes are compared at once.
	roundSize = 16
	// suspicionInterval is between two rounds for the same suspicion.
	suspicionInterval = 100 * time.Millisecond
	// sampleInterval is between probes of nodes that nothing speaks against.
	sampleInterval = time.Second
	// probeInterval is between probes of an ejected node, give or take a fifth.
	probeInterval = 400 * time.Millisecond
	// probeBurst searches at once decide whether a node may come back.
	probeBurst = 8

	// slowFactor times the median response time of the candidates plus slowSlack (ms) is
	// what makes a node suspect.
	slowFactor = 3
	slowSlack  = 10.0
)
