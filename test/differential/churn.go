package main

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"time"

	"sidestep/test/harness"
)

// What can be decided while the cluster changes
//
// Two answers to the same request may differ because something changed between
// them, or because two nodes have not applied the same cluster state yet. So each
// request is asked four times, one after the other: directly, through sidestep,
// directly, through sidestep; directly each time through another node, and through
// the next one if it cannot be reached, as a client library does.
//
// The second answer, sidestep's, stands between two direct ones, and is worse than
// those if its grade is worse than both of theirs: a complete answer is better than
// a partial one, that is better than a 4xx, and that than a 429, a 5xx or none. It is
// other than those if they are alike and it is not like them.
//
// Even then the change may have come and gone in between. Hence two measures:
//
//   - Whatever is worse or other is judged again, at once. What is so three times in
//     a row is no coincidence, unless some node answers the same: a failure.
//   - The third answer, a direct one, stands between two of sidestep's and is judged
//     in the same way. That says how often chance alone does this. If sidestep's
//     answers are worse (or other) more often than the direct ones by more than three
//     standard deviations of such counts, that is a failure.
//
// Not decided is what both sides answer badly, and a difference between answers of
// which the direct ones are not alike.

// churnResult counts what was judged while the cluster changed.
type churnResult struct {
	requests int
	through  judged
	direct   judged // the same of direct answers between two of sidestep's
	// repeated are those that were worse or other three times in a row.
	repeated []string
	events   map[string]int // what happened to the cluster
	refused  map[string]int // and what the cluster did not do
}

// judged counts answers by what they were beside those before and after.
type judged struct{ worse, other, undecided int }

// finding is how an answer is beside the one before and the one after it.
type finding int

const (
	fine finding = iota
	undecided
	other
	worse
)

func (j *judged) add(f finding) {
	switch f {
	case worse:
		j.worse++
	case other:
		j.other++
	case undecided:
		j.undecided++
	}
}

// judge says how an answer is beside the one before and the one after it.
func judge(before, it, after answer, r request) finding {
	switch {
	case differ(before, it, r) == "" || differ(after, it, r) == "":
		return fine
	case grade(it) > max(grade(before), grade(after)):
		return worse
	case differ(before, after, r) == "" && grade(it) == grade(before):
		return other
	case grade(it) < min(grade(before), grade(after)):
		return fine // better
	}
	return undecided
}

// grade orders answers, the best first.
func grade(a answer) int {
	switch {
	case a.err != nil || a.status == http.StatusTooManyRequests || a.status >= http.StatusInternalServerError:
		return 3
	case a.status >= http.StatusBadRequest:
		return 2
	}
	if body, ok := decoded(a.header.Get("Content-Encoding"), a.body); ok && harness.Partial(body) {
		return 1
	}
	return 0
}

// churn judges count requests while the cluster changes.
func (s *stage) churn(ctx context.Context, seed, count uint64, logf func(string, ...any)) (churnResult, error) {
	changes := newChanges(s, seed, logf)
	running, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- changes.run(running) }()
	c := churnResult{}
	said := time.Now()
	// At the end the node must be back: so it goes on for as long as that takes.
	for number := uint64(0); number < count || !changes.restarted.Load(); number++ {
		if ctx.Err() != nil {
			break
		}
		s.judgeOne(ctx, generate(seed, number, s.Cluster.Distribution, true), &c, logf)
		if time.Since(said) > progressEvery {
			said = time.Now()
			logf("churn: %d of %d requests, %d worse, %d worse directly, %v", number+1, count, c.through.worse, c.direct.worse, changes.counts())
		}
	}
	stop()
	if err := <-done; err != nil {
		return c, err
	}
	c.events, c.refused = changes.happened, changes.refused
	return c, ctx.Err()
}

// judgeOne asks one request four times.
func (s *stage) judgeOne(ctx context.Context, conv conversation, c *churnResult, logf func(string, ...any)) {
	r := conv.steps[0]
	through := s.through(conv.number)
	filled := r.fill(through.values("", ""))
	before := s.directly(ctx, filled, conv.number)
	it := through.send(ctx, filled)
	after := s.directly(ctx, filled, conv.number+1)
	last := through.send(ctx, filled)
	c.requests++
	c.direct.add(judge(it, after, last, r))
	found := judge(before, it, after, r)
	c.through.add(found)
	if found != worse && found != other {
		return
	}
	for again := range uint64(2) {
		before, it = after, through.send(ctx, filled)
		after = s.directly(ctx, filled, conv.number+again)
		if now := judge(before, it, after, r); now != worse && now != other {
			return
		}
	}
	for again := range uint64(repeats) {
		if differ(s.directly(ctx, filled, again), it, r) == "" {
			return
		}
	}
	text := fmt.Sprintf("number %d, again and again: %s\ndirectly %d %.500s\nthrough  %d %.500s %v %s\n  %s\n", conv.number, r,
		before.status, before.body, it.status, it.body, it.err, it.decision, filled.curl(through.base))
	c.repeated = append(c.repeated, text)
	if len(c.repeated) <= maxShown {
		logf("WORSE %s", text)
	}
}

// directly asks a node, and the next one if that cannot be reached.
func (s *stage) directly(ctx context.Context, r request, number uint64) (a answer) {
	for i := range uint64(len(s.Cluster.Nodes)) {
		if a = s.direct(number+i).send(ctx, r); a.err == nil {
			return a
		}
	}
	return a
}

// err is an error if sidestep was worse than chance.
func (c churnResult) err() error {
	switch {
	case len(c.repeated) > 0:
		return fmt.Errorf("%d requests were answered worse again and again while the cluster changed", len(c.repeated))
	case beyondChance(c.through.worse, c.direct.worse):
		return fmt.Errorf("while the cluster changed %d answers were worse through sidestep, %d directly", c.through.worse, c.direct.worse)
	case beyondChance(c.through.other, c.direct.other):
		return fmt.Errorf("while the cluster changed %d answers were others through sidestep, %d directly", c.through.other, c.direct.other)
	}
	return nil
}

// beyondChance reports whether a count is above another that is drawn the same way
// by more than three standard deviations of their difference.
func beyondChance(count, control int) bool {
	return float64(count-control) > 3*math.Sqrt(float64(count+control)) && count-control > 3
}

// String is the summary for the log.
func (c churnResult) String() string {
	return fmt.Sprintf("churn: %d requests; through sidestep %+v, directly %+v, %d again and again; events %v, refused %v",
		c.requests, c.through, c.direct, len(c.repeated), c.events, c.refused)
}
