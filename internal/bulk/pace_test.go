package bulk

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// epoch is any time.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// course sends bulks in virtual time, one after the other.
type course struct {
	*Pace
	now time.Time
}

func newCourse(shards int) *course { return &course{NewPace(shards), epoch} }

// bulk sends a bulk of so many documents to a shard.
func (c *course) bulk(shard, documents int, took time.Duration) {
	c.Begin(shard, c.now)
	c.now = c.now.Add(took)
	c.End(shard, documents, took, c.now)
}

// others sends bulks to the shards but this one.
func (c *course) others(but, bulks int) {
	for i := range bulks {
		shard := i % (len(c.shards) - 1)
		if shard >= but {
			shard++
		}
		c.bulk(shard, 100, 10*time.Millisecond)
	}
}

// slow returns what is said of a shard now.
func (c *course) slow(shard int) Slowness {
	if slow := c.Slow(c.now); slow != nil {
		return slow[shard]
	}
	return ""
}

func TestAShardThatTakesLongerIsSlow(t *testing.T) {
	c := newCourse(4)
	require.Nil(t, c.Slow(c.now), "nothing is known")
	require.Equal(t, make([]time.Duration, 4), c.Times())
	c.others(2, 30)
	for range 2 {
		c.bulk(2, 100, 200*time.Millisecond)
		require.Nil(t, c.Slow(c.now), "a few bulks say little")
	}
	c.bulk(2, 100, 200*time.Millisecond)
	require.Equal(t, []Slowness{"", "", SlowPace, ""}, c.Slow(c.now))
	require.Greater(t, c.Times()[2], 10*c.Times()[0])
}

func TestOneSlowBulkIsNoSlowShard(t *testing.T) {
	c := newCourse(3)
	for range 10 {
		c.bulk(1, 100, 10*time.Millisecond)
		c.others(1, 2)
	}
	c.bulk(1, 100, 60*time.Millisecond)
	require.Empty(t, c.slow(1))
}

// Where bulks are large they take long: what counts is the time of a document.
func TestLargeBulksAreNotSlow(t *testing.T) {
	c := newCourse(3)
	for range 10 {
		c.bulk(0, 10_000, 670*time.Millisecond)
		c.bulk(1, 100, 10*time.Millisecond)
		c.bulk(2, 100, 10*time.Millisecond)
	}
	require.Nil(t, c.Slow(c.now))
}

// Differences of some milliseconds are nobody's trouble.
func TestFewMillisecondsAreNotSlow(t *testing.T) {
	c := newCourse(3)
	for range 10 {
		c.bulk(0, 1, 9*time.Millisecond)
		c.bulk(1, 1, time.Millisecond)
		c.bulk(2, 1, time.Millisecond)
	}
	require.Nil(t, c.Slow(c.now))
}

func TestASlowShardIsTriedAgain(t *testing.T) {
	c := newCourse(3)
	slow := func() { c.bulk(0, 100, 500*time.Millisecond) }
	c.others(0, 10)
	for range slowBulks {
		slow()
	}
	require.Equal(t, SlowPace, c.slow(0))

	c.others(0, trialEvery)
	require.Empty(t, c.slow(0), "the hold is over, and there were many bulks")
	c.Begin(0, c.now)
	require.Equal(t, SlowPace, c.slow(0), "one bulk tries it")
	c.now = c.now.Add(500 * time.Millisecond)
	c.End(0, 100, 500*time.Millisecond, c.now)
	require.Equal(t, SlowPace, c.slow(0))
	c.others(0, trialEvery)
	require.Equal(t, SlowPace, c.slow(0), "it is held for twice as long")
	c.others(0, trialEvery)
	require.Empty(t, c.slow(0))

	c.bulk(0, 100, 10*time.Millisecond)
	c.others(0, 2)
	require.Nil(t, c.Slow(c.now), "it is well, whatever it was")
	require.Less(t, c.Times()[0], time.Millisecond)
}

