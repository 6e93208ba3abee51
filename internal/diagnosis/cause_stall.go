package diagnosis

const (
	// stalled, in ms, is the least silence of a node that has stopped. Shorter silences
	// have other reasons, such as young collections and full queues.
	stalled = 600.0
	// explains is the least part of a silence that its cause must have taken. little is
	// the largest part that garbage collection may have taken if the process was stopped.
	explains = 0.5
	little   = 0.3
	// A stopped process uses no CPU. When it continues it answers what has arrived, which
	// takes some: waking, in ms, and the share alive of the silence. A node that used
	// more had a small part of a processor.
	waking, alive = 300.0, 0.02
	// common is the share of other nodes in trouble at the same time from which on the
	// fault lies in what the nodes share: the machine, the network, or sidestep itself.
	common = 0.5
	// gcHeavy is the share of the time from which on collections slow everything down
	// although each of them is short.
	gcHeavy = 0.4
	// gcPassed, in ms, is the least time over which the share of collections is taken: in
	// a shorter one a single collection would look heavy.
	gcPassed = 2000.0
	// gcLong, in ms, is the least time of collections that searches notice.
	gcLong = 200.0
)

// gcPause finds collections that took much of the time, or of a silence.
func gcPause(f *facts) (float64, []Evidence) {
	spent, share := collecting(f.steps)
	_, since := collecting(f.lately())
	share = max(share, since)
	count := 0.0
	if n := len(f.readings); n > 0 && f.previous != nil {
		count = max(0, float64(f.readings[n-1].GC-f.previous.GC))
	}
	if spent < gcLong || throttled(f) >= throttledMuch {
		return 0, nil // short of CPU, everything takes long, collections too
	}
	score := min(1, share/gcHeavy) * 0.7
	if f.normalKnown && share < 2*f.normal.GC {
		score /= 2 // no more than usual
	}
	if f.silence >= stalled && f.collectedSilently() >= explains*f.silence {
		score = 0.95
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

// collecting is how long collections took in some steps, in ms, and for which part of that time.
func collecting(steps []Rates) (spent, share float64) {
	passed := 0.0
	for _, s := range steps {
		spent, passed = spent+s.GC*s.Elapsed*1000, passed+s.Elapsed*1000
	}
	return spent, spent / max(passed, gcPassed)
}

// collectedSilently is for how long, in ms, collections ran while the node answered nothing: those that ended between
// the last reading before and the first one after, less what is usual for the rest of that time.
func (f *facts) collectedSilently() float64 {
	// In minutes every node collects for seconds: what is usual must be known then.
	if f.previous == nil || len(f.steps) == 0 || !f.normalKnown && f.steps[0].Elapsed >= before.Seconds() {
		return 0
	}
	gap := f.steps[0].Elapsed * 1000
	return f.steps[0].GC*gap - f.normal.GC*max(0, gap-f.silence)
}

// standstill finds a node that answered on neither way and then at once on both, with
// almost no CPU or collections meanwhile.
func standstill(f *facts) (float64, []Evidence) {
	if f.silence < stalled || !f.answered || f.refused > 0 || f.restarted {
		return 0, nil
	}
	if f.settled > max(stalled/2, f.silence/3) || throttled(f) >= throttledMuch {
		return 0, nil // it stayed slow
	}
	evidence := []Evidence{finding(f.silence, "ms", "no answer for")}
	score := unnamed // without earlier counters it may as well have collected garbage
	if len(f.steps) > 0 && f.previous != nil {
		first := f.steps[0]
		gap := first.Elapsed * 1000
		cpu := max(0, first.CPU*gap-f.normal.CPU*max(0, gap-f.silence))
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
		evidence = append(evidence, finding(f.settled, "ms", "response time after that"))
	}
	return score, evidence
}

// unresponsive finds a node that answers on neither way, without a reason that is known.
func unresponsive(f *facts) (float64, []Evidence) {
	tries := f.tries()
	switch {
	case f.restarted:
		return 0.9, []Evidence{finding(float64(f.readings[len(f.readings)-1].Uptime)/1000, "s", "started again, up for")}
	case f.unanswered() && f.refused > 0:
		return 0.8, []Evidence{finding(float64(tries), "", "connections refused or broken, questions without an answer")}
	case f.unanswered():
		return 0.6, []Evidence{
			finding(f.silence, "ms", "no answer for"), finding(float64(tries), "", "questions without an answer"),
		}
	case f.silence >= stalled && tries > 0:
		return threshold, []Evidence{finding(f.silence, "ms", "no answer for")}
	}
	return 0, nil
}
