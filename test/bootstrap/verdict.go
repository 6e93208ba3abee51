package bootstrap

import "fmt"

// Noise is what two measurements of the same may differ by, of their value.
const Noise = 0.05

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

// AtLeast holds if the middle of a ratio reaches the limit.
func AtLeast(about string, e Estimate, limit float64) Verdict {
	return Verdict{About: fmt.Sprintf("%s %s, at least %g", about, e, limit), Holds: e.Value >= limit, Open: e.Low < limit && e.High >= limit}
}

// AtMost holds if the middle of a ratio is known, and no more than the limit.
func AtMost(about string, e Estimate, limit float64) Verdict {
	return Verdict{About: fmt.Sprintf("%s %s, at most %g", about, e, limit), Holds: e.Value > 0 && e.Value <= limit, Open: e.Low <= limit && e.High > limit}
}

// NoHigher holds if a ratio is within [Noise] of one, or within what the control differs by.
func NoHigher(about string, e, control Estimate) Verdict {
	limit := max(1+Noise, control.High)
	return Verdict{
		About: fmt.Sprintf("%s %s, at most %g%s", about, e, 1+Noise, within(control)),
		Holds: e.Value > 0 && e.Value <= limit, Open: e.Low <= limit && e.High > limit,
	}
}

// NoLower is [NoHigher] for what is better the more there is.
func NoLower(about string, e, control Estimate) Verdict {
	limit := 1 / (1 + Noise)
	if control.Low > 0 {
		limit = min(limit, control.Low)
	}
	return Verdict{
		About: fmt.Sprintf("%s %s, at least %.2f%s", about, e, 1/(1+Noise), within(control)),
		Holds: e.Value >= limit, Open: e.Low < limit && e.High >= limit,
	}
}

// within is empty where there is no control.
func within(control Estimate) string {
	if control.Value == 0 {
		return ""
	}
	return " or within the control's " + control.String()
}
