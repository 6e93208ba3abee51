package es

import "bytes"

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
	st = s.members(func(key []byte) status {
		has = has || ofKind(key)
		return s.skip()
	})
	if _, rest := s.peek(); st != scanOK || rest != scanMore {
		return false, false
	}
	return has, true
}

// NamesPIT reports whether what is given of a search body, which may be its beginning
// alone, names a point in time. Unlike [HasTopLevelPIT] it does not vouch for the
// opposite: a key that comes later, or is written with escapes, is not seen.
func NamesPIT(body []byte) (named bool) {
	if !bytes.Contains(body, []byte(`"pit"`)) {
		return false
	}
	s := scanner{b: body}
	if s.expect('{') != scanOK {
		return false
	}
	s.members(func(key []byte) status {
		if named = string(key) == "pit"; named {
			return scanEnd
		}
		return s.skip()
	})
	return named
}

// ItemsNamePIT is [NamesPIT] for the body of a multi-search: it reports whether one of the
// searches names a point in time.
func ItemsNamePIT(body []byte) bool {
	if !bytes.Contains(body, []byte(`"pit"`)) {
		return false
	}
	for header := true; len(body) > 0; header = !header {
		line, rest, _ := bytes.Cut(body, []byte{'\n'})
		if !header && NamesPIT(line) {
			return true
		}
		body = rest
	}
	return false
}
