package es

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// status is the result of reading a piece of JSON.
type status uint8

const (
	scanOK   status = iota
	scanEnd         // the object or array is closed
	scanMore        // the input ended first
	scanBad         // not the JSON that is expected
)

// scanner reads JSON without building values. It is strict where it must distinguish, and
// lax inside values that it skips: these need only balanced brackets and terminated
// strings. Comments, which the engines accept, are scanBad.
type scanner struct {
	b []byte
	i int
}

// peek skips white space and returns the next byte without consuming it.
func (s *scanner) peek() (byte, status) {
	for ; s.i < len(s.b); s.i++ {
		switch c := s.b[s.i]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c, scanOK
		}
	}
	return 0, scanMore
}

// expect skips white space and consumes the next byte, which must be want.
func (s *scanner) expect(want byte) status {
	c, st := s.peek()
	if st != scanOK {
		return st
	}
	if c != want {
		return scanBad
	}
	s.i++
	return scanOK
}

// next moves to the next member of an object or element of an array, after the opening
// bracket. scanEnd consumes the closing one.
func (s *scanner) next(first bool, closing byte) status {
	c, st := s.peek()
	switch {
	case st != scanOK:
		return st
	case c == closing:
		s.i++
		return scanEnd
	case first:
		return scanOK
	case c != ',':
		return scanBad
	}
	s.i++
	c, st = s.peek()
	if st == scanOK && c == closing {
		return scanBad
	}
	return st
}

// key moves to the value of the next member of an object and returns its key.
func (s *scanner) key(first bool) ([]byte, status) {
	if st := s.next(first, '}'); st != scanOK {
		return nil, st
	}
	key, st := s.text()
	if st != scanOK {
		return nil, st
	}
	if st := s.expect(':'); st != scanOK {
		return nil, st
	}
	_, st = s.peek()
	return key, st
}

// members reads an object, after the opening bracket. It calls value with the key of each
// member, which reads the value. It ends with whatever value returns but scanOK.
func (s *scanner) members(value func(key []byte) status) status {
	for first := true; ; first = false {
		key, st := s.key(first)
		if st == scanEnd {
			return scanOK
		}
		if st != scanOK {
			return st
		}
		if st := value(key); st != scanOK {
			return st
		}
	}
}

// object reads a value. It calls value with the key of each member if it is an object.
func (s *scanner) object(value func(key []byte) status) status {
	if c, st := s.peek(); st != scanOK || c != '{' {
		return s.skip()
	}
	s.i++
	return s.members(value)
}

// elements reads a value. It calls value for each element if it is an array.
func (s *scanner) elements(value func() status) status {
	if c, st := s.peek(); st != scanOK || c != '[' {
		return s.skip()
	}
	return s.array(value)
}

// array reads an array. It calls value for each element, which reads it, and ends with whatever value returns but scanOK.
func (s *scanner) array(value func() status) status {
	if st := s.expect('['); st != scanOK {
		return st
	}
	for first := true; ; first = false {
		st := s.next(first, ']')
		if st == scanEnd {
			return scanOK
		}
		if st == scanOK {
			st = value()
		}
		if st != scanOK {
			return st
		}
	}
}

// text reads a string. The bytes are those of the input unless it has escapes.
func (s *scanner) text() ([]byte, status) {
	if st := s.expect('"'); st != scanOK {
		return nil, st
	}
	start := s.i
	if st := s.skipText(); st != scanOK {
		return nil, st
	}
	raw := s.b[start : s.i-1]
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw, scanOK
	}
	var decoded string
	if err := json.Unmarshal(s.b[start-1:s.i], &decoded); err != nil {
		return nil, scanBad
	}
	return []byte(decoded), scanOK
}

// skipText moves behind the closing quote of a string, after the opening one.
func (s *scanner) skipText() status {
	for i := s.i; i < len(s.b); i++ {
		switch s.b[i] {
		case '"':
			s.i = i + 1
			return scanOK
		case '\\':
			i++
		}
	}
	s.i = len(s.b)
	return scanMore
}

// skip moves behind the next value.
func (s *scanner) skip() status {
	c, st := s.peek()
	if st != scanOK {
		return st
	}
	if c != '{' && c != '[' {
		_, st := s.scalar()
		return st
	}
	depth := 0
	for s.i < len(s.b) {
		c := s.b[s.i]
		s.i++
		switch c {
		case '"':
			if st := s.skipText(); st != scanOK {
				return st
			}
		case '{', '[':
			depth++
		case '}', ']':
			depth--
			if depth == 0 {
				return scanOK
			}
		default:
			if !isPlain(c) {
				return scanBad
			}
		}
	}
	return scanMore
}

// scalar moves behind a string, number or literal, and returns a number or literal in its
// JSON form. It needs to see the byte after it.
func (s *scanner) scalar() ([]byte, status) {
	c, st := s.peek()
	if st != scanOK {
		return nil, st
	}
	if c == '"' {
		s.i++
		return nil, s.skipText()
	}
	start := s.i
	for ; s.i < len(s.b); s.i++ {
		switch c := s.b[s.i]; {
		case c == ',' || c == '}' || c == ']' || isSpace(c):
			if s.i == start {
				return nil, scanBad
			}
			return s.b[start:s.i], scanOK
		case c == ':' || !isPlain(c):
			return nil, scanBad
		}
	}
	return nil, scanMore
}

// integer reads a value. ok says that it was a whole number >= 0; else n is 0.
func (s *scanner) integer() (n int64, ok bool, st status) {
	c, st := s.peek()
	if st != scanOK {
		return 0, false, st
	}
	if c < '0' || c > '9' {
		return 0, false, s.skip()
	}
	raw, st := s.scalar()
	if st != scanOK {
		return 0, false, st
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		return 0, false, scanOK
	}
	return n, true, scanOK
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// isPlain reports whether a byte may occur outside of strings and brackets.
func isPlain(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	}
	return c == ',' || c == ':' || c == '.' || c == '-' || c == '+' || isSpace(c)
}
