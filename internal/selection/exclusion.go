package selection

// Exclusion says why a candidate is not listed, or what spoke against one that is. The
// set is closed. It is a number so that a candidate stays small.
type Exclusion uint8

// Exclusions. Up to Quiet they keep a node out while every shard keeps another copy;
// from Spared to TooMany something speaks against the node, but it may be listed;
// those from OtherZone on are of a copy beside a better one.
const (
	NotExcluded Exclusion = iota
	GoneUnreachable
	GoneUnresponsive
	FailedBefore // failed this very search
	KeptSlow     // kept out for being slow
	KeptFailing  // kept out for failing searches
	NotItsTurn   // comes back: is given a growing share
	Suspected    // has not answered a probe that others have
	OverLimit    // its response time is above the limit
	Quiet        // has answered nothing for longer than the limit
	Spared       // slow, but the others have more than they can carry
	Needed       // above the limit, but the others could not carry its load
	TooMany      // above the limit, as are more than a third of the candidates
	OtherZone    // the shard has a good copy in the own zone
	OtherSticks  // affinity names another copy
	RanksWorse   // another copy of the shard ranks better
)

// names of exclusions, as shown.
var exclusionNames = [...]string{
	"", "unreachable", "unresponsive", "failed_before", "slow", "failing", "ramping", "suspected", "over_limit", "silent",
	"spared", "needed", "too_many", "zone", "affinity", "rank",
}

// Exclusions returns the closed set, without NotExcluded.
func Exclusions() []Exclusion {
	all := make([]Exclusion, 0, len(exclusionNames)-1)
	for e := range exclusionNames[1:] {
		all = append(all, Exclusion(e+1))
	}
	return all
}

// String returns the name shown to operators, empty for NotExcluded.
func (e Exclusion) String() string { return exclusionNames[e] }

// MarshalText implements encoding.TextMarshaler.
func (e Exclusion) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// keepsOut reports whether a node is kept out while every shard keeps another copy.
func (e Exclusion) keepsOut() bool { return e > NotExcluded && e < Spared }

// exclude marks a candidate as slow. What spoke against it first is kept.
func (c *candidate) exclude(why Exclusion) {
	c.slow = true
	c.note(why)
}

// note notes what speaks against a candidate, unless it is out already.
func (c *candidate) note(why Exclusion) {
	if !c.why.keepsOut() {
		c.why = why
	}
}

// goneFor says why a candidate is out whatever the others are like.
func goneFor(n *Node) Exclusion {
	switch State(n.polled.Load()) {
	case Unreachable:
		return GoneUnreachable
	case Unresponsive:
		return GoneUnresponsive
	default:
		return FailedBefore
	}
}
