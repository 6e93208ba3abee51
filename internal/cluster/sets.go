package cluster

// CopySets returns what Shards holds with equal entries joined, and how many shards
// each stands for; nil means one each. Wide targets have far fewer sets than shards.
func (p *Plan) CopySets() (sets [][]int, weights []int) {
	if p.sets == nil {
		return p.Shards, nil
	}
	return p.sets, p.weights
}

// Outline is what can be told once of the sets of copies of a wide plan, so that a
// choice need not look at each while it uses all copies. Its slices are parallel.
type Outline struct {
	Nodes []int     // positions of the nodes with a copy, sorted
	Tasks []float64 // shard queries that each may expect if all copies are used alike
	Sole  []bool    // it has the only copy of some shard
}

// Outline returns the outline of the plan; nil if it is not wide.
func (p *Plan) Outline() *Outline { return p.outline }

func outlineOf(sets [][]int, weights []int) *Outline {
	var tasks []float64 // by position
	var sole []bool
	for i, copies := range sets {
		for _, at := range copies {
			if missing := at + 1 - len(tasks); missing > 0 {
				tasks, sole = append(tasks, make([]float64, missing)...), append(sole, make([]bool, missing)...)
			}
			tasks[at] += float64(weights[i]) / float64(len(copies))
			sole[at] = sole[at] || len(copies) == 1
		}
	}
	o := &Outline{}
	for at := range tasks {
		if tasks[at] > 0 {
			o.Nodes, o.Tasks, o.Sole = append(o.Nodes, at), append(o.Tasks, tasks[at]), append(o.Sole, sole[at])
		}
	}
	return o
}

const (
	// fewShards is up to how many shards a plan is as good without sets.
	fewShards = 64
	// packedCopies is how many positions below 2^16 a packed set holds.
	packedCopies = 4
)

// joinSets finds the different sets of copies in a wide plan.
func (p *Plan) joinSets() {
	if len(p.Shards) <= fewShards {
		return
	}
	at := make(map[uint64]int, fewShards)
	sets, weights := make([][]int, 0, fewShards), make([]int, 0, fewShards)
	for _, copies := range p.Shards {
		key, ok := packed(copies)
		if !ok { // stands for itself
			sets, weights = append(sets, copies), append(weights, 1)
			continue
		}
		i, known := at[key]
		if !known {
			i, at[key] = len(sets), len(sets)
			sets, weights = append(sets, copies), append(weights, 0)
		}
		weights[i]++
	}
	p.sets, p.weights, p.outline = sets, weights, outlineOf(sets, weights)
}

// packed returns sorted positions as one number, if they fit.
func packed(copies []int) (key uint64, ok bool) {
	if len(copies) > packedCopies {
		return 0, false
	}
	for _, at := range copies {
		if at >= 1<<16-1 {
			return 0, false
		}
		key = key<<16 | uint64(at+1) //nolint:gosec // a position is not negative
	}
	return key, true
}
