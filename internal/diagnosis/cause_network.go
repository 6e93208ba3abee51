package diagnosis

const (
	// apart and apartBy, in ms, are how much slower one way must be than the other. A
	// busy machine makes either way a few times slower now and then.
	apart   = 3.0
	apartBy = 100.0
	// slowPolls is by how much longer than usual a node takes to answer if it is slow at everything.
	slowPolls = 5.0
	// fewCaptures is the least number of captures that make a difference between the ways
	// certain.
	fewCaptures = 2
)

// slowHTTP finds a node that answers late or not at all itself, while other nodes get its
// statistics quickly.
func slowHTTP(f *facts) (float64, []Evidence) {
	score, evidence := f.oneWay(f.direct, f.via)
	if score > 0 && f.direct.answered == 0 && f.refused > 0 {
		evidence[0] = finding(float64(f.refused), "", "connections over HTTP refused or broken")
	}
	return score, evidence
}

// slowTransport finds a node whose statistics other nodes get late, while it answers
// quickly itself.
func slowTransport(f *facts) (float64, []Evidence) {
	score, evidence := f.oneWay(f.via, f.direct)
	if score == 0 && !f.addressed && f.probe > apart*max(f.poll, leastService) && f.probe-f.poll > apartBy && f.serviceFactor() < slower {
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

// way is one way of asking about the node.
type way struct {
	name     string
	times    []float64 // how long captures took
	answered int
}

// add adds a capture. One that failed counts as the deadline at least.
func (w *way) add(took float64, err string) {
	if err == "" {
		w.answered++
	} else {
		took = max(took, millis(statsDeadline))
	}
	w.times = append(w.times, took)
}

// median is the median of the times, as evidence.
func (w way) median() (ms float64, told Evidence) {
	ms = median(w.times)
	if w.answered == 0 {
		return ms, finding(ms, "ms", "no answer "+w.name+" within")
	}
	return ms, finding(ms, "ms", "response time "+w.name)
}

// oneWay compares the times of two ways of asking, in the same captures. Where most nodes are in trouble, and none of
// the ways is quick, it is not a way that is slow: all are, and some more than others.
func (f *facts) oneWay(slow, quick way) (float64, []Evidence) {
	if len(slow.times) == 0 || quick.answered == 0 || 2*quick.answered < len(quick.times) {
		return 0, nil
	}
	s, slowly := slow.median()
	q, quickly := quick.median()
	if s < apart*q || s-q < apartBy || f.Alike >= common && q >= max(apartBy, slowPolls*f.usualPoll) {
		return 0, nil
	}
	score := 0.9
	if min(len(slow.times), len(quick.times)) < fewCaptures {
		score = unnamed // a single answer may be late by chance
		if slow.answered == 0 {
			score = 0.6
		}
	}
	return score, []Evidence{slowly, quickly, finding(float64(len(slow.times)), "", "times asked")}
}
