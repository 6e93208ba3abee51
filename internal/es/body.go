package es

// HasTopLevelPIT reports whether a search body names a point in time (the top-level key
// `pit`). readable is false if the body is not plain JSON, but something that an engine
// may read otherwise (comments, YAML, a truncated body); then pit means nothing. An empty
// body names none.
func HasTopLevelPIT(body []byte) (pit, readable bool) {
	return hasTopLevelKey(body, func(key []byte) bool { return string(key) == "pit" })
}

// hasTopLevelKey reports whether a body, one JSON object or nothing, has a key for which
// ofKind is true. readable is false for any other body; then has means nothing.
func hasTopLevelKey(body []byte, ofKind func(key []byte) bool) (has, readable bool) {
	s := scanner{b: body}
	c, st := s.peek()
	if st == scanMore {
		return false, true
	}
	if c != '{' {
		return false, false
	}
	s.i++
	for first := true; ; first = false {
		key, st := s.key(first)
		if st == scanEnd {
			break
		}
		if st != scanOK || s.skip() != scanOK {
			return false, false
		}
		has = has || ofKind(key)
	}
	if _, st := s.peek(); st != scanMore {
		return false, false
	}
	return has, true
}
