package main

import (
	"fmt"
	"os"
	"regexp"
	"time"
)

// clock is a time of day.
const clock = "15:04:05.000"

// changed matches what sidestep logs when it changes its mind about a node.
var changed = regexp.MustCompile(`(?m)^time=(\S+) .*msg="node state changed" node=(\S+) .*state=(\S+) was=(\S+) why="?(.*?)"?$`)

// stateChanges returns what a log says of nodes from some time on, a line each.
func stateChanges(log []byte, from time.Time) []string {
	var lines []string
	for _, m := range changed.FindAllSubmatch(log, -1) {
		at, err := time.Parse(time.RFC3339, string(m[1]))
		if err != nil || at.Before(from) {
			continue
		}
		line := fmt.Sprintf("%s  %s %s, was %s", at.In(from.Location()).Format(clock), m[2], m[3], m[4])
		if len(m[5]) > 0 {
			line += ": " + string(m[5])
		}
		lines = append(lines, line)
	}
	return lines
}

// changes is what each sidestep thought of the nodes since a time, by load.
func (s *stage) changes(from time.Time) map[string][]string {
	all := map[string][]string{}
	for _, f := range s.Fronts {
		log, err := os.ReadFile(f.LogPath)
		if err != nil {
			s.logf("read the log of sidestep: %v", err) // the figures stand without it
		}
		all[f.Name] = stateChanges(log, from)
	}
	return all
}
