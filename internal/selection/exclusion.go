package selection

// Exclusion says why a candidate is not listed, or what speaks against one that is. The
// set is closed. It is a number so that a candidate stays small.
type Exclusion uint8

// Exclusions, the worse the later. Up to RanksWorse they are of a copy beside a better one. From NotItsTurn on they keep a
// node out of lists while every shard keeps another copy, from FailedBefore on one that is kept out, too.
const (
	NotExcluded  Exclusion = iota
	OtherZone              // the shard has a good copy in the own zone
	OtherSticks            // affinity names another copy
	RanksWorse             // another copy of the shard ranks better
	OverLimit              // its response time is far above the others': probes will tell
	Needed                 // ejected or avoided, but the others have more than they can carry
	NotItsTurn             // slow start: is given a growing share
	Suspected              // a probe of late took far longer than those of its peers, or it is silent while they answer
	Leaving                // it is about to leave, as an operator or the cluster said
	KeptSlow               // ejected for being slow
	KeptFailing            // ejected for failing searches
	FailedBefore           // failed this very search, or had no room for it
	GoneUnreachable
)

// names of exclusions, as shown.
var exclusionNames = [...]string{
	"", "zone", "affinity", "rank", "over_limit", "needed", "ramping", "suspected", "leaving", "slow", "failing", "failed_before", "unreachable",
}

// String returns the name shown to operators, empty for NotExcluded.
func (e Exclusion) String() string { return exclusionNames[e] }

// MarshalText implements encoding.TextMarshaler.
func (e Exclusion) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// KeepsOut reports whether a node is kept out of lists while every shard keeps another
// copy.
func (e Exclusion) KeepsOut() bool { return e >= NotItsTurn }
