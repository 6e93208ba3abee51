package harness

import (
	"fmt"
	"os"
	"regexp"
	"time"
)

// StateChange is a change of what a sidestep thinks of a node.
type StateChange struct {
	At            time.Time
	Node, Is, Was string
	Why           string
}

// stateChanged matches what sidestep logs of it.
var stateChanged = regexp.MustCompile(`(?m)^time=(\S+) .*msg="node state changed" node=(\S+) .*state=(\S+) was=(\S+) why="?(.*?)"?$`)

// StateChanges reads from the log of a sidestep those from some time on.
func (f *Front) StateChanges(from time.Time) ([]StateChange, error) {
	log, err := os.ReadFile(f.LogPath)
	if err != nil {
		return nil, fmt.Errorf("read the log of sidestep: %w", err)
	}
	return stateChanges(log, from), nil
}

func stateChanges(log []byte, from time.Time) []StateChange {
	var all []StateChange
	for _, m := range stateChanged.FindAllSubmatch(log, -1) {
		at, err := time.Parse(time.RFC3339, string(m[1]))
		if err != nil || at.Before(from) {
			continue
		}
		all = append(all, StateChange{at.In(from.Location()), string(m[2]), string(m[3]), string(m[4]), string(m[5])})
	}
	return all
}
