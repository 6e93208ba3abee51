package bulk

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// traffic is simulated in virtual time.
type traffic struct {
	shards, sidecars int
	seconds, rate    int // bulks a second of all sidecars together
	maxSkew          float64
	correct          int // seconds between corrections; 0: never
	lag              int // seconds until the engine counts a document
	sick             func(second, shard int) bool
	size             func(*rand.Rand) (int, int64)
	// wrote is called with what the shards have when a bulk has ended; each after each
	// second, with the bulks that went to each shard in it. Both may be nil.
	wrote func(documents []int64)
	each  func(second int, skew float64, bulks []int)
}

// sickIf has so many shards be sick or well.
func sickIf(shards int, sick func(shard int) bool) []Fitness {
	fit := make([]Fitness, shards)
	for shard := range fit {
		if sick(shard) {
			fit[shard] = Sick
		}
	}
	return fit
}

type flight struct {
	sidecar, shard, documents int
	bytes                     int64
	end                       int // in tenths of a second
}

// run returns the Balances of the sidecars.
func (tr traffic) run(seed uint64) []*Balance {
	rng := rand.New(rand.NewPCG(seed, seed))
	balances := make([]*Balance, tr.sidecars)
	for i := range balances {
		balances[i] = NewBalance(tr.shards, tr.maxSkew)
	}
	truth := make([]int64, tr.shards)
	var history [][]int64
	var flying []flight
	for second := range tr.seconds {
		bulks := make([]int, tr.shards)
		for tenth := range 10 {
			now := 10*second + tenth
			kept := flying[:0]
			for _, f := range flying {
				if f.end > now {
					kept = append(kept, f)
					continue
				}
				balances[f.sidecar].Wrote(f.shard, f.documents, f.bytes)
				truth[f.shard] += int64(f.documents)
				if tr.wrote != nil {
					tr.wrote(truth)
				}
			}
			flying = kept
			for k := range tr.rate {
				if k*10/tr.rate != tenth {
					continue
				}
				f := flight{sidecar: rng.IntN(tr.sidecars), end: now + 1 + rng.IntN(10)}
				f.shard, _ = balances[f.sidecar].Pick(rng.Float64(), sickIf(tr.shards, func(shard int) bool { return tr.sick(second, shard) }))
				f.documents, f.bytes = tr.size(rng)
				flying = append(flying, f)
				bulks[f.shard]++
			}
		}
		history = append(history, append([]int64(nil), truth...))
		for i, b := range balances {
			if tr.correct > 0 && (second+i*tr.correct/tr.sidecars)%tr.correct == tr.correct-1 {
				b.Correct(history[max(second-tr.lag, 0)])
			}
		}
		if tr.each != nil {
			tr.each(second, skewOf(truth), bulks)
		}
	}
	return balances
}

func skewOf(documents []int64) float64 {
	var fullest, sum int64
	for _, n := range documents {
		fullest, sum = max(fullest, n), sum+n
	}
	return float64(fullest) * float64(len(documents)) / float64(max(sum, 1))
}

// mixed sizes: 500±400 documents of about 300 bytes.
func mixed(rng *rand.Rand) (int, int64) {
	n := 100 + rng.IntN(801)
	return n, int64(n) * (200 + rng.Int64N(200))
}

// An hour with sick shards for ten minutes of it.
func TestBalanceHour(t *testing.T) {
	for _, tc := range []struct {
		name              string
		shards, sick      int
		sidecars, correct int
		from              int     // when they become sick
		tolerance         float64 // above MaxSkew
		avoids            float64 // the least share of bulks that go elsewhere meanwhile
	}{
		{"one shard of six", 6, 1, 1, 0, 1200, 0, 1},
		{"one shard of six, early", 6, 1, 1, 0, 60, 0, 1},
		{"one shard of six, with corrections", 6, 1, 1, 30, 1200, 0, 1},
		{"one shard of two, early", 2, 1, 1, 0, 60, 0, 0.7},
		{"three shards of six, early", 6, 3, 1, 0, 60, 0.01, 0.7}, // few are well, and those without room get some
		{"ten sidecars", 6, 1, 10, 30, 1200, 0, 1},
		{"ten sidecars, early", 6, 1, 10, 30, 60, 0, 1},
		// Half a minute's bulks of others are not known.
		{"ten sidecars, three shards, early", 6, 3, 10, 30, 60, 0.05, 0.7},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var worst, last float64
			var toSick, during, toHealed, after int
			isSick := func(second, shard int) bool {
				return second >= tc.from && second < tc.from+600 && shard < tc.sick
			}
			tr := traffic{
				shards: tc.shards, sidecars: tc.sidecars, seconds: 3600, rate: 20, maxSkew: 1.5, correct: tc.correct, lag: 2,
				sick: isSick, size: mixed,
				each: func(second int, skew float64, shards []int) {
					if last = skew; second >= 60 {
						worst = max(worst, skew)
					}
					for shard, bulks := range shards {
						first := shard < tc.sick
						switch {
						case isSick(second, 0):
							during += bulks
							toSick += bulks * asInt(first)
						case second >= tc.from+600 && second < tc.from+720:
							after += bulks
							toHealed += bulks * asInt(first)
						}
					}
				},
			}
			for _, b := range tr.run(1) {
				require.InDelta(t, last, b.Skew(), 0.05)
			}
			require.LessOrEqual(t, worst, 1.5+tc.tolerance)
			require.LessOrEqual(t, last, 1.1, "even again")
			require.GreaterOrEqual(t, 1-float64(toSick)/float64(during), tc.avoids)
			even := float64(tc.sick) / float64(tc.shards)
			share := float64(toHealed) / float64(after)
			require.Greater(t, share, even, "what was missed comes back")
			require.Less(t, share, 1.6*even, "but slowly")
		})
	}
}

func asInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Whatever is sick, the shards stay within the bound, give or take some bulks.
func TestBalanceKeepsTheBound(t *testing.T) {
	sizes := map[string]func(*rand.Rand) (int, int64){
		"mixed": mixed,
		"equal": func(*rand.Rand) (int, int64) { return 1000, 1 << 20 },
		"empty": func(rng *rand.Rand) (int, int64) { return rng.IntN(2) * 300, 0 },
		"bytes differ": func(rng *rand.Rand) (int, int64) {
			return 500, 500 * (10 + rng.Int64N(2)*5000)
		},
	}
	for name, size := range sizes {
		rng := rand.New(rand.NewPCG(7, uint64(len(name))))
		for range 15 {
			shards, maxSkew := 1+rng.IntN(64), 1.1+rng.Float64()
			period, odds := 1+rng.IntN(200), rng.IntN(100)
			tr := traffic{
				shards: shards, sidecars: 1, seconds: 400, rate: 1 + rng.IntN(100), maxSkew: maxSkew, correct: 30 * rng.IntN(2), lag: rng.IntN(10),
				sick: func(second, shard int) bool { return (second/period*31+shard*17)%100 < odds },
				size: size,
			}
			var total, fullest float64
			tr.wrote = func(has []int64) {
				total, fullest = 0, 0
				for _, n := range has {
					total, fullest = total+float64(n), max(fullest, float64(n))
				}
				// Never more than the slack above the bound. It is looked at a million times.
				if limit := maxSkew*total/float64(shards) + (slack+margin)*1000; fullest > limit {
					require.LessOrEqual(t, fullest, limit, "%s: %d shards, %v", name, shards, maxSkew)
				}
			}
			tr.run(rng.Uint64())
		}
	}
}

func TestBalanceChoices(t *testing.T) {
	first := []Fitness{Sick, Well}
	b := NewBalance(2, 1.5)
	write := func(sick []Fitness, documents int) (int, Choice) {
		shard, how := b.Pick(0, sick)
		b.Wrote(shard, documents, int64(documents))
		return shard, how
	}
	for range 8 { // the slack
		shard, how := write(first, 1)
		if how == ChoiceBound {
			require.Equal(t, 0, shard)
			break
		}
		require.Equal(t, ChoiceAvoided, how)
		require.Equal(t, 1, shard)
	}
	_, how := write([]Fitness{Sick, Sick}, 1)
	require.Equal(t, ChoiceAllSick, how)
	_, how = write(nil, 1)
	require.Equal(t, ChoiceEven, how)

	b.Correct([]int64{0, 1000})
	shard, how := write(first, 1)
	require.Equal(t, 0, shard, "the other has as much as it may have")
	require.Equal(t, ChoiceBound, how)
	b.SetMaxSkew(3)
	shard, how = write(first, 1)
	require.Equal(t, 1, shard)
	require.Equal(t, ChoiceAvoided, how)
}

// Others fill one shard: it gets nothing more until the rest has caught up.
func TestBalanceLearnsWhatOthersWrite(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	b := NewBalance(4, 1.5)
	truth := make([]int64, 4)
	for i := range 4000 {
		shard, _ := b.Pick(rng.Float64(), nil)
		b.Wrote(shard, 10, 1000)
		truth[shard] += 10
		truth[2] += 5
		if i%100 == 99 {
			b.Correct(truth)
		}
	}
	require.LessOrEqual(t, skewOf(truth), 1.45, "a third of all goes to one of four shards: 1.33 is the least, 2 is what even writing gives")
	require.InDelta(t, skewOf(truth), b.Skew(), 0.05)
}

// An engine that has not refreshed, or an answer of another index, takes nothing
// back.
func TestBalanceDoubtfulCorrections(t *testing.T) {
	b := NewBalance(2, 1.5)
	require.Equal(t, 1.0, b.Skew())
	shard, _ := b.Pick(0, nil)
	b.Wrote(shard, 10, 100)
	require.Equal(t, 2.0, b.Skew())
	for _, counts := range [][]int64{{0, 0}, {-5, -5}, {0}, nil, {1, 2, 3}} {
		b.Correct(counts)
		require.Equal(t, 2.0, b.Skew())
	}
	b.Correct([]int64{10, 10})
	require.Equal(t, 1.0, b.Skew())
}