// Clients that begin at the same moment all find that a slow shard is due: one tries it.
func TestASlowShardIsTriedByOneOfMany(t *testing.T) {
	c := newCourse(6)
	for range slowBulks {
		for shard := range c.shards {
			took := 10 * time.Millisecond
			if shard < 2 {
				took = 500 * time.Millisecond
			}
			c.bulk(shard, 100, took)
		}
	}
	require.Equal(t, []Slowness{SlowPace, SlowPace, "", "", "", ""}, c.Slow(c.now))
	require.False(t, c.Try(0, c.now), "it is not due")
	require.True(t, c.Try(2, c.now))
	c.now = c.now.Add(2 * lastHold)
	require.Nil(t, c.Slow(c.now), "both are due")
	require.True(t, c.Try(0, c.now))
	for range 8 {
		require.False(t, c.Try(0, c.now), "it is tried")
		require.False(t, c.Try(1, c.now), "one shard at a time")
		require.True(t, c.Try(2, c.now))
	}
	require.Equal(t, []Slowness{SlowPace, SlowPace, "", "", "", ""}, c.Slow(c.now))

	c.bulk(0, 100, 10*time.Millisecond)
	require.Empty(t, c.slow(0))
	for range trialEvery {
		c.bulk(2, 100, 10*time.Millisecond)
	}
	require.True(t, c.Try(1, c.now))
}

// Where there are few bulks a slow shard is not tried with every other of them, but it is
// tried some time.
func TestASlowShardIsTriedRarelyByFewBulks(t *testing.T) {
	c := newCourse(3)
	c.others(0, 10)
	for range slowBulks {
		c.bulk(0, 100, 500*time.Millisecond)
	}
	c.now = c.now.Add(firstHold + time.Second)
	c.others(0, 10)
	require.Equal(t, SlowPace, c.slow(0))
	c.now = c.now.Add(lastHold)
	require.Empty(t, c.slow(0))
}

func TestAShardThatSaysNothingIsSilent(t *testing.T) {
	c := newCourse(3)
	c.others(0, 10)
	c.Begin(0, c.now)
	c.now = c.now.Add(silentTime)
	require.Empty(t, c.slow(0))
	c.now = c.now.Add(silentFactor * 11 * time.Millisecond)
	require.Equal(t, SlowSilent, c.slow(0))
	c.Begin(0, c.now)
	require.Equal(t, SlowSilent, c.slow(0), "another bulk is no progress")
	c.End(0, 0, time.Second, c.now)
	require.Empty(t, c.slow(0), "an end is, however it ended")
	c.End(0, 0, time.Second, c.now)
	c.now = c.now.Add(time.Hour)
	require.Empty(t, c.slow(0), "nothing is on its way")
}

// What is refused, or cut off, takes a time of its own.
func TestABulkWithoutDocumentsTellsNoTime(t *testing.T) {
	c := newCourse(2)
	for range 10 {
		c.bulk(0, 0, time.Minute)
		c.bulk(1, 100, 10*time.Millisecond)
	}
	require.Nil(t, c.Slow(c.now))
	require.Zero(t, c.Times()[0])
}

func TestALoneShardIsNeverSlow(t *testing.T) {
	c := newCourse(1)
	for i := range 20 {
		c.bulk(0, 100, time.Duration(1+i)*100*time.Millisecond)
	}
	require.Nil(t, c.Slow(c.now))
}

// Whatever bulks do: a shard is slow compared with others, so some shard is not; and when
// all bulks have ended and the longest hold has passed, all are tried again.
func TestSomeShardIsNotSlow(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 1))
		c := newCourse(1 + rng.IntN(8))
		flying := make([]int, len(c.shards))
		for range 2000 {
			shard := rng.IntN(len(c.shards))
			c.now = c.now.Add(time.Duration(rng.IntN(20)) * time.Millisecond)
			if rng.IntN(2) == 0 {
				c.Begin(shard, c.now)
				flying[shard]++
			} else if flying[shard] > 0 {
				c.End(shard, rng.IntN(3)*rng.IntN(500), time.Duration(rng.ExpFloat64()*float64(shard+1)*float64(20*time.Millisecond)), c.now)
				flying[shard]--
			}
			paced := 0
			for _, why := range c.Slow(c.now) {
				if why == SlowPace {
					paced++
				}
			}
			require.Less(t, paced, len(c.shards))
		}
		for shard, n := range flying {
			for range n {
				c.End(shard, 0, 0, c.now)
			}
		}
		c.now = c.now.Add(2*lastHold + time.Second)
		require.Nil(t, c.Slow(c.now), "seed %d", seed)
	}
}
