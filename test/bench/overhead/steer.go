package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"sidestep/test/harness"
)

// steered is the reason of a search that is sent with a list of the nodes that are
// chosen by rank.
const steered = "ranked"

// awaitSteering waits until searches through p are sent with a list of nodes: a
// sidestep that only passes requests on would flatter the table.
func (s *stage) awaitSteering(ctx context.Context, p peer) error {
	return eventually(ctx, "sidestep to steer", func(ctx context.Context) error { return s.steers(ctx, p) })
}

// steers returns an error unless a search of each size is steered past the degraded
// node.
func (s *stage) steers(ctx context.Context, p peer) error {
	for _, size := range answerSizes() {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+p.addr+searchPath(size, p.preference), strings.NewReader(searchBody))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-Sidestep-Explain", "1")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil {
			return err
		}
		if err := checkDecision(resp.Header.Get(harness.DecisionHeader), s.backend.Degraded); err != nil {
			return fmt.Errorf("status %d: %w", resp.StatusCode, err)
		}
		if off := len(body) - size; max(off, -off) > size/6 {
			return fmt.Errorf("an answer of about %d bytes has %d", size, len(body))
		}
	}
	return nil
}

// checkDecision returns an error unless the decision that sidestep tells of a search is
// a list of nodes without the one that is degraded.
func checkDecision(decision, degraded string) error {
	d := harness.ParseDecision(decision)
	if d.Mode != "route" || d.Reason != steered || len(d.Nodes) == 0 || slices.Contains(d.Nodes, degraded) {
		return fmt.Errorf("not steered past %s: decision %q", degraded, decision)
	}
	return nil
}

// decisions returns how many requests sidestep has had, by the reason of the decision.
func decisions(ctx context.Context, p peer) (map[string]int64, error) {
	text, err := read(ctx, p.admin+"/status")
	if err != nil {
		return nil, err
	}
	var status struct {
		Decisions map[string]int64 `json:"decisions"`
	}
	return status.Decisions, json.Unmarshal(text, &status)
}

// maxUnsteered is the share of searches that may be decided otherwise: when all of a
// busy machine stands still for a moment, every node looks bad.
const maxUnsteered = 0.01

// compareDecisions returns an error if of the requests between two readings of
// [decisions] more than maxUnsteered were not steered.
func compareDecisions(before, after map[string]int64) error {
	var all, others int64
	reasons := map[string]int64{}
	for reason, n := range after {
		n -= before[reason]
		all += n
		if reason != steered && n > 0 {
			others += n
			reasons[reason] = n
		}
	}
	if all == 0 || float64(others) > maxUnsteered*float64(all) {
		return fmt.Errorf("of %d searches these were not steered: %v", all, reasons)
	}
	return nil
}

// whileSteering runs measure on p, and fails if searches through sidestep were not
// steered before, during and after it.
func (s *stage) whileSteering(ctx context.Context, p peer, measure func() error) error {
	if p.admin == "" {
		return measure()
	}
	if err := s.awaitSteering(ctx, p); err != nil {
		return err
	}
	before, err := decisions(ctx, p)
	if err != nil {
		return err
	}
	if err := measure(); err != nil {
		return err
	}
	after, err := decisions(ctx, p)
	if err != nil {
		return err
	}
	if err := compareDecisions(before, after); err != nil {
		return err
	}
	// A search that is sent while the machine recovers from the load may be an
	// exception; the counts are of all.
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return s.awaitSteering(ctx, p)
}
