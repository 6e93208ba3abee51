package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// verdict is what comes of one conversation.
type verdict struct {
	conversation conversation
	// step is where the answers differ for good, and how; how is empty if they do
	// not.
	step int
	how  string
	// varied says that the engine itself answers in more than one way, and sidestep
	// in one of these.
	varied   bool
	direct   []answer
	through  []answer
	commands string // to see it with one's own eyes
}

// compare has the conversation with a node and with sidestep at the same time.
//
// Some answers of the engine are not the same each time, in ways that nobody lists:
// which of several errors comes first, an explanation that names a shard. So where
// the answers differ the nodes are asked again, each of them: sidestep's answer is
// right if a client could have had it directly, and wrong if no node ever gives it.
// Sidestep is not asked again: what it did wrong once, it did wrong. Conversations
// that write are had again on both sides: one node learns of a change a moment later
// than another, but not each time. Not so where sidestep's is of a worse grade: an
// error once in place of a success is wrong for good.
func (s *stage) compare(ctx context.Context, c conversation) verdict {
	v := verdict{conversation: c}
	direct, through := s.direct(c.number), s.through(c.number)
	both := func() {
		var wg sync.WaitGroup
		wg.Go(func() { v.direct = direct.converse(ctx, c) })
		wg.Go(func() { v.through = through.converse(ctx, c) })
		wg.Wait()
		v.step, v.how = conversationsDiffer(c, v.direct, v.through)
	}
	both()
	for again := 0; c.writes && again < rewrites && v.mayVary(); again++ {
		both()
		v.varied = v.how == ""
	}
	for again := uint64(0); !c.writes && again < repeats && v.how != ""; again++ {
		answers := s.direct(c.number+again+1).converse(ctx, c)
		if _, how := conversationsDiffer(c, answers, v.through); how == "" {
			v.varied, v.how = true, ""
		}
	}
	if v.how != "" {
		v.commands = curls(c, direct, through)
	}
	return v
}

// mayVary reports whether the answers differ, and sidestep's are as good as those of the nodes, or better.
func (v verdict) mayVary() bool {
	return v.how != "" && slices.EqualFunc(v.direct, v.through, func(a, b answer) bool { return grade(b) <= grade(a) })
}

// repeats is how often the nodes are asked again, in turn, until one answers as
// sidestep did; rewrites how often a conversation that writes is had again.
const (
	repeats  = 30
	rewrites = 2
)

// conversationsDiffer compares step by step.
func conversationsDiffer(c conversation, want, got []answer) (step int, how string) {
	for i, r := range c.steps {
		if how := differ(want[i], got[i], r); how != "" {
			return i, how
		}
	}
	return 0, ""
}

// curls are the commands for both sides. Ids of scrolls and points in time are to be
// put in by hand.
func curls(c conversation, direct, through side) string {
	var b strings.Builder
	for _, s := range []side{direct, through} {
		for _, r := range c.steps {
			filled := r.fill(s.values("@scroll@", "@pit@"))
			fmt.Fprintf(&b, "  %s\n", filled.curl(s.base))
		}
	}
	return b.String()
}

// String describes a difference.
func (v verdict) String() string {
	return fmt.Sprintf("number %d, step %d: %s\n%s%s", v.conversation.number, v.step+1, v.how, v.conversation, v.commands)
}

// progressEvery is the time between two lines that say how far it is.
const progressEvery = 15 * time.Second

// workers is how many conversations are had at once. One that writes is had alone:
// the numbers that documents get depend on the order of writes.
const workers = 3

// shared is what the workers share.
type shared struct {
	stage *stage
	seed  uint64
	logf  func(string, ...any)

	order sync.RWMutex // held for writing by a conversation that writes
	mu    sync.Mutex   // guards what follows
	next  uint64
	tally *tally
	said  time.Time
}

// compareAll compares conversations, by number from 0 on, until they had count
// requests.
func (s *stage) compareAll(ctx context.Context, seed, count uint64, logf func(string, ...any)) (*tally, error) {
	c := &shared{stage: s, seed: seed, logf: logf, tally: newTally(), said: time.Now()}
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for ctx.Err() == nil {
				number, ok := c.draw(count)
				if !ok {
					return
				}
				c.compare(ctx, number)
			}
		})
	}
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return c.tally, fmt.Errorf("after %d of %d requests: %w", c.tally.requests, count, err)
	}
	return c.tally, nil
}

// draw returns the number of the next conversation, if there is to be one.
func (c *shared) draw(count uint64) (number uint64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.said) > progressEvery {
		c.said = time.Now()
		c.logf("%d of %d requests, %d differ, %d vary", c.tally.requests, count, c.tally.differences, c.tally.varied)
	}
	c.next++
	return c.next - 1, uint64(c.tally.requests) < count
}

// compare compares one conversation.
func (c *shared) compare(ctx context.Context, number uint64) {
	conversation := generate(c.seed, number, c.stage.Cluster.Distribution, false)
	if conversation.writes {
		c.order.Lock()
		defer c.order.Unlock()
	} else {
		c.order.RLock()
		defer c.order.RUnlock()
	}
	v := c.stage.compare(ctx, conversation)
	if ctx.Err() != nil {
		return // it was cut off
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tally.add(v)
	if v.how != "" && c.tally.differences <= maxShown {
		c.logf("DIFFERENT %s", v)
	}
}

// maxShown is how many differences are printed.
const maxShown = 25