func TestBalanceCountsWhatIsOnItsWay(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	b := NewBalance(4, 1.5)
	b.Correct([]int64{100, 100, 100, 100})
	shard, _ := b.Pick(0.5, nil)
	b.Wrote(shard, 50, 500)
	counts := map[int]int{}
	for range 400 { // none of which has ended
		shard, _ := b.Pick(rng.Float64(), nil)
		counts[shard]++
	}
	for shard := range 4 {
		require.InDelta(t, 100, counts[shard], 2, shard)
		for range counts[shard] {
			b.Wrote(shard, 0, 0)
		}
	}
}

func TestBalanceConcurrently(t *testing.T) {
	b := NewBalance(5, 1.5)
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(worker), 0))
			for range 500 {
				shard, _ := b.Pick(rng.Float64(), sickIf(5, func(shard int) bool { return shard == worker }))
				b.Wrote(shard, 5, 50)
				b.Skew()
				b.SetMaxSkew(1.5)
			}
			b.Correct([]int64{1, 2, 3, 4, 5})
		})
	}
	wg.Wait()
	require.LessOrEqual(t, b.Skew(), 1.5)
}

func BenchmarkPick(b *testing.B) {
	for _, shards := range []int{1, 6, 64} {
		b.Run(fmt.Sprintf("shards=%d", shards), func(b *testing.B) {
			b.ReportAllocs()
			rng := rand.New(rand.NewPCG(1, 1))
			balance, fit := NewBalance(shards, 1.5), sickIf(shards, func(shard int) bool { return shard == 0 })
			for b.Loop() {
				shard, _ := balance.Pick(rng.Float64(), fit)
				balance.Wrote(shard, 500, 150_000)
			}
		})
	}
}

// What is said of the next choice is what is chosen.
func TestPreviewTellsTheChances(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, sick := range [][]Fitness{nil, {Well, Sick, Well, Well}, {Sick, Sick, Sick, Sick}} {
		b := NewBalance(4, 1.5)
		for i := range 400 {
			shard, _ := b.Pick(rng.Float64(), nil)
			b.Wrote(shard, 100+i%7*shard, int64(1000*(shard+1)))
		}
		b.Pick(0, nil)
		standings, want := b.Preview(sick)
		var drawn [4]float64
		const draws = 100_000
		for range draws {
			shard, how := b.Pick(rng.Float64(), sick)
			require.Equal(t, want, how)
			b.Wrote(shard, 0, 0)
			drawn[shard]++
		}
		for shard, s := range standings {
			require.InDelta(t, s.Chance, drawn[shard]/draws, 0.01)
			require.Positive(t, s.Documents)
		}
		require.Equal(t, 1, standings[0].Outstanding)
	}
}

// A shard that stores nothing lacks more and more, and gets no more for it than what is said of all.
func TestAShardThatStoresNothingDoesNotGetAll(t *testing.T) {
	for name, c := range map[string]struct {
		sick    func(int) bool
		avoided int // shards that are sick beside it
	}{
		"well":              {func(int) bool { return false }, 0},
		"sick":              {func(shard int) bool { return shard == 0 }, 0},
		"all sick":          {func(int) bool { return true }, 0},
		"beside a sick one": {func(shard int) bool { return shard == 1 }, 1},
	} {
		for _, shards := range []int{2, 3, 6, 12} {
			if shards-c.avoided < 2 {
				continue // it is the only one that is well
			}
			rng := rand.New(rand.NewPCG(1, 2))
			b := NewBalance(shards, 1.5)
			got := 0
			const bulks = 10_000
			for range bulks {
				shard, _ := b.Pick(rng.Float64(), sickIf(shards, c.sick))
				documents := 500
				if shard == 0 {
					got++
					documents = 0
				}
				b.Wrote(shard, documents, int64(300*documents))
			}
			require.LessOrEqual(t, got, bulks*16/10/(shards-c.avoided), "%s, %d shards", name, shards)
		}
	}
}

// What is down gets nothing, and the others are as even as they are without it.
func TestAShardThatIsDownGetsNothing(t *testing.T) {
	for down := 1; down <= 3; down++ {
		rng := rand.New(rand.NewPCG(1, 2))
		b := NewBalance(4, 1.5)
		counts := make([]int, 4)
		fit := make([]Fitness, 4)
		for shard := range down {
			fit[shard] = Down
		}
		for range 4000 {
			shard, how := b.Pick(rng.Float64(), fit)
			require.Equal(t, ChoiceAvoided, how)
			b.Wrote(shard, 500, 150_000)
			counts[shard]++
		}
		for shard, n := range counts {
			if shard < down {
				require.Zero(t, n)
			} else {
				require.InEpsilon(t, 4000/(4-down), n, 0.05)
			}
		}
	}
	_, how := NewBalance(2, 1.5).Pick(0, []Fitness{Down, Down})
	require.Equal(t, ChoiceAllSick, how)
}
