package diagnosis

const (
	// stalled, in ms, is from when on a node that says nothing stands still rather than
	// is slow: young collections and full queues explain less.
	stalled = 600.0
	// explains is the part of a silence that something must have taken to explain it, and
	// little that which speaks against a standstill.
	explains = 0.5
	little   = 0.3
	// A process that stands still uses no CPU, but waking (ms) takes some, and answering
	// what has come meanwhile. One that uses more has a small part of a processor.
	waking, alive = 300.0, 0.02
	// common is the share of the other nodes in trouble at once from which on what they
	// share is to be suspected, and not the node: the machine, the network, sidestep itself.
	common = 0.5
	// gcHeavy is the share of the time from which on collections slow everything down
	// although none of them is long.
	gcHeavy = 0.4
	// gcPassed, in ms, is the time at least that collections are seen as a share of: one
	// of a quarter of a second is no burden.
	gcPassed = 2000.0
	// gcLong, in ms, is what a collection takes that searches notice.
	gcLong = 200.0
)

// gcPause: collections that took much of the time, or of a silence.
func gcPause(f *facts) (float64, []Evidence) {
	var spent, passed, count float64
	for _, s := range f.steps {
		spent, passed = spent+s.GC*s.Elapsed*1000, passed+s.Elapsed*1000
	}
	share := spent / max(passed, gcPassed)
	if n := len(f.readings); n > 0 && f.previous != nil {
		count = max(0, float64(f.readings[n-1].GC-f.previous.GC))
	}
	if spent < gcLong || throttled(f) >= throttledMuch {
		return 0, nil // starved of CPU, a collection takes long because everything does
	}
	score := min(1, share/gcHeavy) * 0.7
	if f.silence >= stalled && spent >= explains*f.silence {
		score = 0.95
	}
	if f.calmKnown && share < 2*f.calm.GC {
		score /= 2 // as always
	}
	evidence := []Evidence{finding(spent, "ms", "garbage collection"), finding(count, "", "collections")}
	if f.silence >= stalled {
		evidence = append(evidence, finding(f.silence, "ms", "silent for"))
	}
	if n := len(f.readings); n > 0 && f.readings[n-1].HeapMax > 0 {
		used := 0.0
		for _, c := range f.rec.Stats {
			used = max(used, float64(c.HeapUsed)/float64(max(1, c.HeapMax)))
		}
		evidence = append(evidence, finding(used, "%", "heap in use, at most"))
	}
	return score, evidence
}

// standstill: nothing answered, on either way, and then everything did at once, with
// neither CPU nor collections spent meanwhile.
func standstill(f *facts) (float64, []Evidence) {
	if f.silence < stalled || !f.answered || f.refused || f.restarted {
		return 0, nil
	}
	if f.settled > max(stalled/2, f.silence/3) || throttled(f) >= throttledMuch {
		return 0, nil // it is slow still
	}
	evidence := []Evidence{finding(f.silence, "ms", "no answer for")}
	score := 0.6 // without readings from before there is no telling what it did
	if len(f.steps) > 0 && f.previous != nil {
		first := f.steps[0]
		gap := first.Elapsed * 1000
		cpu := max(0, first.CPU*gap-f.calm.CPU*max(0, gap-f.silence))
		gc := first.GC * gap
		if cpu > waking+alive*f.silence || gc > little*f.silence {
			return 0, nil
		}
		score = 0.75 + 0.2*min(1, f.silence/2000)
		evidence = append(evidence,
			finding(cpu, "ms", "CPU time used meanwhile"), finding(gc, "ms", "garbage collection meanwhile"))
	}
	if f.Alike >= common {
		score /= 2
		evidence = append(evidence, finding(f.Alike, "%", "other nodes in trouble at once"))
	}
	if f.settled > 0 {
		evidence = append(evidence, finding(f.settled, "ms", "then answers after"))
	}
	return score, evidence
}

// unresponsive: no answer on any way, and nothing that says why.
func unresponsive(f *facts) (float64, []Evidence) {
	tries := len(f.direct) + len(f.via)
	switch {
	case f.restarted:
		return 0.9, []Evidence{finding(float64(f.readings[len(f.readings)-1].Uptime)/1000, "s", "started again, up for")}
	case tries > 0 && !f.answered && f.refused:
		return 0.8, []Evidence{finding(float64(tries), "", "connections refused or broken, questions without an answer")}
	case tries > 0 && !f.answered:
		return 0.6, []Evidence{
			finding(f.silence, "ms", "no answer for"), finding(float64(tries), "", "questions without an answer"),
		}
	case f.silence >= stalled && tries > 0:
		return threshold, []Evidence{finding(f.silence, "ms", "no answer for")}
	}
	return 0, nil
}
