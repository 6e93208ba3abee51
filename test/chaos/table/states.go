package main

import (
	"fmt"
	"slices"
	"time"

	"sidestep/test/harness"
)

// clock is a time of day.
const clock = "15:04:05.000"

// ejecting are the states in which a node is ejected.
var ejecting = []string{"slow", "failing", "unreachable"}

// told is a line about a change of a node's state.
func told(c harness.StateChange) string {
	text := fmt.Sprintf("%s  %s %s, was %s", c.At.Format(clock), c.Node, c.Is, c.Was)
	if c.Why != "" {
		text += ": " + c.Why
	}
	return text
}

// ejections counts the changes that ejected a node, among all.
func ejections(changes []harness.StateChange) (ejected, all int) {
	for _, c := range changes {
		if slices.Contains(ejecting, c.Is) && !slices.Contains(ejecting, c.Was) {
			ejected++
		}
	}
	return ejected, len(changes)
}

// stateChanges is what a sidestep thought of the nodes since a time.
func (s *stage) stateChanges(f *harness.Front, from time.Time) []harness.StateChange {
	all, err := f.StateChanges(from)
	if err != nil {
		s.logf("%v", err) // the figures stand without it
	}
	return all
}

// ejections counts them for one sidestep since a time.
func (s *stage) ejections(load string, from time.Time) (ejected, all int) {
	f := s.Front(load)
	if f == nil {
		return 0, 0
	}
	return ejections(s.stateChanges(f, from))
}

// changes is what each sidestep thought of the nodes since a time, by load.
func (s *stage) changes(from time.Time) map[string][]string {
	all := map[string][]string{}
	for _, f := range s.Fronts {
		for _, c := range s.stateChanges(f, from) {
			all[f.Name] = append(all[f.Name], told(c))
		}
	}
	return all
}
