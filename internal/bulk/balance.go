package bulk

import (
	"cmp"
	"slices"
	"sync"
)

const (
	// catchUp is the factor by which a shard below the mean gets more: for a tenth of the
	// mean half a share.
	catchUp = 5
	// maxShare bounds what a shard gets for what it lacks, and minWeight its weight from
	// below, in even shares.
	maxShare  = 1.5
	minWeight = 0.1
	// sizeWeight is the weight of one bulk in the mean size of bulks.
	sizeWeight = 1.0 / 64
	// margin is the assumed size of the bulk that is placed, in mean bulks: the size is
	// unknown until it has been read.
	margin = 3
	// slack is what each shard may have in any case, in mean bulks: few bulks cannot be
	// placed evenly.
	slack = 8
	// maxOthers bounds the ratio of what all processes write to what this one writes.
	maxOthers = 1000
)

// Choice is how a shard was chosen. The set is closed: it is a metric label.
type Choice string

// The ways of choosing.
const (
	ChoiceEven    Choice = "even"     // no shard is sick
	ChoiceAvoided Choice = "avoided"  // a shard that is not sick; some are
	ChoiceBound   Choice = "bound"    // mostly a sick shard: those that are not sick have reached the bound
	ChoiceAllSick Choice = "all_sick" // the best there is: no shard is well
)

// Fitness says whether a shard is to be written to.
type Fitness uint8

// The fitness of a shard, from the best on.
const (
	Well Fitness = iota
	Sick         // better not
	Down         // it takes no writes: nothing goes there while another shard is not down
)

// Choices returns all of them.
func Choices() []Choice { return []Choice{ChoiceEven, ChoiceAvoided, ChoiceBound, ChoiceAllSick} }

// Balance chooses the shards of one index for bulks, and keeps the books of what
// each has got. It is safe for concurrent use.
//
// The level of a shard is what it has, relative to the mean of all shards, in
// documents or in bytes, whichever is more; bulks that are on their way count with
// the mean size of recent bulks. Shards are drawn at random:
//
//	weight = 1 + 5·(1 − level), at least 0.1 and at most 1.5
//
// and if the weights have a mean m < 1, 3·(1 − m) is added to each. So no shard gets
// more than one and a half times an even share for what it lacks: a node that has
// recovered is not flooded.
//
// A shard has room if, with three mean bulks more and what is on its way, it has at
// most MaxSkew times the mean then, or eight mean bulks. Drawn are, of these sets the first that is not
// empty: the well shards that have room; the sick ones that have room; the emptiest that is
// not down. If no shard is well, it is as if none were sick.
//
// If few have room the draw is not theirs alone: what is beyond one and a half even shares
// goes to well ones without, or to sick ones where none is well. None of these gets more than
// an even share, so that none moves away from the mean. Else a shard that refuses what it is
// sent, and so stays the emptiest, would get everything at last.
//
// Other processes write, too. [Balance.Correct] learns from the engine what they
// wrote; until the next time they are assumed to write in proportion, where this
// process does.
type Balance struct {
	mu      sync.Mutex
	maxSkew float64
	shards  []account
	// size is the mean size of recent bulks; a document of a byte before the first.
	size  amount
	sized bool
	// others is the ratio of what all processes write to what this one writes.
	others float64
	// engine and own are what all shards had at the last correction.
	engine, own float64
	corrected   bool
}

// amount is a number of documents and of their bytes.
type amount struct{ documents, bytes float64 }

func (a amount) plus(b amount) amount {
	return amount{a.documents + b.documents, a.bytes + b.bytes}
}

// account is the state of a shard.
type account struct {
	amount              // what it has got from all clients, as far as known
	own         float64 // documents that this process wrote
	outstanding int     // bulks in flight
}

// NewBalance returns a Balance for an index with so many shards, at least 1.
func NewBalance(shards int, maxSkew float64) *Balance {
	return &Balance{maxSkew: maxSkew, shards: make([]account, max(shards, 1)), size: amount{1, 1}, others: 1}
}

// SetMaxSkew changes the bound of the fullest shard, as a multiple of the mean: 1.5 is
// half as much again.
func (b *Balance) SetMaxSkew(maxSkew float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.maxSkew = maxSkew
}

