package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"time"
)

// record is one of /spikes, and of the newest in /status.
type record struct {
	ID      string     `json:"id"`
	Node    string     `json:"node"`
	Ended   *time.Time `json:"ended"`
	Cause   string     `json:"cause"`
	Summary string     `json:"summary"`
}

func claims(records []record) []Claim {
	out := make([]Claim, len(records))
	for i, r := range records {
		out[i] = Claim{Record: r.ID, Node: r.Node, Cause: r.Cause, Text: r.Summary}
	}
	return out
}

// Spikes is the list of records that the admin listener tells.
func (s *Stage) Spikes() Surface {
	return Surface{Name: "/spikes", Look: func(ctx context.Context, _ time.Time) ([]Claim, error) {
		var answer struct{ Spikes []record }
		if err := s.Sidestep.AdminJSON(ctx, "/spikes", &answer); err != nil {
			return nil, err
		}
		return claims(answer.Spikes), nil
	}}
}

// blaming are the states that say that something is wrong with a node now.
var blaming = []string{"busy", "slow", "failing", "unresponsive", "unreachable"}

// Top is the command `sidestep top`.
func (s *Stage) Top() Surface {
	return Surface{Name: "sidestep top", Look: func(ctx context.Context, _ time.Time) ([]Claim, error) {
		var status struct {
			Nodes  []struct{ Name, State string }
			Spikes []record
		}
		if err := s.command(ctx, &status, "top", "--once"); err != nil {
			return nil, err
		}
		out := claims(status.Spikes)
		for _, n := range status.Nodes {
			if slices.Contains(blaming, n.State) {
				out = append(out, Claim{Node: n.Name})
			}
		}
		return out, nil
	}}
}

// Explain is the command `sidestep explain`.
func (s *Stage) Explain() Surface {
	return Surface{Name: "sidestep explain", Look: func(ctx context.Context, _ time.Time) ([]Claim, error) {
		var answer struct {
			Shards []struct {
				Copies []struct{ Node, State string }
			}
			Spikes []record
		}
		if err := s.command(ctx, &answer, "explain", Index); err != nil {
			return nil, err
		}
		out := claims(answer.Spikes)
		for _, shard := range answer.Shards {
			for _, c := range shard.Copies {
				if slices.Contains(blaming, c.State) {
					out = append(out, Claim{Node: c.Node})
				}
			}
		}
		return out, nil
	}}
}

// command runs sidestep's own command and decodes the JSON that it prints.
func (s *Stage) command(ctx context.Context, out any, name string, args ...string) error {
	args = append([]string{name}, append(args, "--admin", s.Sidestep.AdminURL, "--output", "json")...)
	cmd := exec.CommandContext(ctx, s.Binary, args...)
	printed, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return fmt.Errorf("sidestep %s: %w: %s", name, err, exit.Stderr)
	}
	if err != nil {
		return fmt.Errorf("sidestep %s: %w", name, err)
	}
	return json.Unmarshal(printed, out)
}
