package bootstrap

// Verdict says whether a requirement is met.
type Verdict struct {
	About string // what is required, with what was measured
	Holds bool
	// Open says that the interval is on both sides of the limit.
	Open bool
}

// String is a line of the results.
func (v Verdict) String() string {
	text := "missed: "
	if v.Holds {
		text = "held: "
	}
	text += v.About
	if v.Open {
		text += "; the interval is on both sides"
	}
	return text
}
