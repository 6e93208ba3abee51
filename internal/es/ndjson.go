package es

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// MaxItems bounds the items of a multi-search, and the documents of a multi get, that are read: what is known of
// one takes some hundred bytes, however short it is.
const MaxItems = 10_000

// Item is one search of a multi-search: a header line and the line of its body.
type Item struct {
	// Target, Routing and Preference are as in [Request]. What the header does not give
	// is the request line's.
	Target, Routing, Preference string
	// Pass is the reason why the item must stay unchanged; empty if it may be steered.
	Pass PassReason

	at spot // in the body: of the preference
}

// spot is where the value of a key is written in a header line, in place of what is between from and to.
type spot struct {
	from, to int
	form     form
}

// form says what is written around a value.
type form uint8

const (
	formValue  form = iota // nothing: there is a value
	formObject             // the line is empty: the whole object
	formFirst              // the object is empty: the key
	formNext               // a comma and the key
)

// open appends what comes before the value of a key, and end what comes behind it.
func (s spot) open(out []byte, key string) []byte {
	switch s.form {
	case formValue:
		return out
	case formObject:
		out = append(out, '{')
	case formNext:
		out = append(out, ',')
	}
	return append(append(append(out, '"'), key...), `":`...)
}

func (s spot) end(out []byte) []byte {
	if s.form == formObject {
		return append(out, '}')
	}
	return out
}

// classifyItems is [Classify] for multi-searches: target, routing and options of the
// request line apply to items that do not give their own.
func classifyItems(op Operation, target string, typed bool, query string) Request {
	r := Request{Operation: op}
	params := readParams(query)
	var targetOK bool
	r.Target, targetOK = decode(target, false)
	r.Routing, r.Expands, r.AtOnce = params.routing, params.expands, params.atOnce
	r.Unverifiable = params.unverifiable || params.filtered
	switch {
	case typed:
		r.Pass = PassTypedPath
	case !targetOK || params.ambiguous || params.indexed || params.preference != "" || strings.IndexByte(target, '#') >= 0:
		r.Pass = PassAmbiguousQuery
	case params.remote:
		r.Pass = PassRemoteTarget
	case params.source:
		r.Pass = PassUnreadableBody
	}
	return r
}

// ReadsLines reports whether the engines split the body of a request with this
// Content-Type at line feeds. In CBOR, SMILE and YAML they use other separators.
func ReadsLines(contentType string) bool {
	mediaType, parameters, _ := strings.Cut(contentType, ";")
	switch strings.ToLower(strings.TrimSpace(mediaType)) {
	case "application/json", "application/x-ndjson",
		"application/vnd.elasticsearch+json", "application/vnd.elasticsearch+x-ndjson":
	default:
		return false
	}
	_, charset, named := strings.Cut(strings.ToLower(parameters), "charset=")
	return !named || strings.HasPrefix(strings.Trim(charset, `" `), "utf-8")
}

// MultiSearch appends the items of a multi-search to items. r is the content of the
// request line. readable is false if engines disagree about which lines are headers: a
// leading line feed is skipped by some and an empty header to others, and a last line
// without a line feed is an error. A last header without a body is no item. Of more than MaxItems only the first are appended,
// one more than that.
func MultiSearch(items []Item, r Request, body []byte) (_ []Item, readable bool) {
	if len(body) == 0 || body[0] == '\n' || body[len(body)-1] != '\n' {
		return items, false
	}
	for pos := 0; pos < len(body) && len(items) <= MaxItems; {
		header := bytes.IndexByte(body[pos:], '\n')
		source := bytes.IndexByte(body[pos+header+1:], '\n')
		if source < 0 {
			break
		}
		item := readHeader(body[pos:pos+header], r)
		item.at.from, item.at.to = item.at.from+pos, item.at.to+pos
		pos += header + 1
		if item.Pass == PassNone {
			item.Pass = sourcePass(body[pos:pos+source], r.Operation == MSearchTemplate, item.Target)
		}
		items = append(items, item)
		pos += source + 1
	}
	return items, true
}

// sourcePass looks for a point in time, which allows no preference. A stored template may
// be rendered to one, too; with a target that is an error in any case.
func sourcePass(source []byte, template bool, target string) PassReason {
	if template && target == "" {
		return PassUnreadableBody
	}
	// The key cannot be written without these, so most bodies are not parsed.
	if !bytes.Contains(source, []byte("pit")) && !bytes.Contains(source, []byte(`\u`)) && bytes.IndexByte(source, 0) < 0 {
		return PassNone
	}
	pit, readable := HasTopLevelPIT(source)
	switch {
	case !readable || template:
		return PassUnreadableBody
	case pit:
		return PassPIT
	default:
		return PassNone
	}
}

// headerKey has a bit for each key of a header line; spellings of one key share it.
type headerKey uint16

const (
	keyIndex headerKey = 1 << iota
	keyRouting
	keyPreference
	keyExpandWildcards
	keyIgnoreThrottled
	keySearchType
	keyMinimizeRoundtrips
	keyRequestCache
	keyPartialResults
	keyIgnoreUnavailable
	keyAllowNoIndices
	keyCancelAfter
	keyPhaseTook
	keyType
)

