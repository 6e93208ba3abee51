package es

// MatchesAny reports whether one of the patterns matches a name.
func MatchesAny(patterns []string, name string) bool {
	for _, pattern := range patterns {
		if Matches(pattern, name) {
			return true
		}
	}
	return false
}

// Matches reports whether a pattern matches a whole name. The only wildcard is *, for any
// number of bytes, including none. The time is at most proportional to the product of
// both lengths.
func Matches(pattern, name string) bool {
	star, from := -1, 0 // the last * and where in name what follows it is tried
	p, n := 0, 0
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, from = p, n
			p++
		case p < len(pattern) && pattern[p] == name[n]:
			p++
			n++
		case star >= 0:
			from++
			p, n = star+1, from
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}
