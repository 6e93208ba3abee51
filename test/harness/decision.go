package harness

import "strings"

// DecisionHeader is the header in which sidestep explains itself to clients that ask.
const DecisionHeader = "X-Sidestep-Decision"

// Decision is what sidestep says that it did with a request.
type Decision struct {
	Mode        string
	Reason      string
	Nodes       []string // in the list that was sent, or that would have been
	Coordinator string   // empty if it does not tell
}

// ParseDecision reads the value of DecisionHeader, "mode=route; reason=ranked; nodes=node-1,node-3; attempts=1".
func ParseDecision(header string) (d Decision) {
	for part := range strings.SplitSeq(header, ";") {
		key, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch {
		case key == "mode":
			d.Mode = value
		case key == "reason":
			d.Reason = value
		case key == "nodes" && value != "":
			d.Nodes = strings.Split(value, ",")
		case key == "coordinator":
			d.Coordinator = value
		}
	}
	return d
}
