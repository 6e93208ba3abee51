package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"time"
)

// clock is a time of day.
const clock = "15:04:05.000"

// changed matches what sidestep logs when it changes its mind about a node.
var changed = regexp.MustCompile(`(?m)^time=(\S+) .*msg="node state changed" node=(\S+) .*state=(\S+) was=(\S+) why="?(.*?)"?$`)

// change is one of a node's state.
type change struct {
	at            time.Time
	node, is, was string
	why           string
}

// ejecting are the states in which a node is ejected.
var ejecting = []string{"slow", "failing", "unreachable"}

// stateChanges returns what a log says of nodes from some time on.
func stateChanges(log []byte, from time.Time) []change {
	var all []change
	for _, m := range changed.FindAllSubmatch(log, -1) {
		at, err := time.Parse(time.RFC3339, string(m[1]))
		if err != nil || at.Before(from) {
			continue
		}
		all = append(all, change{at.In(from.Location()), string(m[2]), string(m[3]), string(m[4]), string(m[5])})
	}
	return all
}

// String is a line about the change.
func (c change) String() string {
	line := fmt.Sprintf("%s  %s %s, was %s", c.at.Format(clock), c.node, c.is, c.was)
	if c.why != "" {
		line += ": " + c.why
	}
	return line
}

// ejections counts the changes that ejected a node, among all.
func ejections(changes []change) (ejected, all int) {
	for _, c := range changes {
		if slices.Contains(ejecting, c.is) && !slices.Contains(ejecting, c.was) {
			ejected++
		}
	}
	return ejected, len(changes)
}

// ejections counts them for one sidestep since a time.
func (s *stage) ejections(load string, from time.Time) (ejected, all int) {
	f := s.Front(load)
	if f == nil {
		return 0, 0
	}
	log, err := os.ReadFile(f.LogPath)
	if err != nil {
		s.logf("read the log of sidestep: %v", err)
	}
	return ejections(stateChanges(log, from))
}

// changes is what each sidestep thought of the nodes since a time, by load.
func (s *stage) changes(from time.Time) map[string][]string {
	all := map[string][]string{}
	for _, f := range s.Fronts {
		log, err := os.ReadFile(f.LogPath)
		if err != nil {
			s.logf("read the log of sidestep: %v", err) // the figures stand without it
		}
		for _, c := range stateChanges(log, from) {
			all[f.Name] = append(all[f.Name], c.String())
		}
	}
	return all
}
