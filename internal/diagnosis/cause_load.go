package diagnosis

import "math"

const (
	// throttledMuch is the least share of CPU periods with an exhausted quota that
	// counts. Below it, searches are rarely throttled.
	throttledMuch = 0.25
	// slower is the least factor by which queries must take longer than usual to be
	// called slow.
	slower = 2.0
	// quotaEnough is the part of its quota that a node may normally use for the quota to
	// be large enough. If it then runs out, the additional work is the cause.
	quotaEnough = 0.7
	// full and free are CPU use in percent: a machine that is short of CPU, and one that
	// is not.
	full, free = 90.0, 70.0
	// burst is the least share of a processor, or of the time, at which background work
	// slows searches down. timesUsual is the least factor by which it must exceed what is
	// normal.
	burst      = 0.3
	timesUsual = 2.0
	// together, in s, is for how long refreshes may gather until they come at once: an index of logs is refreshed once in
	// half a minute.
	together = 30.0
	// mergingWeight is the weight of a merge that is running: it may be throttled.
	mergingWeight = 0.7
	// mostly is the share of snapshots of search threads that shows a phase without the
	// counters, and fewSnapshots the least number of snapshots for that.
	mostly, fewSnapshots = 0.7, 5
	// queued is the number of waiting searches for each thread from which on a queue is a
	// backlog.
	queued = 10.0
)

func throttled(f *facts) float64 {
	return f.most(func(r Rates) float64 { return r.Throttled })
}

// quota returns the least number of processors that the node was limited to; infinite if
// it was not.
func (f *facts) quota() float64 {
	least := math.Inf(1)
	for _, c := range f.readings {
		if c.Quota > 0 && c.Period > 0 {
			least = min(least, float64(c.Quota)/float64(c.Period))
		}
	}
	return least
}

// cpuStarvation finds an exhausted quota, a machine that is busy with something else, or
// a node that is slow at everything while it uses little CPU.
func cpuStarvation(f *facts) (float64, []Evidence) {
	if share := throttled(f); share >= throttledMuch {
		last := f.readings[len(f.readings)-1]
		for _, c := range f.readings {
			if c.Quota > 0 {
				last = c
			}
		}
		evidence := []Evidence{finding(share, "%", "periods in which the CPU quota ran out")}
		if last.Quota > 0 && last.Period > 0 {
			evidence = append(evidence, finding(float64(last.Quota)/float64(last.Period), "CPUs", "the quota"))
		}
		score := 0.75 + 0.2*share
		enough := f.normalKnown && f.normal.Throttled < throttledMuch && f.normal.CPU < quotaEnough*f.quota()
		if enough || f.hot[poolMerge] >= explains*f.quota() {
			score = 0.55
		}
		return score, withService(f, evidence)
	}
	var own, all float64 = 0, 0
	for _, c := range f.readings {
		own, all = max(own, float64(c.CPU)), max(all, float64(c.OSCPU))
	}
	foreign := all >= full && own < full/2 && max(f.normal.OSCPU, f.rec.Others.OSCPU) < free
	if foreign && (f.normalKnown || f.rec.Others.OSCPU > 0) {
		return 0.7, withService(f, []Evidence{
			finding(all/100, "%", "the machine's CPU in use"), finding(own/100, "%", "used by the node's own process"),
		})
	}
	if used, ok := trickle(f); ok {
		return 0.55, withService(f, []Evidence{
			finding(f.silence, "ms", "no answer for"), finding(used, "%", "CPU used meanwhile"),
		})
	}
	asked := min(median(f.direct.times), median(f.via.times))
	// Where the network to a node is slow on every way, its queries are as fast as ever.
	queries := f.serviceFactor() == 0 || f.serviceFactor() >= slower || !f.endsQueries()
	alike := queries && min(f.direct.answered, f.via.answered) > 0 && min(len(f.direct.times), len(f.via.times)) > 1 && f.Alike < common
	if alike && f.usualPoll > 0 && asked >= slowPolls*f.usualPoll && asked >= apartBy && f.hot[poolMerge] < burst && f.most(func(r Rates) float64 { return r.GC }) < gcHeavy {
		return 0.6, withService(f, []Evidence{
			finding(asked, "ms", "answers on every way after"), finding(f.usualPoll, "ms", "polls usually after"),
			finding(own/100, "%", "CPU used by the node's process"),
		})
	}
	return 0, nil
}

// trickle reports whether the node used a little CPU while it answered nothing, and which
// share of a processor. It finds a quota that was too small and has been lifted, which
// the counters no longer show.
func trickle(f *facts) (used float64, ok bool) {
	if !f.answered || f.restarted || f.previous == nil || len(f.steps) == 0 || f.silence < 5*stalled || f.Alike >= common {
		return 0, false
	}
	first := f.steps[0]
	gap := first.Elapsed * 1000
	used = max(0, first.CPU*gap-f.normal.CPU*max(0, gap-f.silence)) / f.silence
	return used, used > alive+waking/f.silence && used < little && first.GC < little
}

// withService adds the service time of queries, if that is known.
func withService(f *facts, evidence []Evidence) []Evidence {
	if f.service == 0 {
		return evidence
	}
	evidence = append(evidence, finding(f.service, "ms", "service time of a query"))
	if f.usual > 0 {
		evidence = append(evidence, finding(f.usual, "ms", "service time before"))
	}
	return evidence
}

