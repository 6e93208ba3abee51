package diagnosis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// watch reads the states of the nodes every second, and at once when one has changed.
func (r *Recorder) watch(ctx context.Context) {
	tick := time.NewTicker(grain)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			r.look(ctx, true)
		case <-r.wake:
			r.look(ctx, false)
		}
	}
}

// look reads the states of the nodes, and begins and ends records.
func (r *Recorder) look(ctx context.Context, tick bool) {
	readings, now := r.source.Load().Read(), time.Now()
	if tick {
		r.history.add(readings, now)
	}
	r.baseline.update(readings, now)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.nodes = readings
	if !r.o.Enabled {
		return
	}
	for id, open := range r.open { // before one is resumed
		age := now.Sub(open.record.Began.Time)
		ended := !open.lasts() && open.record.Again == 0 // it is counted when it is closed
		if !open.counted && age >= settled && !ended || !open.sampled && age >= maxSpan {
			r.assess(open) // before the history forgets it
			open.sampled = age >= maxSpan
			r.count(open)
			r.keep(open)
		}
		if open.over(now) {
			r.close(id, open)
		}
	}
	known := make(map[string]bool, len(readings))
	for _, n := range readings {
		known[n.ID] = true
		open := r.open[n.ID]
		switch {
		case !open.lasts() && n.briefly(now):
		case inTrouble(n.State) && open == nil:
			r.begin(ctx, n, now)
		case inTrouble(n.State):
			r.resume(ctx, open, now)
		default:
			r.end(ctx, open, now)
		}
	}
	r.compare(readings, now)
	for id, open := range r.open {
		if !known[id] { // it left the cluster
			r.end(ctx, open, now)
		}
	}
}

// compare notes which share of the other nodes is in trouble too, of those whose state is known: dedicated managers
// are not polled. r.mu is held.
func (r *Recorder) compare(readings []Reading, now time.Time) {
	troubled, known := 0, 0
	for _, n := range readings {
		if n.State != "unknown" {
			known++
		}
		if inTrouble(n.State) && !n.briefly(now) {
			troubled++
		}
	}
	if troubled < 2 {
		return
	}
	alike := float64(troubled-1) / float64(known-1)
	for _, open := range r.open {
		bouts := open.record.Bouts
		if last := len(bouts) - 1; open.record.Ended == nil && bouts[last].Alike < alike {
			bouts = slices.Clone(bouts) // a page may be reading them
			bouts[last].Alike = alike
			open.record.Bouts = bouts
		}
	}
}

// inTrouble reports whether nodes in this state are recorded.
func inTrouble(state string) bool {
	switch state {
	case "busy", "slow", "failing", "unresponsive", "unreachable":
		return true
	}
	return false
}

// briefly reports whether a node is busy, and has not been so for long: uneven load makes a node busy for a moment.
func (n Reading) briefly(now time.Time) bool { return n.State == "busy" && now.Sub(n.Since) < busyLong }

// begin opens the record of a node.
func (r *Recorder) begin(ctx context.Context, n Reading, now time.Time) {
	open := &recording{folded: map[string]int{}}
	open.record = Record{
		Spike: Spike{
			ID:   fmt.Sprintf("%s-%08x", now.UTC().Format("20060102T150405"), rand.Uint32()), //nolint:gosec // a name, not a secret
			Node: n.Name, NodeID: n.ID, Began: Time{now}, State: n.State, Why: n.Why, Cause: CauseUnknown,
		},
		Bouts:    []Bout{{Began: Time{now}}},
		Captures: []Capture{}, Tasks: []Task{}, HotThreads: []HotThreads{},
		Stats: r.baseline.of(n.ID),
	}
	r.open[n.ID] = open
	r.capture(ctx, open)
}

// resume notes that a node is still in trouble, or again.
func (r *Recorder) resume(ctx context.Context, open *recording, now time.Time) {
	if open.record.Ended == nil {
		return
	}
	open.record.Ended = nil
	open.record.Again++
	if last := len(open.record.Bouts) - 1; last+1 < maxBouts {
		open.record.Bouts = append(open.record.Bouts, Bout{Began: Time{now}})
	} else {
		open.record.Bouts = slices.Clone(open.record.Bouts) // a page may be reading them
		open.record.Bouts[last].Ended = nil
	}
	r.capture(ctx, open)
}

// end notes that a node is no longer in trouble, if it was.
func (r *Recorder) end(ctx context.Context, open *recording, now time.Time) {
	if !open.lasts() {
		return
	}
	open.record.ends(now)
	if open.capturing {
		open.well()
		return
	}
	r.capture(ctx, open) // to see how the node recovered
}

// close moves a record to the store.
func (r *Recorder) close(id string, open *recording) {
	r.assess(open)
	r.count(open)
	delete(r.open, id)
	r.store.put(open.record, foldedText(open.folded))
}

// keep has the folder, if there is one, hold what is known of trouble that lasts: sidestep may be killed before it ends.
func (r *Recorder) keep(open *recording) {
	if r.o.Dir != "" {
		r.store.put(open.record, foldedText(open.folded))
	}
}

// count counts a spike once, by the cause found so far.
func (r *Recorder) count(open *recording) {
	if open.counted {
		return
	}
	open.counted = true
	r.metrics.spikes.WithLabelValues(string(open.record.Cause)).Inc()
	s := open.record.Spike
	r.o.Logger.Warn("spike recorded", "id", s.ID, "node", s.Node, "node_id", s.NodeID, "state", s.State,
		"cause", string(s.Cause), "summary", s.Summary)
}

// samples returns what sidestep itself measured around the beginning of a spike.
func (r *Recorder) samples(rec *Record) Timeline {
	return r.history.around(rec.NodeID, rec.Began.Add(-before), rec.Began.Add(maxSpan))
}

// assess puts what is known on the time axis and names the cause.
func (r *Recorder) assess(open *recording) {
	rec := &open.record
	if !open.sampled {
		rec.Samples = r.samples(rec)
		rec.Others = r.baseline.others(rec.NodeID)
	}
	rec.Causes = Assess(rec)
	rec.Cause, rec.Evidence, rec.Summary = verdict(rec)
}
