package es

import (
	"bytes"
	"unicode/utf8"
)

// Document is a document as a read by id names it.
type Document struct {
	Index string // name of an index or alias
	ID    string
	// Routing is empty if none is given. Reads with an empty one, which means something
	// else to the engines, are not steered.
	Routing string
}

// MGetDocuments returns the documents that the body of a multi get names, in its order.
// index and routing are those of the request line, for documents that name none. ok is
// false if the engines may read the body differently; then docs means nothing. Of more than [MaxItems] only the
// first are returned, one more than that.
func MGetDocuments(body []byte, index, routing string) (docs []Document, ok bool) {
	s := scanner{b: body}
	if s.expect('{') != scanOK {
		return nil, false
	}
	st := s.members(func(key []byte) status {
		var item func(Document) (Document, status)
		switch string(key) {
		case "docs":
			item = s.document
		case "ids":
			item = s.documentID
		default:
			return scanBad
		}
		return s.array(func() status {
			doc, st := item(Document{Index: index, Routing: routing})
			switch {
			case st != scanOK:
				return st
			case doc.Index == "", doc.ID == "":
				return scanBad
			}
			if docs = append(docs, doc); len(docs) > MaxItems {
				return scanEnd
			}
			return scanOK
		})
	})
	if st == scanEnd { // there are too many
		return docs, true
	}
	_, rest := s.peek()
	return docs, st == scanOK && rest == scanMore
}

// KeepsDocument reports whether the body of a term vectors request certainly names no
// other document than the request line.
func KeepsDocument(body []byte) bool {
	other, readable := hasTopLevelKey(body, func(key []byte) bool {
		switch string(key) {
		case "_index", "_type", "_id", "_routing", "routing", "doc":
			return true
		}
		return false
	})
	return readable && !other
}

// documentID reads an element of `ids`. doc has the values that it does not give.
func (s *scanner) documentID(doc Document) (Document, status) {
	st := s.name(&doc.ID)
	return doc, st
}

// document reads an element of `docs`, likewise.
func (s *scanner) document(doc Document) (Document, status) {
	if st := s.expect('{'); st != scanOK {
		return doc, st
	}
	st := s.members(func(key []byte) status {
		switch string(key) {
		case "_index":
			return s.name(&doc.Index)
		case "_id":
			return s.name(&doc.ID)
		case "routing":
			return s.name(&doc.Routing)
		default:
			return s.skip()
		}
	})
	return doc, st
}

// name reads a string, or a number or literal in its JSON form; null leaves into
// unchanged. A value that is empty, or has no UTF-16 form, is scanBad.
func (s *scanner) name(into *string) status {
	var value []byte
	c, st := s.peek()
	switch {
	case st != scanOK:
		return st
	case c == '"':
		value, st = s.text()
	case c == '{' || c == '[':
		return scanBad
	default:
		if value, st = s.scalar(); st == scanOK && string(value) == "null" {
			return scanOK
		}
	}
	if st != scanOK {
		return st
	}
	if len(value) == 0 || !utf8.Valid(value) || bytes.ContainsRune(value, utf8.RuneError) {
		return scanBad
	}
	*into = string(value)
	return scanOK
}
