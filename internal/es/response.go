package es

import (
	"slices"
	"time"
)

// maxFailedNodes bounds what is kept of `_shards.failures`.
const maxFailedNodes = 16

// Head is what the beginning of a search response says.
type Head struct {
	HasTook bool
	Took    time.Duration // the engine's own time for the search
	// HasShards says that `_shards` was read to its end. The numbers below are
	// filled in as they come: in a prefix too short for a long list of failures
	// Failed and Missing are there already.
	HasShards                 bool
	Total, Successful, Failed int
	// Missing is how many shards neither succeeded nor failed, if the total and those that succeeded are told:
	// OpenSearch (3.6.0), and Elasticsearch before 8.0, do not count a shard as failed that had no copy to ask.
	Missing int
	// FailedNodes holds the distinct node ids of `_shards.failures`, at most 16.
	FailedNodes []string
	// NoNode says that a failure is listed that names no node: Elasticsearch from 8.0 on lists shards that had no
	// copy to ask so.
	NoNode bool
}

// Lost returns from how many shards there is no result.
func (h Head) Lost() int { return h.Failed + h.Missing }

// NoCopies reports whether shards had no copy that could be asked, as nodes had left or copies were starting or moved, and
// no failure of a node is listed.
func (h Head) NoCopies() bool {
	return (h.Missing > 0 || h.NoNode) && len(h.FailedNodes) == 0
}

// ScanHead reads the beginning of a search response. complete says that prefix
// is the whole body. done says that more bytes cannot change h: `_shards` is
// closed, or there will be none.
func ScanHead(prefix []byte, complete bool) (h Head, done bool) {
	s := scanner{b: prefix}
	st := s.expect('{')
	if st != scanOK {
		return h, complete || st != scanMore
	}
	st = s.members(func(key []byte) (st status) {
		switch string(key) {
		case "took":
			var millis int64
			millis, h.HasTook, st = s.integer()
			h.Took = time.Duration(millis) * time.Millisecond
			return st
		case "_shards":
			if st = s.shards(&h); st == scanOK {
				h.HasShards, st = true, scanEnd
			}
			return st
		case "hits", "error":
			return scanEnd // what counts stands before the hits, and not at all in an error
		default:
			return s.skip()
		}
	})
	return h, complete || st != scanMore
}

// shards reads the `_shards` object.
func (s *scanner) shards(h *Head) status {
	if st := s.expect('{'); st != scanOK {
		return st
	}
	succeeded := false
	missing := func() {
		if succeeded {
			h.Missing = max(0, h.Total-h.Successful-h.Failed)
		}
	}
	st := s.members(func(key []byte) status {
		switch string(key) {
		case "total":
			return s.count(&h.Total)
		case "successful":
			succeeded = true
			return s.count(&h.Successful)
		case "failed":
			return s.count(&h.Failed)
		case "failures":
			missing() // the engines tell the numbers first
			return s.elements(func() status { return s.failure(h) })
		default:
			return s.skip()
		}
	})
	if st == scanOK {
		missing()
	}
	return st
}

func (s *scanner) count(into *int) status {
	n, _, st := s.integer()
	if st == scanOK {
		*into = int(n)
	}
	return st
}

// failure reads one failed shard.
func (s *scanner) failure(h *Head) status {
	return s.object(func(key []byte) status {
		if string(key) != "node" {
			return s.skip()
		}
		if c, _ := s.peek(); c != '"' {
			h.NoNode = true
			return s.skip()
		}
		return s.failedNode(h)
	})
}

func (s *scanner) failedNode(h *Head) status {
	node, st := s.text()
	if st == scanOK && len(h.FailedNodes) < maxFailedNodes && !slices.Contains(h.FailedNodes, string(node)) {
		h.FailedNodes = append(h.FailedNodes, string(node))
	}
	return st
}

// ItemForbidden looks in the beginning of a multi-search response whether the
// engine refused the preference of the given item, counted from 0 (strict weighted
// routing). complete says that prefix is the whole body. done says that more bytes
// cannot change the answer.
func ItemForbidden(prefix []byte, complete bool, item int) (forbidden, done bool) {
	s := scanner{b: prefix}
	forbidden, st := s.itemForbidden(item)
	return forbidden, complete || st != scanMore
}

func (s *scanner) itemForbidden(item int) (bool, status) {
	if st := s.member("responses"); st != scanOK {
		return false, st
	}
	forbidden, i := false, 0
	st := s.array(func() (st status) {
		if i++; i <= item {
			return s.skip()
		}
		if forbidden, st = s.weightedError(); st == scanOK {
			st = scanEnd
		}
		return st
	})
	return forbidden, st
}

// weightedError reads an item that may be an error. Errors begin with one, or with
// their status.
func (s *scanner) weightedError() (bool, status) {
	if st := s.expect('{'); st != scanOK {
		return false, st
	}
	weighted := false
	st := s.members(func(key []byte) status {
		start := s.i
		switch string(key) {
		case "status":
			return s.skip()
		case "error":
			st := s.skip()
			if st == scanOK {
				weighted, st = IsWeightedRoutingError(s.b[start:s.i]), scanEnd
			}
			return st
		}
		return scanEnd
	})
	return weighted, st
}

// member moves to the value of a member of the object that comes next.
func (s *scanner) member(name string) status {
	st := s.expect('{')
	for first := true; st == scanOK; first = false {
		var key []byte
		if key, st = s.key(first); st != scanOK || string(key) == name {
			return st
		}
		st = s.skip()
	}
	return st
}
