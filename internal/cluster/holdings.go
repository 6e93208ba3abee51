package cluster

import (
	"math/rand/v2"
	"slices"
	"sync"
)

// holdings say which indices each node has a serving copy of, to draw from. All
// tables that were made from one share them, and they are brought up to date in
// place: a tree that is never changed would cost a path of it for each node of an
// index. So they are of the latest table, and what is drawn is to be looked up in the
// table at hand.
type holdings struct {
	mu    sync.Mutex
	nodes map[string]*held // by node id
}

// held are the indices of one node, in no order.
type held struct{ indices []*indexUse }

// place is where an index stands in what a node holds.
type place struct {
	in *held
	at int
}

// move says that an index is on other nodes than before. Each is named once.
func (h *holdings) move(index *indexUse, from, to []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, node := range from {
		if in := h.nodes[node]; in != nil && !slices.Contains(to, node) {
			in.remove(index)
			if len(in.indices) == 0 {
				delete(h.nodes, node)
			}
		}
	}
	for _, node := range to {
		if slices.Contains(from, node) {
			continue
		}
		in := h.nodes[node]
		if in == nil {
			in = &held{}
			h.nodes[node] = in
		}
		index.places = append(index.places, place{in, len(in.indices)})
		in.indices = append(in.indices, index)
	}
}

// remove puts the last index in the place of another one.
func (in *held) remove(index *indexUse) {
	gone := index.placeIn(in)
	if gone < 0 {
		return
	}
	last := in.indices[len(in.indices)-1]
	at := index.places[gone].at
	in.indices[at] = last
	last.places[last.placeIn(in)].at = at
	index.places = slices.Delete(index.places, gone, gone+1)
	in.indices[len(in.indices)-1] = nil
	in.indices = in.indices[:len(in.indices)-1]
}

// placeIn returns which of the places of an index is in what a node holds, -1 if
// none is.
func (u *indexUse) placeIn(in *held) int {
	return slices.IndexFunc(u.places, func(p place) bool { return p.in == in })
}

// draw visits names of indices that a node holds, beginning with any and leaping on,
// until visit returns false or there were limit.
func (h *holdings) draw(node string, limit int, visit func(index string) bool) {
	_, n := h.at(node, 0)
	if n == 0 {
		return
	}
	at, leap := rand.IntN(n), leapOver(n)
	for range min(limit, n) {
		// What is held may change meanwhile.
		if index, _ := h.at(node, at); index != "" && !visit(index) {
			return
		}
		at = (at + leap) % n
	}
}

// at returns the name of the index in a place, empty if there is none, and how many a
// node holds.
func (h *holdings) at(node string, at int) (index string, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	in := h.nodes[node]
	if in == nil {
		return "", 0
	}
	if n = len(in.indices); at >= n {
		return "", n
	}
	return in.indices[at].index, n
}

// leapOver returns a number without a common divisor with n: leaps of it come to all
// of n places. Names that are alike, such as those of hidden indices, stand together.
func leapOver(n int) int {
	for {
		leap := 1 + rand.IntN(n)
		a, b := leap, n
		for b != 0 {
			a, b = b, a%b
		}
		if a == 1 {
			return leap
		}
	}
}
