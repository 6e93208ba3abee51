package selection

import "time"

// Every constant of the selection: its unit, why it is what it is, and the scenario of the lab
// (sidestep-lab lab), or the test, that needs it. make bench-sensitivity tells what each moves.
// A node is compared with others at the same moment, so no constant depends on how fast a
// cluster is, or how busy. What is given in milliseconds is what differs by chance where searches take few.
const (
	// A figure is far from what it is compared with if it is more than FarFactor times that,
	// plus a slack: the response time of a node (suspicion), the time of a probe (proof), the time in queues
	// that a list, a second attempt or another coordinating node is worth. Less is what
	// the work of a moment does. healthy_80, bimodal_500ms.
	FarFactor = 3
	// SlowSlack (ms) is for suspicion, which costs a few probes at most: above what differs by
	// chance where searches take a millisecond. slow_10x.
	SlowSlack = 10.0
	// peerSlack (ms) is for proof: above a short pause for garbage collection, which is no
	// trouble. bimodal_500ms.
	peerSlack = twice * SlowSlack
	// nearSlack (ms) is for copies, and for coordinating nodes: what ranks differ by on a fast
	// cluster. A list names the copies of a shard that are worse than the best by no more than that: the
	// engine draws lots among them, so that a slower one would get as much as the best. healthy_60.
	nearSlack = 5.0
	// noise (ms) is what the time of an idle node differs by. It takes the place of peerSlack
	// where response times speak against the node for every target that it serves: a probe
	// takes less than a millisecond, so that a slow node shows little. slow_10x. A copy in
	// another zone must be better by at least that.
	noise = 1.0

	// twice: what one observation may show by chance is acted upon if it is seen twice.
	// Failures in a row eject, good probes in a row end an ejection, and suspects are compared
	// with as many nodes that nothing speaks against. fails_fast_503, slow_10x,
	// TestOfFewNodesTheOneThatIsSlowBothWaysIsEjected.
	twice = 2
	// proofTime is for how long probes must speak against a node until it is ejected. Where
	// they are late, FarFactor times what a shard query takes comes on top, firstHold at the most:
	// what a node works on may keep a probe waiting while its peers have nothing to do. Meanwhile
	// no new search is sent there. pauses_beside, bimodal_2s, TestProofOutlastsAShardQuery.
	proofTime = 250 * time.Millisecond
	// At most one in ejectOneIn data nodes is ejected, one of two, two of five. More leave the
	// load of all to few. TestNeverMoreThanAThirdOfTheDataNodesIsEjected.
	ejectOneIn = 3
	// roundSize is how many nodes are compared at once: it bounds what probes cost where many
	// nodes are suspect. nodes_1000.
	roundSize = twice * probeBurst

	// suspicionInterval is between two rounds for the same suspicion: a bad node is avoided
	// after the first, and ejected within a second where shard queries take no more than that: after the poll that was planned,
	// the node is polled several times in it.
	// slow_10x_20_sidecars.
	suspicionInterval = 100 * time.Millisecond
	// probeInterval is between probes of an ejected node, or of an avoided one that has a queue, or needs a poll to be proof, give or take
	// probeJitter of it, so that the probes of many clients do not meet. slow_10x_20_sidecars.
	probeInterval = twice * twice * suspicionInterval
	probeJitter   = 0.2
	// ProbeTimeout is the deadline of a probe: longer than a tiny search takes anywhere, and
	// short enough that a node that answers nothing is known within a second. pauses. One node
	// that nothing speaks against is probed in that time, so one at once at most. Searches may wait
	// for so long in a queue, to be spared a node that answers nothing.
	ProbeTimeout = time.Second
	// roundLife is how long the probes of a round are compared with each other, and how long
	// probes that tell nothing are waited for. What searches through a coordinating node told
	// of it counts half as much after that time.
	roundLife = twice * ProbeTimeout
	// maxFindings is how many rounds of probes are kept for others: more than there are in roundLife. None has more
	// probes than that.
	maxFindings = twice * twice * roundSize

	// failureMemory is within what time failures are in a row. TestFailuresFarApartAreNoProof.
	failureMemory = twice * twice * firstHold
	// rejectsMuch is the share of rejected tasks from which on a node's queue is full: fewer
	// are a burst. step_overload, TestFewRejectionsAreABurst.
	rejectsMuch = 0.02
	// fullLoad is the utilisation of the others' CPUs above which a node is needed, and of its own
	// above which what it coordinates waits like its shard queries: toward 1 queues grow without bound. slow_3x_80,
	// transport_80, TestOthersCoordinateForFullNodes. A node that answers less than one
	// part in useFactor of the shard queries that the others answer in the mean is not missed: the
	// others answer several times as many where they hold other indices, or are faster hardware
	// (TestANodeThatIsNeededIsNotEjected), but not ten times. slow_10x_60. A node with a quota of
	// less than that part of the CPU of its peers is short of CPU: the row cpu of the chaos table.
	fullLoad  = 0.9
	useFactor = twice * twice * twice

	// firstHold is how long a node stays ejected after the last probe against it, give or take
	// probeJitter of it; twice as long, up to holdMemory, each time that it is ejected again
	// within holdMemory of its return. The row flapping of the chaos table.
	firstHold = roundLife
	// holdMemory is longer than a node that comes and goes is well, and longer than nobody asks for probes while they are switched
	// on. One that is short of CPU stays ejected for so long: while idle it is well. The row cpu of the chaos table.
	holdMemory = time.Minute
	// The last good probe that ends an ejection is of probeBurst searches at once, as a node
	// short of CPU answers a single one in time.
	// TestANodeThatAnswersOneProbeAndNoBurstStaysEjected. All clients together that are known send an
	// ejected node no more in a probeInterval: 20 a second. TestProbesOfManySidecars of the lab.
	probeBurst = 8
	// SlowStart is how long the share of a node that is back, or new, grows from nothing: a
	// part of the searches fills its caches. cold_node.
	SlowStart = 3 * time.Second
	// absence is how long a node that left is expected back, and how long one that joined is expected to get copies:
	// longer than most restarts take. The rows rolling and announced of the chaos table.
	absence = twice * twice * twice * holdMemory

	// A node gets more of its own only up to loadBound times what the others have in the mean,
	// plus two: the bound of consistent hashing with bounded loads. It is for searches
	// outstanding where affinity names a copy, and for requests that a node coordinates.
	// TestBurstDoesNotHerdToOneCoordinator.
	loadBound = 1.25

	// Coordinating nodes whose rank is within coordinatingFactor times the best one's are
	// equal. TestAFewNodesDoNotCoordinateEverything.
	coordinatingFactor = 1.5

	// leastTime (ms) stands in for a time that the engine's whole milliseconds round to
	// nothing: the mean of what is rounded to it. With S = 0 the queue would not count. Among
	// nodes that take less the queue alone decides.
	leastTime = 0.5
)