// mergeBurst finds merges that run neither normally nor on other nodes.
func mergeBurst(f *facts) (float64, []Evidence) {
	var merging, bytes float64
	for _, c := range f.readings {
		if c.MergesNow > 0 {
			merging++
		}
		bytes = max(bytes, float64(c.MergingNow))
	}
	if n := float64(len(f.readings)); n > 0 {
		merging /= n
	}
	cpu := f.hot[poolMerge]
	share := f.most(func(r Rates) float64 { return r.Merge })
	work := max(cpu, share, mergingWeight*merging)
	ordinary := max(f.rec.Others.Merge, f.normal.Merge)
	if work < burst || work < timesUsual*ordinary {
		return 0, nil
	}
	evidence := []Evidence{}
	if cpu > 0 {
		evidence = append(evidence, finding(cpu, "%", "merge threads used of a processor"))
	}
	if bytes > 0 {
		evidence = append(evidence, finding(bytes/(1<<20), "MiB", "segments being merged"))
	}
	evidence = append(evidence, finding(merging, "%", "captures in which merges ran"),
		finding(share, "s/s", "time in merges"))
	most := 0.95
	if max(cpu/min(1, f.quota()), share) < burst {
		most = 0.65 // they ran, but used little CPU and time
	}
	return f.compared(min(most, 0.4+work-ordinary) * unlike(work, ordinary)), withService(f, evidence)
}

// unlike is the part of some work that is not usual. What runs for a fourth of the time anyway is seen running in one
// of four troubles, whatever their cause.
func unlike(work, ordinary float64) float64 { return 1 - ordinary/work }

// refreshBurst finds refreshes that take far more time than normally and on other nodes.
func refreshBurst(f *facts) (float64, []Evidence) {
	share, cpu := f.most(func(r Rates) float64 { return r.Refresh }), f.hot[poolRefresh]
	work, ordinary := max(share, cpu), max(f.rec.Others.Refresh, f.normal.Refresh)
	if work < burst || work < timesUsual*ordinary {
		return 0, nil
	}
	score := min(0.9, 0.35+work-ordinary) * unlike(work, ordinary)
	var spent float64
	for _, s := range f.lately() {
		spent += s.Refresh * s.Elapsed
	}
	if cpu < burst && spent < timesUsual*ordinary*together {
		score = min(score, unnamed)
	}
	return f.compared(score), withService(f, []Evidence{
		finding(share, "s/s", "time in refreshes"),
		finding(f.normal.Refresh, "s/s", "time in refreshes before"),
		finding(cpu, "%", "refresh threads used of a processor"),
	})
}

// fetchHeavy finds a fetch phase that takes the larger part of the searches' time,
// neither normally nor on other nodes.
func fetchHeavy(f *facts) (float64, []Evidence) {
	part := func(r Rates) float64 {
		if r.Fetch+r.Query == 0 {
			return 0
		}
		return r.Fetch / (r.Fetch + r.Query)
	}
	var fetch, busy, each float64
	for _, s := range f.steps {
		if s.Fetch > busy {
			fetch, busy, each = part(s), s.Fetch, s.PerFetch
		}
	}
	ordinary := max(part(f.normal), part(f.rec.Others))
	// The engines do not count fetches that were cancelled; only hot threads show them.
	seen := 0.0
	if snapshots := f.fetching + f.querying; snapshots >= fewSnapshots {
		seen = float64(f.fetching) / float64(snapshots)
	}
	counted := busy >= burst/2 && fetch >= explains && fetch >= timesUsual*ordinary
	if !counted && (seen < mostly || seen < timesUsual*ordinary) {
		return 0, nil
	}
	score, evidence := 0.4+0.3*(seen-ordinary), []Evidence{}
	if counted {
		score = 0.4 + 0.5*(fetch-ordinary)
		evidence = append(evidence, finding(fetch, "%", "fetch phase, of the time of searches"), finding(each, "ms", "time of a fetch"))
	}
	if seen > 0 {
		evidence = append(evidence, finding(seen, "%", "search threads seen in the fetch phase"))
	}
	return f.compared(score), append(evidence, finding(ordinary, "%", "fetch phase usually, here or elsewhere"))
}

// queueSaturation finds searches that wait or are rejected although the node is as fast
// as usual.
func queueSaturation(f *facts) (float64, []Evidence) {
	var rejected, threads, active float64
	for _, s := range f.steps {
		if s.Elapsed <= before.Seconds() { // else they may have been long before
			rejected += s.Rejected
		}
	}
	for _, c := range f.rec.Stats { // also before the bout: a node that does not answer has as many as ever
		threads = max(threads, float64(c.Search.Threads+c.Worker.Threads))
	}
	for _, c := range f.readings {
		active = max(active, float64(c.Search.Active+c.Worker.Active))
	}
	active = max(active, f.active)
	threads = max(threads, active)
	waiting := f.queue / max(threads, 1)
	if rejected == 0 && waiting < queued {
		return 0, nil
	}
	// Whatever makes a node slow also makes its queue grow. So the queue is the cause
	// only if no other is found. Rejections score more, whatever searches take.
	score, less := 0.6, 0.2
	if rejected > 0 {
		score, less = 0.75, 0.1
	}
	if f.serviceFactor() >= slower || f.unanswered() {
		score -= less
	}
	return score, withService(f, []Evidence{
		finding(rejected, "", "searches rejected"), finding(f.queue, "", "searches waiting, at most"),
		finding(threads, "", "search threads"), finding(active, "", "of them at work, at most"),
	})
}
