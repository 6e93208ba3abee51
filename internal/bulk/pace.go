package bulk

import (
	"slices"
	"sync"
	"time"
)

const (
	// paceSample is what one bulk counts in the pace of its shard.
	paceSample = 0.3
	// bulkCost is what a bulk costs beside its documents, in documents.
	bulkCost = 50
	// A shard is slow if it takes slowFactor times as long as the others, and slowTime
	// more, in the mean of at least slowBulks bulks.
	slowFactor = 2
	slowTime   = 10 * time.Millisecond
	slowBulks  = 3
	// A shard is silent if none of its bulks has ended for silentFactor times as long as
	// bulks take, and silentTime more.
	silentFactor = 4
	silentTime   = 250 * time.Millisecond
	// A slow shard is tried again with one bulk after firstHold, then after twice as
	// long each time, up to lastHold; so is one that is slow again within holdMemory of
	// being well.
	firstHold  = 2 * time.Second
	lastHold   = 30 * time.Second
	holdMemory = time.Minute
	// trialEvery is how many bulks there are at least for each one that tries a slow
	// shard before lastHold has passed once more: its client waits for it.
	trialEvery = 200
)

// Pace knows how long bulks take on each shard of one index, and which shards are slow
// compared with the others. Whatever makes one so (a starved node, a slow disk or
// network, on the side of the primary or of a replica), a bulk has to wait for it. It
// is safe for concurrent use.
type Pace struct {
	mu     sync.Mutex
	shards []pace
	since  int // bulks since the last that tried a slow shard
}

// pace is what is known of a shard.
type pace struct {
	bulks       int           // that ended
	unit        time.Duration // per document; a bulk counts bulkCost more of them
	whole       time.Duration // per bulk
	outstanding int
	progress    time.Time // when the last one ended, or the only one began
	slow        bool
	hold        time.Duration
	retry       time.Time // when a slow shard may be tried, or since when it is well
}

// NewPace returns a Pace for an index with so many shards.
func NewPace(shards int) *Pace { return &Pace{shards: make([]pace, shards)} }

// Try reports whether a bulk that was chosen for a shard, which [Pace.Slow] did not name,
// may go there. A slow shard that is due is tried by one bulk, however many choose it at
// once, and no two shards are tried at once: [Pace.Slow] names them from then on.
func (p *Pace) Try(shard int, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch s := &p.shards[shard]; {
	case !s.slow:
		return true
	case !p.due(s, now):
		return false
	}
	p.try(shard, now)
	return true
}

// try notes that a slow shard is tried. p.mu is held.
func (p *Pace) try(shard int, now time.Time) {
	for i := range p.shards {
		if s := &p.shards[i]; i == shard {
			s.retry = now.Add(s.hold)
		} else if s.slow && s.retry.Before(now) {
			s.retry = now
		}
	}
	p.since = 0
}

// due reports whether a slow shard is to be tried. p.mu is held.
func (p *Pace) due(s *pace, now time.Time) bool {
	return !now.Before(s.retry) && (p.since >= trialEvery || !now.Before(s.retry.Add(lastHold)))
}

// Begin notes that a bulk is sent to a shard. [Pace.End] or [Pace.Abandon] must be called once for it.
func (p *Pace) Begin(shard int, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &p.shards[shard]
	if s.outstanding == 0 {
		s.progress = now
	}
	s.outstanding++
	p.since++
	if s.slow { // also one that [Pace.Try] was not asked for
		p.try(shard, now)
	}
}

// Abandon notes that a bulk has got no answer, as its client left or the connection broke: a silent shard is as silent
// as before.
func (p *Pace) Abandon(shard int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &p.shards[shard]
	s.outstanding = max(s.outstanding-1, 0)
}

// End notes that a bulk was answered. documents is how many the shard got, 0 if the time
// that the bulk took tells nothing of the shard.
func (p *Pace) End(shard, documents int, took time.Duration, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &p.shards[shard]
	s.outstanding = max(s.outstanding-1, 0)
	s.progress = now
	if documents <= 0 {
		return
	}
	unit := took / time.Duration(documents+bulkCost)
	part := paceSample
	if s.bulks < slowBulks {
		part = 1 / float64(s.bulks+1)
	}
	s.bulks++
	s.unit += time.Duration(part * float64(unit-s.unit))
	s.whole += time.Duration(part * float64(took-s.whole))
	p.judge(shard, unit, documents, now)
}

// judge finds whether a shard is slow after a bulk of so many documents took unit for
// each. A slow one is well again when a bulk is not slow, whatever those before were.
func (p *Pace) judge(shard int, unit time.Duration, documents int, now time.Time) {
	s := &p.shards[shard]
	usual, ok := p.usual(shard)
	if !ok {
		return
	}
	limit := slowFactor*usual + slowTime/time.Duration(documents+bulkCost)
	switch {
	case s.slow && unit <= limit:
		s.slow, s.retry = false, now
		s.unit = unit
	case s.slow:
		s.hold = min(2*s.hold, lastHold)
		s.retry = now.Add(s.hold)
	case s.bulks >= slowBulks && s.unit > limit:
		if now.Sub(s.retry) > holdMemory {
			s.hold = 0
		}
		s.slow, s.hold = true, min(max(2*s.hold, firstHold), lastHold)
		s.retry = now.Add(s.hold)
	}
}

// usual returns the median time per document of the other shards that are not slow.
func (p *Pace) usual(but int) (time.Duration, bool) {
	units := make([]time.Duration, 0, len(p.shards))
	for i, s := range p.shards {
		if i != but && s.bulks > 0 && !s.slow {
			units = append(units, s.unit)
		}
	}
	if len(units) == 0 {
		return 0, false
	}
	slices.Sort(units)
	return units[len(units)/2], true
}

// Slowness is why a shard had better not be written to for the time that bulks take
// there. The set is closed.
type Slowness string

// The ways of being slow.
const (
	SlowPace   Slowness = "slow"   // bulks take longer than on the other shards
	SlowSilent Slowness = "silent" // bulks are on their way and none has ended for long
)

// Slow returns which shards had better not be written to: those that are slow and not
// due to be tried again, and those that are silent. It is nil if none is.
func (p *Pace) Slow(now time.Time) []Slowness {
	p.mu.Lock()
	defer p.mu.Unlock()
	var longest time.Duration
	for _, s := range p.shards {
		if !s.slow {
			longest = max(longest, s.whole)
		}
	}
	var slow []Slowness
	for i, s := range p.shards {
		var why Slowness
		switch {
		case s.slow && !p.due(&s, now):
			why = SlowPace
		case s.outstanding > 0 && now.Sub(s.progress) > silentFactor*longest+silentTime:
			why = SlowSilent
		default:
			continue
		}
		if slow == nil {
			slow = make([]Slowness, len(p.shards))
		}
		slow[i] = why
	}
	return slow
}

// Times returns how long bulks take on each shard, per document; 0 where none has ended.
func (p *Pace) Times() []time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	times := make([]time.Duration, len(p.shards))
	for i, s := range p.shards {
		times[i] = s.unit
	}
	return times
}
