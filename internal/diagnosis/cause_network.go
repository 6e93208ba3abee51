package diagnosis

import "slices"

const (
	// apart and apartBy, in ms, are how much slower one way must be than the other. A
	// busy machine makes either way a few times slower now and then.
	apart   = 3.0
	apartBy = 100.0
	// fewCaptures is the least number of captures that make a difference between the ways
	// certain.
	fewCaptures = 2
)

// slowHTTP finds a node that answers late or not at all itself, while other nodes get its
// statistics quickly.
func slowHTTP(f *facts) (float64, []Evidence) {
	return oneWay(f.direct, f.via, f.viaOK,
		"response time over HTTP", "response time through other nodes")
}

// slowTransport finds a node whose statistics other nodes get late, while it answers
// quickly itself.
func slowTransport(f *facts) (float64, []Evidence) {
	score, evidence := oneWay(f.via, f.direct, f.directOK,
		"response time through other nodes", "response time over HTTP")
	if score == 0 && len(f.direct) == 0 && f.probe > apart*max(f.poll, leastService) && f.probe-f.poll > apartBy && f.serviceFactor() < slower {
		score = 0.6 // the node's own address is unknown
	}
	if score > 0 && f.probe > 0 {
		evidence = append(evidence, finding(f.probe, "ms", "time of probes through other nodes"))
	}
	if score > 0 && f.service > 0 {
		evidence = append(evidence, finding(f.service, "ms", "service time of a query on the node"))
	}
	return score, evidence
}

// oneWay compares the times of two ways of asking, in the same captures.
func oneWay(slow, quick []float64, quickOK int, slowText, quickText string) (float64, []Evidence) {
	if len(slow) == 0 || quickOK == 0 || 2*quickOK < len(quick) {
		return 0, nil
	}
	s, q := median(slices.Clone(slow)), median(slices.Clone(quick))
	if s < apart*q || s-q < apartBy {
		return 0, nil
	}
	score := 0.9
	if min(len(slow), len(quick)) < fewCaptures {
		score = 0.6
	}
	return score, []Evidence{
		finding(s, "ms", slowText), finding(q, "ms", quickText), finding(float64(len(slow)), "", "times asked"),
	}
}