// Pick chooses the shard for a bulk. chance is uniform in [0, 1). fit is the fitness of each
// shard; nil: all are well. [Balance.Wrote] must be called once for each Pick, when the
// bulk has ended.
func (b *Balance) Pick(chance float64, fit []Fitness) (shard int, how Choice) {
	b.mu.Lock()
	defer b.mu.Unlock()
	weights, how := b.levels(fit).weights()
	shard = draw(weights, chance)
	b.shards[shard].outstanding++
	return shard, how
}

// Standing is the state of a shard in the choice for the next bulk.
type Standing struct {
	// Documents is what it has got since the Balance began, from all clients. Outstanding
	// is the number of bulks of this process in flight to it.
	Documents   int64
	Outstanding int
	Level       float64
	Room        bool
	Chance      float64 // of being drawn, 0 to 1
}

// Preview returns how the next [Balance.Pick] chooses, with the same fitness.
func (b *Balance) Preview(fit []Fitness) ([]Standing, Choice) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.levels(fit)
	weights, how := l.weights()
	var sum float64
	for _, w := range weights {
		sum += w
	}
	out := make([]Standing, len(b.shards))
	for i, s := range b.shards {
		out[i] = Standing{int64(s.documents), s.outstanding, l.level[i], l.room[i], weights[i] / sum}
	}
	return out, how
}

// Wrote records the result of a Pick: how many documents the shard has got, and their
// size. Both are 0 if the bulk failed.
func (b *Balance) Wrote(shard, documents int, bytes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := &b.shards[shard]
	s.outstanding = max(s.outstanding-1, 0)
	if documents <= 0 {
		return
	}
	wrote := amount{float64(documents), float64(max(bytes, 0))}
	b.learnSize(wrote)
	s.own += wrote.documents
	s.documents += wrote.documents * b.others
	s.bytes += wrote.bytes * b.others
}

// learnSize records the size of a bulk.
func (b *Balance) learnSize(wrote amount) {
	if !b.sized {
		b.size, b.sized = wrote, true
		for i := range b.shards { // scale what other clients wrote before
			b.shards[i].bytes = b.shards[i].documents * wrote.bytes / wrote.documents
		}
		return
	}
	b.size.documents += sizeWeight * (wrote.documents - b.size.documents)
	b.size.bytes += sizeWeight * (wrote.bytes - b.size.bytes)
}

// Correct sets how many documents the engine counted on each shard since this Balance
// began. A shard has at least what this process wrote, some of it since they were counted.
// It is ignored for another number of shards.
func (b *Balance) Correct(documents []int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(documents) != len(b.shards) {
		return
	}
	var engine, own float64
	for i := range b.shards {
		s := &b.shards[i]
		counted := float64(max(documents[i], 0))
		engine += counted
		own += s.own
		actual := max(counted, s.own)
		s.bytes = max(s.bytes+(actual-s.documents)*b.size.bytes/b.size.documents, 0)
		s.documents = actual
	}
	if b.corrected && own > b.own {
		b.others = min(max((engine-b.engine)/(own-b.own), 1), maxOthers)
	}
	b.engine, b.own, b.corrected = engine, own, true
}

// Own returns how many documents each shard got from this process.
func (b *Balance) Own() []int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	own := make([]int64, len(b.shards))
	for i, s := range b.shards {
		own[i] = int64(s.own)
	}
	return own
}

// Skew returns the level of the fullest shard in documents, relative to the mean: 1 is
// even. An index without documents has 1.
func (b *Balance) Skew() float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	var fullest, sum float64
	for _, s := range b.shards {
		fullest, sum = max(fullest, s.documents), sum+s.documents
	}
	if sum == 0 {
		return 1
	}
	return fullest / sum * float64(len(b.shards))
}

// Settled reports whether enough was written for the skew to mean something: few bulks
// cannot be placed evenly.
func (b *Balance) Settled() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	var sum float64
	for _, s := range b.shards {
		sum += s.documents
	}
	return b.sized && sum >= slack*b.size.documents*float64(len(b.shards))
}

// levels are the shards in a draw.
type levels struct {
	fit   []Fitness
	level []float64 // relative to the mean
	room  []bool
	live  float64 // how many are in the mean
}

