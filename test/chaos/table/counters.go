package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"sidestep/test/harness"
)

// counters is what a sidestep has counted so far.
type counters struct {
	at       time.Time
	searches float64 // of clients
	did      harness.Doing
	records  float64 // of nodes in trouble
}

// counted is what came of a scenario's rounds in a sidestep.
type counted struct {
	// attempts is how many times a search was sent, in the mean; 0 if there was none.
	attempts float64
	// ejected and changes are how many of the changes of nodes' states ejected one, and how
	// many there were; records is how often trouble was recorded. Also between its own turns.
	ejected, changes, records int
	// through is how many searches a dedicated manager coordinated; of untold that is not
	// known.
	through, untold int
}

// account reads the counters of every sidestep, by load.
func (s *stage) account(ctx context.Context) (map[string]counters, error) {
	all := map[string]counters{}
	for _, f := range s.Fronts {
		c, err := readCounters(ctx, f)
		if err != nil {
			return nil, fmt.Errorf("count what %s did: %w", f.Name, err)
		}
		all[f.Name] = c
	}
	return all, nil
}

func readCounters(ctx context.Context, f *harness.Front) (counters, error) {
	did, err := f.Doing(ctx)
	if err != nil {
		return counters{}, err
	}
	searches, err := f.Sum(ctx, "sidestep_requests_total", map[string]string{"operation": "search"})
	if err != nil {
		return counters{}, err
	}
	records, err := f.Sum(ctx, "sidestep_spikes_total", nil)
	return counters{at: time.Now(), searches: searches, did: did, records: records}, err
}

// count compares two readings.
func (m *measurement) count(before, after map[string]counters) map[string]counted {
	all := map[string]counted{}
	for load, then := range before {
		now := after[load]
		c := counted{records: int(now.records - then.records)}
		if searches := now.searches - then.searches; searches > 0 {
			c.attempts = 1 + (now.did.Extra()-then.did.Extra())/searches
		}
		c.ejected, c.changes = m.ejections(load, then.at)
		if t := m.tallies[load]; t != nil {
			c.through, c.untold = throughNodes(t.seen, harness.NodeNames(m.Cluster.Nodes[m.shape.dataNodes():]))
		}
		all[load] = c
	}
	return all
}

// throughNodes counts the searches that some nodes coordinated, and those that do not tell.
func throughNodes(samples []sample, nodes []string) (through, untold int) {
	for _, s := range samples {
		switch {
		case s.coordinator == "":
			untold++
		case slices.Contains(nodes, s.coordinator):
			through++
		}
	}
	return through, untold
}
