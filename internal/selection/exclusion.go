package selection

// Exclusion says why a candidate is not listed, or what speaks against one that is. The
// set is closed. It is a number so that a candidate stays small.
type Exclusion uint8

// Exclusions. Up to Leaving they keep a node out of lists while every shard keeps
// another copy; Needed and OverLimit do not; those from OtherZone on are of a copy beside a
// better one.
const (
	NotExcluded Exclusion = iota
	GoneUnreachable
	FailedBefore // failed this very search, or had no room for it
	KeptSlow     // ejected for being slow
	KeptFailing  // ejected for failing searches
	NotItsTurn   // slow start: is given a growing share
	Suspected    // a probe of late took far longer than those of its peers, or it is silent while they answer
	Leaving      // it is about to leave, as an operator or the cluster said
	Needed       // ejected or avoided, but the others have more than they can carry
	OverLimit    // its response time is far above the others': probes will tell
	OtherZone    // the shard has a good copy in the own zone
	OtherSticks  // affinity names another copy
	RanksWorse   // another copy of the shard ranks better
)

// names of exclusions, as shown.
var exclusionNames = [...]string{
	"", "unreachable", "failed_before", "slow", "failing", "ramping", "suspected", "leaving", "needed", "over_limit", "zone", "affinity", "rank",
}

// String returns the name shown to operators, empty for NotExcluded.
func (e Exclusion) String() string { return exclusionNames[e] }

// MarshalText implements encoding.TextMarshaler.
func (e Exclusion) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// KeepsOut reports whether a node is kept out of lists while every shard keeps another
// copy.
func (e Exclusion) KeepsOut() bool { return e > NotExcluded && e < Needed }
