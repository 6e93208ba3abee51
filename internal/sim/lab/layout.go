package lab

import (
	"cmp"
	"math"
	"slices"
)

// role is what a node is for.
type role uint8

const (
	dataNode role = iota
	coordinatingNode
	managerNode
)

// layout is where everything of a drawn cluster is.
type layout struct {
	draw   *Draw
	shards [][]int // positions of the copies of each shard
	first  []int   // first shard of each index
}

// Weights of the engines' balancer, for the shards of a node and for those of one index
// on a node (cluster.routing.allocation.balance, 0.45 and 0.55).
const (
	balanceShards = 0.45
	balanceIndex  = 0.55
)

// layOut places the copies as the engines balance them: each goes to the node that has
// fewest shards, and fewest of its index, by their weights; equal ones by lot.
func layOut(d *Draw, l lot) *layout {
	out := &layout{draw: d}
	total := make([]int, d.DataNodes)
	for i := range d.Indices {
		index := &d.Indices[i]
		from, to := d.nodesOf(index)
		index.Replicas = min(index.Replicas, to-from-1)
		out.first = append(out.first, len(out.shards))
		of := make([]int, d.DataNodes)
		shards := make([][]int, index.Shards)
		// All primaries come first, as when an index is made.
		for range index.Replicas + 1 {
			for s := range shards {
				best, weight := -1, math.Inf(1)
				start := l.IntN(to - from)
				for k := range to - from {
					n := from + (start+k)%(to-from)
					w := balanceShards*float64(total[n]) + balanceIndex*float64(of[n])
					if w < weight && !slices.Contains(shards[s], n) {
						best, weight = n, w
					}
				}
				shards[s] = append(shards[s], best)
				total[best]++
				of[best]++
			}
		}
		out.shards = append(out.shards, shards...)
	}
	return out
}

// nodesOf returns the range of data nodes that may have copies of the index.
func (d *Draw) nodesOf(i *DrawnIndex) (from, to int) {
	switch {
	case !d.Apart:
		return 0, d.DataNodes
	case i.Slow:
		return d.DataNodes - d.SlowNodes, d.DataNodes
	}
	return 0, d.DataNodes - d.SlowNodes
}

// speed is that of a healthy node's CPUs; 1 is the faster tier's.
func (d *Draw) speed(n int) float64 {
	if n >= d.DataNodes-d.SlowNodes && n < d.DataNodes {
		return 1 / d.SlowTier
	}
	return 1
}

// of returns the shards of an index.
func (l *layout) of(index int) (from, to int) {
	from = l.first[index]
	return from, from + l.draw.Indices[index].Shards
}

