package bulk

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// Searches reads the body of a multi-search (NDJSON) and gives its header lines another
// form: the lines of the searches stream through as they are. A header line that is longer
// than 64 KiB, and all that follows it, stays as it is; so does a body that begins with an
// empty line, which engines read differently. It is not safe for concurrent use.
type Searches struct {
	src     *bufio.Reader
	header  func(line []byte) []byte
	pending []byte
	state   lineState // stateAction is a header
	begun   bool
	err     error
}

// NewSearches returns a reader of src. header gets each header line without its line feed,
// and returns it as it is to be read.
func NewSearches(src io.Reader, header func(line []byte) []byte) *Searches {
	return &Searches{src: bufio.NewReaderSize(src, maxAction+1), header: header}
}

// Read implements [io.Reader].
func (s *Searches) Read(p []byte) (int, error) {
	for len(s.pending) == 0 {
		if s.err != nil {
			return 0, s.err
		}
		s.next()
	}
	n := copy(p, s.pending)
	s.pending = s.pending[n:]
	return n, nil
}

// next reads a line, or a part of one that is long.
func (s *Searches) next() {
	line, err := s.src.ReadSlice('\n')
	whole := err == nil
	if !errors.Is(err, bufio.ErrBufferFull) {
		s.err = err
	}
	s.pending = line
	switch {
	case s.state == stateSource && whole:
		s.state = stateAction
	case s.state != stateAction:
	case !whole, !s.begun && len(line) == 1:
		s.state = stateRest
	default:
		s.state = stateSource
		s.pending = append(s.header(bytes.TrimSuffix(line, []byte{'\n'})), '\n')
	}
	s.begun = true
}