// levels returns the shards in a draw. Those that are down lack more and more while they are: they are not in the mean.
func (b *Balance) levels(fit []Fitness) levels {
	if fit == nil {
		fit = make([]Fitness, len(b.shards))
	}
	l := levels{fit: fit, level: make([]float64, len(b.shards)), room: make([]bool, len(b.shards))}
	last := max(slices.Min(fit), Sick) // all of them, if all are down
	var written, sum amount
	for i, s := range b.shards {
		if fit[i] <= last {
			l.live++
			written, sum = written.plus(s.amount), sum.plus(b.with(s))
		}
	}
	// fits counts what is in flight to the shard, but not what is in flight to others,
	// which may arrive later.
	fits := func(written, has, onWay, size float64) bool {
		onWay += margin * size
		return has+onWay <= max(b.maxSkew*(written+onWay)/l.live, slack*size)
	}
	for i, s := range b.shards {
		with := b.with(s)
		l.level[i] = max(relative(with.documents, sum.documents/l.live), relative(with.bytes, sum.bytes/l.live))
		l.room[i] = fits(written.documents, s.documents, with.documents-s.documents, b.size.documents) &&
			fits(written.bytes, s.bytes, with.bytes-s.bytes, b.size.bytes)
	}
	return l
}

// with returns what a shard has, with the bulks in flight to it.
func (b *Balance) with(s account) amount {
	outstanding := float64(s.outstanding) * b.others
	return amount{s.documents + outstanding*b.size.documents, s.bytes + outstanding*b.size.bytes}
}

// relative returns 1 if there is nothing to compare with.
func relative(has, mean float64) float64 {
	if mean <= 0 {
		return 1
	}
	return has / mean
}

// weights returns the weight of each shard in the draw, 0 if it cannot be drawn. At least
// one can.
func (l levels) weights() ([]float64, Choice) {
	best := slices.Min(l.fit)
	open, full := l.of(best, true), l.of(best, false)
	switch {
	case slices.Max(l.fit) == Well:
		return l.share(open, full), ChoiceEven
	case best != Well:
		return l.share(open, full), ChoiceAllSick
	case len(open) > 0 || !slices.Contains(l.fit, Sick):
		return l.share(open, full), ChoiceAvoided
	}
	if open = l.of(Sick, true); len(open) == 0 {
		full = append(full, l.of(Sick, false)...)
	}
	return l.share(open, full), ChoiceBound
}

// of returns the shards of a fitness that have room, or none.
func (l levels) of(fitness Fitness, room bool) (shards []int) {
	for shard, f := range l.fit {
		if f == fitness && l.room[shard] == room {
			shards = append(shards, shard)
		}
	}
	return shards
}

// share returns the weights of a draw among the open shards, with what the full ones get of it. If none is open
// it is the emptiest of the full ones.
func (l levels) share(open, full []int) []float64 {
	weights := make([]float64, len(l.level))
	if len(open) == 0 {
		weights[slices.MinFunc(full, func(a, b int) int { return cmp.Compare(l.level[a], l.level[b]) })] = 1
		return weights
	}
	l.weigh(weights, open)
	if len(full) == 0 {
		return weights
	}
	l.weigh(weights, full)
	most, over := maxShare/float64(len(open)+len(full)), 0.0
	for _, shard := range open {
		over += max(0, weights[shard]-most)
		weights[shard] = min(weights[shard], most)
	}
	given := min(over, float64(len(full))/l.live)
	for _, shard := range open {
		weights[shard] *= (1 - given) / (1 - over)
	}
	for _, shard := range full {
		weights[shard] *= given
	}
	return weights
}

// weigh sets the weights of some shards, which are 1 together.
func (l levels) weigh(weights []float64, shards []int) {
	sum, n := 0.0, float64(len(shards))
	for _, shard := range shards {
		weights[shard] = weight(l.level[shard])
		sum += weights[shard]
	}
	// (maxShare + lift) / (sum + n·lift) = maxShare / n
	lift := max(1-sum/n, 0) * maxShare / (maxShare - 1)
	for _, shard := range shards {
		weights[shard] = (weights[shard] + lift) / (sum + n*lift)
	}
}

// draw chooses a shard by weight. At least one weight is not 0.
func draw(weights []float64, chance float64) int {
	sum := 0.0
	for _, w := range weights {
		sum += w
	}
	left, drawn := chance*sum, 0
	for i, w := range weights {
		if w == 0 {
			continue
		}
		drawn = i
		if left -= w; left < 0 {
			break
		}
	}
	return drawn
}

func weight(level float64) float64 {
	return min(max(1+catchUp*(1-level), minWeight), maxShare)
}
