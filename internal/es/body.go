package es

// HasTopLevelPIT reports whether a search body names a point in time (the
// top-level key `pit`). readable is false when the body is not JSON that can be
// told from anything else an engine may read (comments, YAML, a truncated body);
// pit then says nothing. An empty body names none.
func HasTopLevelPIT(body []byte) (pit, readable bool) {
	return hasTopLevelKey(body, func(key []byte) bool { return string(key) == "pit" })
}

// hasTopLevelKey reports whether a body, one JSON object or nothing, has a key of
// some kind. readable is false for any other body; has then says nothing.
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
