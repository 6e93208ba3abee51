package lab

import (
	"math/rand/v2"
	"time"
)

// lostPolls is what happens to some answers to polls.
type lostPolls struct {
	chance float64
	late   time.Duration
}

// draw returns by how much a poll is late, or that it is lost. l may be nil.
func (l *lostPolls) draw(rng *rand.Rand) (late time.Duration, lost bool) {
	if l == nil || rng.Float64() >= l.chance {
		return 0, false
	}
	if rng.Float64() < 0.5 {
		return 0, true
	}
	return l.late, false
}

// faultsOf makes the faults of a draw, each between from and to.
func (d *Draw) faultsOf(from, to time.Duration) []fault {
	var out []fault
	for i := range d.Faults {
		drawn := &d.Faults[i]
		f := fault{nodes: drawn.Nodes, from: from, to: to, avoided: true, set: drawn.setter(len(d.Indices))}
		ms := func(v float64) time.Duration { return fromMillis(v).Truncate(time.Microsecond) }
		switch drawn.Kind {
		case faultIndex:
			f.index = 1 + drawn.Index
		case faultPauses:
			f.on, f.off, f.byChance = ms(drawn.On), ms(drawn.Off), drawn.Seed|1
		case faultCollections:
			f.on, f.off, f.byChance = ms(drawn.On), ms(drawn.Off), drawn.Seed|1
			f.avoided, f.avoidedOn = false, true
		case faultFlapping:
			f.on, f.off = ms(drawn.On), ms(drawn.Off)
		case faultSlowStats, faultLostPolls:
			f.avoided, f.hidden = false, true // searches are good
		case faultRestart:
			out = append(out, restarts(f, ms(drawn.On), ms(drawn.Off))...)
			continue
		}
		out = append(out, f)
	}
	return out
}

// restarts makes one fault for each node that is restarted after the other, as far as
// there is time.
func restarts(all fault, away, between time.Duration) []fault {
	var out []fault
	at := all.from
	for _, n := range all.nodes {
		if at >= all.to {
			break
		}
		f := all
		f.nodes, f.from, f.to = []int{n}, at, min(at+away, all.to)
		out = append(out, f)
		at += away + between
	}
	return out
}

// setter returns what the fault does to a node.
func (f *DrawnFault) setter(indices int) func(*node, bool) {
	delay := fromMillis(f.Delay)
	switch f.Kind {
	case faultSlow, faultFlapping:
		return slower(f.Factor)
	case faultIndex:
		return slowFor(f.Index, indices, f.Factor)
	case faultLatency:
		if f.Whole {
			return httpLatency(delay)
		}
		return transportLatency(delay)
	case faultPauses, faultCollections, faultHanging:
		return pausing
	case faultFailsFast:
		if f.Whole {
			return failing
		}
		return rejecting
	case faultFailsSlowly:
		return func(n *node, on bool) { n.failAfter += signed(delay, on) }
	case faultSlowStats:
		return func(n *node, on bool) { n.statsDelay += signed(delay, on) }
	case faultLostPolls:
		return func(n *node, on bool) {
			n.lost = nil
			if on {
				n.lost = &lostPolls{chance: f.Chance, late: delay}
			}
		}
	default:
		return missing
	}
}

// slowFor makes the shard queries of one index take longer.
func slowFor(index, indices int, factor float64) func(*node, bool) {
	return func(n *node, on bool) {
		n.indexSlow = nil
		if !on {
			return
		}
		n.indexSlow = make([]float64, indices)
		for i := range n.indexSlow {
			n.indexSlow[i] = 1
		}
		n.indexSlow[index] = factor
	}
}

// faulty are the nodes whose searches have a fault at some time.
func (d *Draw) faulty() map[int]bool {
	out := map[int]bool{}
	for _, f := range d.Faults {
		if f.Kind == faultSlowStats || f.Kind == faultLostPolls {
			continue
		}
		for _, n := range f.Nodes {
			out[n] = true
		}
	}
	return out
}

// Of the clients, as of the official ones: how long they wait, and how often they send again what got no answer, or
// which a server could not answer.
const (
	patience = 30 * time.Second
	repeats  = 3
)

// Of the measured time, when faults begin and end.
const (
	faultsFrom = 0.2
	faultsTo   = 0.8
)

// machineOf is a node with so many CPUs, with the engines' search pool.
func machineOf(cpus int) machine {
	return machine{cpus: float64(cpus), threads: cpus*3/2 + 1, queue: 1000}
}

// scenario makes what is played of a draw.
func (d *Draw) scenario(seed uint64) *Scenario {
	laid := layOut(d, stream(seed, layoutStream))
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	sc := &Scenario{
		Name: "random", machine: machineOf(d.SimulatedCPUs), nodes: d.DataNodes,
		load: d.Load, sidecars: d.Sidecars, untold: !d.Told, drawn: d, laid: laid, patience: patience, repeats: repeats,
		pollInterval: 200 * time.Millisecond, pollTimeout: time.Second,
		warmup: seconds(d.Warmup), length: seconds(d.Warmup + d.Measured),
	}
	sc.faults = d.faultsOf(seconds(d.Warmup+faultsFrom*d.Measured), seconds(d.Warmup+faultsTo*d.Measured))
	return sc
}
