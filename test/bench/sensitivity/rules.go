package main

// rule is one rule of the selection, and how it is switched off.
type rule struct{ name, file, before, after string }

// rules are switched off one at a time. A rule whose text has changed is to be changed here, too:
// TestEveryChangeCanBeMade tells. Rules of what the lab does not play (affinity, zones, nodes that
// leave, nodes that only coordinate) are not among them, nor the invariants.
func rules() []rule {
	return append(append(ofNodes(), ofProof()...), ofSearches()...)
}

// ofNodes are the rules of what is known of a node, and of its states.
func ofNodes() []rule {
	return []rule{
		{"capacity: spare", "slow.go", "others.load+moved*stats.Median(d.sorted) <= fullLoad", "true || others.load+moved*stats.Median(d.sorted) <= fullLoad"},
		{"a list gains something: nodes that it has to use", "slow.go", "!used || silent", "true || used"},
		{"a list gains something: nodes that reject", "slow.go", "!full && ", ""},
		{"a list gains something: not past a node that fails probes at once", "slow.go", " || n.health.avoided() && math.IsInf(n.probe.took.Value(), 1)", ""},
		{"a list gains something: queues", "slow.go", " && waits <= min(FarFactor*left+SlowSlack, millis(ProbeTimeout))", " && waits >= 0"},
		{"a list gains something: the longest wait", "slow.go", "min(FarFactor*left+SlowSlack, millis(ProbeTimeout))", "FarFactor*left+SlowSlack"},
		{"a list gains something: what comes back", "slow.go", "!known || n.health.condition() == Ramping || ", "false && !known || "},
		{"a node that is needed is not ejected", "eject.go", "n.NoData || lately(&n.neededAt, at)", "n.NoData"},
		{"a node that is needed is not probed", "probe.go", "n.usable() && all.needs(n, nodes)", "false && all.needs(n, nodes)"},
		{"a node that does little is not missed", "slow.go", "return useFactor*n.rate.Mean()*c.nodes >= c.rates", "return true || useFactor*n.rate.Mean()*c.nodes >= c.rates"},
		{"suspicion by response time", "slow.go", "n, over := c.Node, c.Unqueued >= d.limit", "n, over := c.Node, false && c.Unqueued >= d.limit"},
		{"response time less the wait in the queue", "slow.go", "max(s, r-n.queued(at)), ok", "max(s, r), ok"},
		{"a silent node is left out", "slow.go", "(n.health.avoided() || n.owes(t.at))", "n.health.avoided()"},
		{"a suspect is avoided after one probe", "slow.go", "(n.health.avoided() || n.owes(t.at))", "n.owes(t.at)"},
		{"a node that cannot be compared returns", "eject.go", " || n.untold() || s.unasked(at)) {\n\t\t\ts.slowStart(n, at)", " || s.unasked(at)) {\n\t\t\ts.slowStart(n, at)"},
		{"response times are proof where probes are refused", "slow.go", "if n.untold() &&", "if false &&"},
		{"one node a second is probed without suspicion", "probe.go", "sampled := s.sample(nodes, at)", "var sampled *Node"},
		{"longer ejections of a node that comes back", "eject.go", "hold = max(hold, min(twice*time.Duration(h.hold.Load()), holdMemory))", "hold = firstHold"},
		{"jitter", "probe.go", "jittered(d time.Duration, at int64) time.Duration {", "jittered(d time.Duration, at int64) time.Duration {\n\tif true {\n\t\treturn d\n\t}"},
		{"slow start", "slow.go", ">= float64(t.at-n.health.returned.Load())/float64(SlowStart)", ">= 1"},
		{"slow start forgets what was measured", "eject.go", "\t\tn.response.Reset()\n\t\tn.service.Reset()\n\t\tn.probe.took.Set(0)\n\t\tn.strikes", "\t\tn.strikes"},
		{"slow start of nodes that join", "selection.go", "n.joined.Store(len(before) > 0)", "n.joined.Store(false)"},
		{"a full queue is no fault", "eject.go", "if n.rejects(at) {", "if false {"},
		{"failures far apart do not count together", "eject.go", "if at-n.failedAt.Swap(at) > int64(failureMemory) {", "if false && at-n.failedAt.Swap(at) > int64(failureMemory) {"},
		{"failures eject", "eject.go", "if n.strikes.Add(1) >= twice", "if false && n.strikes.Add(1) >= twice"},
		{"a node that was unreachable must answer probes", "lease.go", `if s.eject(n, Slow, at, "was unreachable"); !n.health.excluded() {`, "if true {"},
		{"the sample that moved an average", "lease.go", "if before <= now {", "if true || before <= now {"},
		{"a queue counts no longer than it takes", "slow.go", "millis(time.Duration(at-heard)) > ms {", "false {"},
		{"a failure is a reason to probe", "eject.go", "\t\ts.ask(n, at)\n\t}\n}", "\t}\n}"},
		{"a late poll of a node that answers clients is no reason", "lease.go", "(!n.Alive() || n.heardAt", "(!n.Alive() || false && n.heardAt"},
	}
}

