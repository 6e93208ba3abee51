package chaos

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"sidestep/test/harness"
)

// Claim is what a surface says about one node.
type Claim struct {
	// Record is the id of the record that it is about; empty where a surface tells none.
	Record string
	Node   string
	Cause  string // as sidestep names it; empty or "unknown" if none is told
	Text   string // as it is read
}

// Surface is one place where operators look.
type Surface struct {
	Name string
	// Look returns what it says now of nodes in trouble; at is when the fault began.
	Look func(ctx context.Context, at time.Time) ([]Claim, error)
}

// Finding is what a surface said about a fault.
type Finding struct {
	Surface string
	// Node and Cause are when it named the node, and with it the cause, since the fault
	// began; negative if it did not.
	Node, Cause time.Duration
	Text        string   // what it said when it named the cause
	Others      []string // what else it named: other nodes, other causes
	Blamed      []string // the other nodes among these, with what it said of them
	Err         error    // of its last look, if that failed
}

// Right reports whether node and cause were named within the limit.
func (f Finding) Right(limit time.Duration) bool {
	return f.Node >= 0 && f.Node <= limit && f.Cause >= 0 && f.Cause <= limit
}

// lookEvery is between two looks at a surface.
const lookEvery = 200 * time.Millisecond

// Watch is about one fault.
type Watch struct {
	Surfaces []Surface
	Node     string
	Right    []string // causes
	Limit    time.Duration

	known map[string]bool // what was told before
}

// key tells claims from each other. A record that says something else than before is
// another claim: a node that gets into trouble again soon adds to its record.
func (c Claim) key() string {
	if c.Record == "" {
		return c.Node + " " + c.Cause
	}
	return strings.Join([]string{c.Record, c.Cause, c.Text}, " ")
}

// Before notes what is told before the fault, so that what is told of it can be told
// from that.
// It returns an error if a surface cannot be read.
func (w *Watch) Before(ctx context.Context) error {
	w.known = map[string]bool{}
	for _, s := range w.Surfaces {
		claims, err := s.Look(ctx, time.Now())
		if err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		for _, c := range claims {
			w.known[c.key()] = true
		}
	}
	return nil
}

// Run looks at all surfaces until each has named node and cause of the fault that
// began at the moment at, or the limit is over.
func (w *Watch) Run(ctx context.Context, at time.Time) []Finding {
	ctx, cancel := context.WithDeadline(ctx, at.Add(w.Limit))
	defer cancel()
	findings := make([]Finding, len(w.Surfaces))
	var wg sync.WaitGroup
	for i, s := range w.Surfaces {
		wg.Go(func() { findings[i] = w.follow(ctx, s, at) })
	}
	wg.Wait()
	return findings
}

func (w *Watch) follow(ctx context.Context, s Surface, at time.Time) Finding {
	f := Finding{Surface: s.Name, Node: -1, Cause: -1}
	for {
		claims, err := s.Look(ctx, at)
		if ctx.Err() != nil {
			return f
		}
		f.Err = err
		if w.take(&f, claims, time.Since(at)) {
			return f
		}
		if harness.Pause(ctx, lookEvery) != nil {
			return f
		}
	}
}

// take takes in what a surface says, and reports whether nothing is missing.
func (w *Watch) take(f *Finding, claims []Claim, after time.Duration) bool {
	for _, c := range claims {
		switch {
		case w.known[c.key()]:
		case c.Node != w.Node:
			told := strings.TrimSpace(c.Node + " " + c.Cause)
			f.Others, f.Blamed = with(f.Others, told), with(f.Blamed, told)
		default:
			if f.Node < 0 {
				f.Node = after
			}
			switch {
			case slices.Contains(w.Right, c.Cause):
				if f.Cause < 0 {
					f.Cause, f.Text = after, c.Text
				}
			case c.Cause != "" && c.Cause != "unknown":
				f.Others = with(f.Others, c.Cause)
			}
		}
	}
	return f.Cause >= 0
}

// with returns texts with one more, unless it is among them.
func with(texts []string, text string) []string {
	if slices.Contains(texts, text) {
		return texts
	}
	return append(texts, text)
}