// headerKeyOf returns 0 for a key that some engine rejects.
func headerKeyOf(key []byte) headerKey {
	switch string(key) {
	case "index", "indices":
		return keyIndex
	case "routing":
		return keyRouting
	case preferenceParam:
		return keyPreference
	case "expand_wildcards", "expandWildcards":
		return keyExpandWildcards
	case "ignore_throttled", "ignoreThrottled":
		return keyIgnoreThrottled
	case "search_type", "searchType":
		return keySearchType
	case "ccs_minimize_roundtrips", "ccsMinimizeRoundtrips":
		return keyMinimizeRoundtrips
	case "request_cache", "requestCache":
		return keyRequestCache
	case "allow_partial_search_results":
		return keyPartialResults
	case "ignore_unavailable", "ignoreUnavailable":
		return keyIgnoreUnavailable
	case "allow_no_indices", "allowNoIndices":
		return keyAllowNoIndices
	case "cancel_after_time_interval", "cancelAfterTimeInterval":
		return keyCancelAfter
	case "phase_took":
		return keyPhaseTook
	case "type", "types":
		return keyType
	default:
		return 0
	}
}

// readHeader reads one header line. Offsets are those in the line.
func readHeader(line []byte, r Request) Item {
	item, expands := Item{Target: r.Target, Routing: r.Routing}, r.Expands
	next, seen, ok := eachHeaderKey(line, func(s *scanner, key headerKey) (ok bool) {
		switch key {
		case 0:
			return false
		case keyPreference:
			item.at.from = s.i
			item.Preference, ok = s.plainText()
			item.at.to = s.i
			return ok
		}
		return s.headerValue(key, &item.Target, &item.Routing, &expands)
	})
	if !ok {
		return Item{Pass: PassUnreadableHeader}
	}
	if seen&keyPreference == 0 {
		item.at = next
	}
	switch {
	case seen&keyType != 0:
		item.Pass = PassTypedPath
	case isKeyword(item.Preference):
		item.Pass = PassClientPreference
	default:
		item.Pass = targetPass(item.Target, expands)
	}
	return item
}

// eachHeaderKey reads a header line. It calls value with each key, which reads the value, and reports whether
// engines read it so, too. next is where one more key is written. ok is false for what engines may read otherwise.
func eachHeaderKey(line []byte, value func(*scanner, headerKey) bool) (next spot, seen headerKey, ok bool) {
	if len(line) == 0 {
		return spot{form: formObject}, 0, true
	}
	s := scanner{b: line}
	if !json.Valid(line) || !utf8.Valid(line) || s.expect('{') != scanOK {
		return next, 0, false
	}
	next.form = formFirst
	st := s.members(func(key []byte) status {
		next.form = formNext
		which := headerKeyOf(key)
		if seen&which != 0 || !value(&s, which) {
			return scanBad
		}
		seen |= which
		return scanOK
	})
	next.from, next.to = s.i-1, s.i-1
	return next, seen, st == scanOK
}

// headerValue reads the value of a key of a header line; false if engines may read it differently.
func (s *scanner) headerValue(key headerKey, target, routing *string, expands *bool) (ok bool) {
	switch key {
	case keyIndex:
		*target, ok = s.nameList()
	case keyRouting:
		*routing, ok = s.routing()
	case keyExpandWildcards:
		var states string
		states, ok = s.nameList()
		*expands = *expands || states != "open"
	case keyIgnoreThrottled:
		*expands, ok = true, s.skip() == scanOK
	default:
		ok = s.skip() == scanOK
	}
	return ok
}

// plainText reads a string. It rejects lone surrogates, which engines keep and Go does
// not.
func (s *scanner) plainText() (string, bool) {
	text, st := s.text()
	if st != scanOK || bytes.ContainsRune(text, utf8.RuneError) {
		return "", false
	}
	return string(text), true
}

// nameList reads a string, or a list of strings as one string with commas. It fails if an
// element contains a comma, which is then part of a name.
func (s *scanner) nameList() (string, bool) {
	c, st := s.peek()
	if st != scanOK || c != '[' {
		return s.plainText()
	}
	var names []string
	st = s.array(func() status {
		name, ok := s.plainText()
		if !ok || name == "" || strings.IndexByte(name, ',') >= 0 {
			return scanBad
		}
		names = append(names, name)
		return scanOK
	})
	return strings.Join(names, ","), st == scanOK
}

// targetPass returns the reason why searches on a target pass in any case. expands says
// that wildcards match other indices than by default.
func targetPass(target string, expands bool) PassReason {
	switch {
	case isBlankList(target):
		return PassAmbiguousQuery
	case hasRemote(target):
		return PassRemoteTarget
	case expands && isPattern(target):
		return PassIndicesOptions
	default:
		return PassNone
	}
}

// SetPreferences returns the body of a multi-search with the preferences, which are
// parallel to items as [MultiSearch] found them. Items with an empty preference, and all
// other bytes, stay unchanged.
func SetPreferences(body []byte, items []Item, preferences []string) []byte {
	size := len(body)
	for i := range items {
		if p := preferences[i]; p != "" {
			size += len(p) + len(`{"preference":""}`) // at most
		}
	}
	out := make([]byte, 0, size)
	copied := 0
	for i, item := range items {
		if preferences[i] == "" {
			continue
		}
		out = item.at.open(append(out, body[copied:item.at.from]...), preferenceParam)
		out = item.at.end(appendText(out, preferences[i]))
		copied = item.at.to
	}
	return append(out, body[copied:]...)
}

// appendText appends s as a JSON string.
func appendText(out []byte, s string) []byte {
	if strings.IndexFunc(s, func(c rune) bool { return c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf }) < 0 {
		out = append(out, '"')
		out = append(out, s...)
		return append(out, '"')
	}
	quoted, _ := json.Marshal(s) //nolint:errchkjson // a string always marshals
	return append(out, quoted...)
}