// ofProof are the rules of what proves something.
func ofProof() []rule {
	return []rule{
		{"the median that counts: always the upper", "compare.go", "if r.entries[i].node.slowEverywhere.Load() || own", "if false || own"},
		{"the median of timed-out probes: the upper", "compare.go", "if r.entries[i].node.slowEverywhere.Load() || own >= millis(ProbeTimeout)", "if r.entries[i].node.slowEverywhere.Load() || false && own >= millis(ProbeTimeout)"},
		{"a queue is counted by the median service time", "compare.go", "if !n.slowEverywhere.Load() {", "if true || !n.slowEverywhere.Load() {"},
		{"a finer slack where response times speak against a node", "compare.go", "if e.node.slowEverywhere.Load() {", "if false {"},
		{"an ejected node is compared as when it was ejected", "slow.go", "if !t.acts || n.health.excluded() {", "if !t.acts {"},
		{"a quota is no trouble", "compare.go", "\tif !s.exhausted(e.node, at) {\n\t\tslack = max(slack, e.node.mayStandStill(at))\n\t}\n\treturn max(slack, e.via.standstill(at))", "\treturn slack"},
		{"a node is short of CPU by its quota", "lease.go", "n.short.Store(s.short(n, at))", "n.short.Store(false)"},
		{"late probes are proof up to the last poll", "compare.go", "(!n.answersPolls() || polled-p.against.Load() >= enough)", "(true || polled == 0)"},
		{"a probe between good and bad says nothing", "compare.go", "case known && !r.local &&", "case false && !r.local &&"},
		{"probes that tell nothing end an avoidance", "compare.go", "if at-n.health.badAt.Load() >= int64(firstHold)", "if false && at-n.health.badAt.Load() >= int64(firstHold)"},
		{"probes that all time out end an avoidance", "compare.go", "if e.ended && peers >= millis(ProbeTimeout) {", "if false {"},
		{"a probe is excused by its node's queue", "compare.go", "+ s.excuse(e.node, at)", "+ 0*s.excuse(e.node, at)"},
		{"a queue is no proof", "compare.go", "|| late && n.queuedAt.Load() > began", ""},
		{"a late probe counts for suspicionInterval at most", "compare.go", "max(0, min(at-n.health.badAt.Load(), int64(suspicionInterval)))", "max(0, at-n.health.badAt.Load())"},
		{"a busy node is probed rarely", "compare.go", "!n.hasQueue() && (n.probe.lateFor", "(n.probe.lateFor"},
		{"what waits for a rare poll is probed rarely", "compare.go", "(n.probe.lateFor < s.enough(n) || n.pollsApart.Load() <= int64(probeInterval))", "true"},
		{"a rare poll without a queue has an avoided node probed", "lease.go", "if n.pollsApart.Load() > int64(probeInterval) && !n.hasQueue() {", "if false {"},
		{"a queue is an excuse while it is worked off", "lease.go", "if p.Queue > 0 && at-n.workedAt.Load() < int64(ProbeTimeout) {", "if p.Queue > 0 {"},
		{"proof outlasts a shard query", "compare.go", "int64(min(FarFactor*work*float64(time.Millisecond), float64(firstHold)))", "0*int64(work)"},
		{"a node that is slow everywhere is avoided for a while", "compare.go", "if !n.slowEverywhere.Load() && !s.exhausted(n, at) || at-", "if !s.exhausted(n, at) || at-"},
		{"a node that uses up its quota is avoided for a while", "compare.go", " && !s.exhausted(n, at) || at-", " || at-"},
		{"a node that alone uses up its quota is not excused", "compare.go", "if !s.exhausted(e.node, at) {", "if true {"},
		{"a standstill for want of quota is no proof", "compare.go", "s.speaksAgainst(e, true, !beyond,", "s.speaksAgainst(e, true, false,"},
		{"an avoided node gives way to proof", "eject.go", "if proof && avoided != nil", "if false && avoided != nil"},
		{"probes go through unfit nodes if there are no others", "probe.go", "cmp.Or(via, suspect, unfit, ejected)", "cmp.Or(via, suspect, ejected)"},
		{"a burst ends an ejection", "probe.go", "returning, probeBurst, at)", "returning, 1, at)"},
		{"peers are nodes with probes that tell something", "probe.go", "case n.probe.unfit.Load() > 0 &&", "case false &&"},
		{"a round holds up no other one", "probe.go", "p.inFlight < twice &&", "p.inFlight == 0 &&"},
		{"a failing node is probed through itself", "probe.go", "case n.health.condition() == Failing:", "case false:"},
	}
}