// holders returns the nodes with a copy of the index, in order.
func (l *layout) holders(index int) []int {
	var out []int
	from, to := l.of(index)
	for _, copies := range l.shards[from:to] {
		out = append(out, copies...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// CPU seconds beside the shard queries of a search: on its coordinating node for itself
// and for each shard, of a read by id on the node of the document and on its coordinating
// node.
const (
	reduceSearch = 0.0003
	reduceShard  = 0.00003
	readDemand   = 0.0002
	reduceRead   = 0.0001
)

// capacity returns how many requests a second the data nodes, healthy, can answer if the
// copies of each shard share its load as well as can be, and all data nodes coordinate
// alike. cpus is that of each node.
func (l *layout) capacity(cpus int) float64 {
	d := l.draw
	load, coordinating := l.work()
	use := make([]float64, d.DataNodes) // CPU seconds at speed 1 that each node does for one request
	power := make([]float64, d.DataNodes)
	for n := range use {
		use[n] = coordinating / float64(d.DataNodes)
		power[n] = d.speed(n) * float64(cpus)
	}
	parts := make([][]float64, len(l.shards))
	for s, copies := range l.shards {
		parts[s] = make([]float64, len(copies))
		for i, n := range copies {
			parts[s][i] = load[s] / float64(len(copies))
			use[n] += parts[s][i]
		}
	}
	// Sharing the load of one shard after the other so that the nodes of its copies are
	// used alike lowers the sum of squares of all nodes' use, whose least is also the
	// least of the largest use.
	for range 300 {
		moved := 0.0
		for s, copies := range l.shards {
			moved += shareOut(parts[s], copies, use, power)
		}
		if moved < 1e-9*coordinating {
			break
		}
	}
	most := 0.0
	for n := range use {
		most = max(most, use[n]/power[n])
	}
	return 1 / most
}

// shareOut shares the load of one shard among its copies anew, so that the largest use of
// their nodes is as low as can be, and returns how much moved.
func shareOut(parts []float64, copies []int, use, power []float64) (moved float64) {
	if len(copies) < 2 {
		return 0
	}
	all := 0.0
	for i, n := range copies {
		all += parts[i]
		use[n] -= parts[i]
	}
	var room [4]int // there are at most four copies
	order := room[:0]
	for i := range copies {
		order = append(order, i)
	}
	at := func(i int) float64 { return use[copies[i]] / power[copies[i]] }
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(at(a), at(b)) })
	// Fill the nodes used least to one level, as water does.
	sumUse, sumPower, level := 0.0, 0.0, 0.0
	for k, i := range order {
		if k > 0 && level <= at(i) {
			break
		}
		sumUse, sumPower = sumUse+use[copies[i]], sumPower+power[copies[i]]
		level = (all + sumUse) / sumPower
	}
	for i, n := range copies {
		part := max(0, level*power[n]-use[n])
		moved += math.Abs(part - parts[i])
		parts[i] = part
		use[n] += part
	}
	return moved
}

// work returns the CPU seconds of a mean request on each shard, and on its coordinating
// node.
func (l *layout) work() (load []float64, coordinating float64) {
	load = make([]float64, len(l.shards))
	for _, t := range l.draw.Tenants {
		many := 1 - t.OneShard - t.ByID
		share := t.Share / float64(len(t.Indices))
		for _, i := range t.Indices {
			from, to := l.of(i)
			shards := float64(to - from)
			each := share * ((many+t.OneShard/shards)*t.Mean/1000 + t.ByID/shards*readDemand)
			for s := from; s < to; s++ {
				load[s] += each
			}
			coordinating += share * (many*(reduceSearch+reduceShard*shards) + t.OneShard*(reduceSearch+reduceShard) + t.ByID*reduceRead)
		}
	}
	return load, coordinating
}

// shardQueries returns those of a mean request, reads by id among them.
func (l *layout) shardQueries() float64 {
	sum := 0.0
	for _, t := range l.draw.Tenants {
		for _, i := range t.Indices {
			many := (1 - t.OneShard - t.ByID) * float64(l.draw.Indices[i].Shards)
			sum += t.Share / float64(len(t.Indices)) * (many + t.OneShard + t.ByID)
		}
	}
	return sum
}

// What bounds a run, so that 500 scenarios with three ways in take less than 20 minutes on
// two CPUs. Costs are in units of one shard query, which take 2 µs or so.
const (
	costBound  = 1_000_000
	shortest   = 40 // s
	leastLarge = 12
	longest    = 1200
	requests   = 60_000 // that make a run long enough
	costNode   = 0.015  // of a sidecar's look at a node, 100 times a second
	costPoll   = 4.0    // of a poll of a node by a sidecar
	pollsBound = 60.0   // a second that a node gets from all sidecars
)

// scale finds the capacity, lowers the CPUs where the cluster would do too much for the
// simulation, and finds how long the run is.
func (d *Draw) scale(l *layout) {
	each := 1 + l.shardQueries()
	for {
		d.Capacity = l.capacity(d.SimulatedCPUs)
		d.Rate = d.Load * d.Capacity
		if d.SimulatedCPUs == 2 || d.Rate*each*shortest <= costBound {
			break
		}
		d.SimulatedCPUs--
	}
	nodes, sidecars := float64(d.DataNodes+d.CoordinatingOnly), float64(d.Sidecars)
	second := d.Rate*each + sidecars*100*(0.05+costNode*nodes) + costPoll*nodes*min(pollsBound, 5*sidecars)
	d.Measured = math.Round(max(shortest, min(longest, requests/d.Rate, costBound/second)))
	d.Warmup = max(10, math.Round(d.Measured/10))
	if second*shortest > 2*costBound { // one of the largest, in which much happens in little time
		d.Measured, d.Warmup = math.Round(max(leastLarge, 2*costBound/second)), leastLarge/2
	}
}
