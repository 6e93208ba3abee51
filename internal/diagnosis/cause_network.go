package diagnosis

import "slices"

const (
	// apart is how many times slower one way must be than the other, and apartBy, in ms,
	// by how much: a busy machine makes either a few times slower now and then.
	apart   = 3.0
	apartBy = 100.0
	// fewCaptures is how many captures at least make a difference between the ways sure.
	fewCaptures = 2
)

// slowHTTP: the node itself answers late or not at all, and other nodes get its answer
// quickly.
func slowHTTP(f *facts) (float64, []Evidence) {
	return oneWay(f.direct, f.via, f.viaOK,
		"answers over HTTP after", "answers through other nodes after")
}

// slowTransport: other nodes get the node's answer late, and it answers quickly itself.
func slowTransport(f *facts) (float64, []Evidence) {
	score, evidence := oneWay(f.via, f.direct, f.directOK,
		"answers through other nodes after", "answers over HTTP after")
	if score == 0 && len(f.direct) == 0 && f.probe > apart*max(f.poll, leastService) && f.probe-f.poll > apartBy && f.serviceFactor() < slower {
		score = 0.6 // its own address is not known
	}
	if score > 0 && f.probe > 0 {
		evidence = append(evidence, finding(f.probe, "ms", "probes through other nodes after"))
	}
	if score > 0 && f.service > 0 {
		evidence = append(evidence, finding(f.service, "ms", "service time of a query on the node"))
	}
	return score, evidence
}

// oneWay compares two ways of asking at the same moments.
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