// ofSearches are the rules of what is done with a search.
func ofSearches() []rule {
	return []rule{
		{"a node that fails makes no lists", "slow.go", "c.slow() && !c.Node.failsAtOnce()", "c.slow()"},
		{"one shard is left to the engine where others send more", "slow.go", "req.Affinity == 0 && d.seesLittle()", "false && d.seesLittle()"},
		{"overload passes", "overload.go", "return some && slices", "return false && some && slices"},
		{"nodes without statistics get the median rank", "choose.go", "c.Rank = median", "c.Rank = 0 * median"},
		{"of excluded nodes the last probe ranks", "choose.go", "c.slow() && (c.Node.owes(t.at) || !c.Node.usable())", "false && c.slow() && (c.Node.owes(t.at) || !c.Node.usable())"},
		{"all copies near the best are listed", "choose.go", "d.list(req, nearSlack, t)", "d.list(req, 0, t)"},
		{"coordinating: within a share of a search all are equal", "coordinator.go", "max(nearSlack, response/twice)", "max(nearSlack, 0*response)"},
		{"coordinating: in a full cluster most may", "coordinator.go", "fit: twice*fit < all", "fit: false && twice*fit < all"},
		{"coordinating: a busy node comes after others", "coordinator.go", "rank += busy * max(twice*nearSlack, holds)", "rank += 0 * busy"},
		{"coordinating: also by nodes that are not listed", "coordinator.go", "if spread || p.best > nearSlack {", "if spread {"},
		{"coordinating: all do for busy nodes", "coordinator.go", "spread := twice*p.busy", "spread := false && twice*p.busy"},
		{"coordinating: what was observed is forgotten", "coordinator.go", "return math.Ldexp(n.overhead.Mean(), -int(max(0, at-n.observedAt.Load())/int64(roundLife)))", "return math.Ldexp(n.overhead.Mean(), 0)"},
		{"coordinating: a busy node skips its turn", "coordinator.go", "p.ranks[i] <= limit && n.coordinating.Load() <= busy", "p.ranks[i] <= limit && n.coordinating.Load() <= busy+1<<40"},
		{"coordinating: what it coordinates counts", "coordinator.go", "cost := longer * longer * float64(1+n.coordinating.Load())", "cost := longer"},
		{"coordinating: not by nodes that something speaks against", "coordinator.go", "!few.fit && !n.coordinates(at)", "false && !few.fit && !n.coordinates(at)"},
		{"coordinating: the time of polls counts", "coordinator.go", "n.busy(at), n.overheadAt(at)+n.reach.Mean()", "n.busy(at), n.overheadAt(at)"},
		{"hedge: not where it would wait in queues instead", "hedge.go", "&& (!n.Alive() || FarFactor*waits <= n.takes(at))", ""},
		{"hedge: past a coordinating node that is silent", "hedge.go", "return c != nil && (c.owes(at) || s.unheard(first, at))", "return c != nil && s.unheard(first, at)"},
		{"hedge: past a coordinating node that was not heard", "hedge.go", "return c != nil && (c.owes(at) || s.unheard(first, at))", "return c != nil && c.owes(at)"},
		{"hedge: free after an ejection", "hedge.go", "return slices.ContainsFunc(d.concerned(),", "return false && slices.ContainsFunc(d.concerned(),"},
		{"silence: as many heard as owe", "hedge.go", "peers.heard >= peers.owing &&", "peers.heard >= 0*peers.owing &&"},
		{"silence: longer than the node itself took", "hedge.go", "if waited <= min(", "if waited <= 0*min("},
	}
}
