package main

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
)

// differ says how two answers to the same request differ, "" if a client could not
// tell them apart.
//
// Compared are the status, every header but Content-Length (its presence is; its
// value follows the length of the took, and is compared where there is no body) and
// the measurements in Task_resource_usage, and the body after the transfer coding. Of the body everything counts, byte for
// byte, but what is another one each time (see [mask]) and, in JSON, the order of
// hits that the engine holds equal (see [hitsDiffer]).
func differ(want, got answer, r request) string {
	switch {
	case want.err != nil && (got.err != nil || got.status == http.StatusBadGateway):
		return "" // the engine hangs up, and sidestep does, too, or says so
	case want.err != nil || got.err != nil:
		return fmt.Sprintf("error: %v, through sidestep: %v", want.err, got.err)
	case want.status != got.status:
		return fmt.Sprintf("status: %d, through sidestep: %d", want.status, got.status)
	}
	if d := headersDiffer(want, got, r.method); d != "" {
		return d
	}
	a, b := want.masked(), got.masked()
	if r.operation == bulkOperation {
		a, b = placeless(a), placeless(b)
	}
	if bytes.Equal(a, b) || strings.Contains(want.header.Get("Content-Type"), "smile") && equalSmile(a, b) {
		return ""
	}
	switch kind := want.header.Get("Content-Type"); {
	case strings.Contains(kind, "json"):
		return jsonDiffers(a, b, r)
	case want.status >= http.StatusBadRequest && (strings.Contains(kind, "cbor") || strings.Contains(kind, "smile") || strings.Contains(kind, "yaml")):
		return "" // the words of errors vary, see masks; JSON shows what is the same
	}
	return "body: " + firstDifference(a, b)
}

// headersDiffer compares the heads of two answers.
func headersDiffer(want, got answer, method string) string {
	names := map[string]bool{}
	for _, h := range []http.Header{want.header, got.header} {
		for name := range h {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		a, b := want.header.Values(name), got.header.Values(name)
		switch name {
		case "Task_resource_usage":
			continue // what OpenSearch's nodes measured, on continuing a scroll
		case "Content-Length":
			if len(a) == len(b) && (method != http.MethodHead || slices.Equal(a, b)) {
				continue
			}
		case "Allow": // methods have no order
			a, b = methods(a), methods(b)
		case "Warning": // several have no order
			a, b = lasting(a), lasting(b)
		case "Location":
			a, b = maskAll(a), maskAll(b)
		}
		if !slices.Equal(a, b) {
			return fmt.Sprintf("header %s: %q, through sidestep: %q", name, a, b)
		}
	}
	return ""
}

// lasting returns the warnings that a node gives each time, in order. A node of OpenSearch
// warns of something deprecated once, and not again until it restarts (seen on 3.6.0): which
// client is told depends on which node it asks. Those of Elasticsearch are all compared.
func lasting(warnings []string) []string {
	each := slices.DeleteFunc(slices.Clone(warnings), func(w string) bool { return strings.HasPrefix(w, "299 OpenSearch-") })
	return slices.Sorted(slices.Values(each))
}

// methods are those of an Allow header, in order.
func methods(values []string) []string {
	return slices.Sorted(strings.SplitSeq(strings.Join(values, ","), ","))
}

func maskAll(values []string) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = autoID.ReplaceAllString(v, "_doc/_")
	}
	return out
}

// autoID is the id that the engine gives a document that has none.
var autoID = regexp.MustCompile(`_doc/[A-Za-z0-9_-]{20}`)

// masked returns the decoded body without what is another one each time.
func (a answer) masked() []byte {
	body, ok := decoded(a.header.Get("Content-Encoding"), a.body)
	if !ok {
		return a.body
	}
	return mask(a.header.Get("Content-Type"), body)
}

// decoded undoes the codings that the engines know. What does not decode is
// compared as it came.
func decoded(coding string, body []byte) ([]byte, bool) {
	var r io.Reader
	var err error
	switch strings.ToLower(coding) {
	case "":
		return body, true
	case "snappy":
		r = s2.NewReader(bytes.NewReader(body))
	case "zstd":
		var z *zstd.Decoder
		if z, err = zstd.NewReader(bytes.NewReader(body)); err == nil {
			defer z.Close()
			r = z
		}
	case "gzip":
		r, err = gzip.NewReader(bytes.NewReader(body))
	case "deflate":
		if r, err = zlib.NewReader(bytes.NewReader(body)); err != nil {
			r, err = flate.NewReader(bytes.NewReader(body)), nil
		}
	default:
		return nil, false
	}
	if err != nil {
		return nil, false
	}
	plain, err := io.ReadAll(r)
	return plain, err == nil
}

// masks are the parts of a JSON or YAML body that are another one each time.
var masks = []struct {
	what *regexp.Regexp
	with string
}{
	// How long it took, who served it, how many shards were found not to match (the
	// engine looks only while it has time), the time something was opened at.
	{regexp.MustCompile(`("(?:took|skipped|creation_time|start_time_in_millis|expiration_time_in_millis|completion_time_in_millis)"\s*:\s*)-?\d+`), `${1}0`},
	{regexp.MustCompile(`("(?:node|_node|_scroll_id|scroll_id|pit_id|index_uuid|uuid)"\s*:\s*)"(?:\\.|[^"\\])*"`), `${1}""`},
	{regexp.MustCompile(`("id"\s*:\s*)"[A-Za-z0-9_=+/-]{40,}"`), `${1}""`},    // of a point in time
	{regexp.MustCompile(`("_id"\s*:\s*)"[A-Za-z0-9_-]{20}"`), `${1}""`},       // given by the engine
	{regexp.MustCompile(`("stack_trace"\s*:\s*)"(?:\\.|[^"\\])*"`), `${1}""`}, // local or remote, which thread
	// An exception that crosses nodes loses its type, which then stands in its reason.
	{regexp.MustCompile(`("reason"\s*:\s*")(?:[a-z_]+_exception: )+`), `${1}`},
	// The root of a query that does not parse is what the parser says if the copy that
	// was tried last is on another node, else what the shard says. Seen with searches
	// that sidestep passes as they came.
	{regexp.MustCompile(`("type"\s*:\s*)"query_shard_exception"`), `${1}"parse_exception"`},
	{regexp.MustCompile(`("type"\s*:\s*)"json_e_o_f_exception"`), `${1}"i_o_exception"`},
	{regexp.MustCompile(`("type"\s*:\s*)"x_content_e_o_f_exception"`), `${1}"illegal_argument_exception"`},
	// What the parser read from: the text itself if it came in one piece.
	{regexp.MustCompile(`(\[Source: )\(.*?(; line: \d+, column: \d+\])`), `${1}${2}`},
	{regexp.MustCompile(`("name"\s*:\s*)"node-\d"`), `${1}""`},         // who answers GET /
	{regexp.MustCompile(`(\[[^\[\]/]+/)[A-Za-z0-9_-]{22}\]`), `${1}]`}, // the id of an index
	{regexp.MustCompile(`(No search context found for id )\[\d+\]`), `${1}[]`},
	{regexp.MustCompile(`(weight\([^()]*:[^()]* in )\d+\)`), `${1}0)`}, // the number of a document in its copy
	{regexp.MustCompile(`(?m)^(\s*(?:took|skipped): )\d+$`), `${1}0`},
	{regexp.MustCompile(`(?m)^(\s*_?node: )".*"$`), `${1}""`},
}

// mask takes out of a body what is another one each time.
func mask(contentType string, body []byte) []byte {
	switch {
	case strings.Contains(contentType, "cbor"):
		return nodeIDs.ReplaceAll(dropInts(body, "dtook", "gskipped", cborInt), []byte("$1"))
	case strings.Contains(contentType, "smile"):
		return nodeIDs.ReplaceAll(dropInts(body, "\x83took", "\x86skipped", smileInt), []byte("$1"))
	}
	for _, m := range masks {
		body = m.what.ReplaceAll(body, []byte(m.with))
	}
	return body
}

// nodeIDs are texts of 22 characters in CBOR and SMILE, as ids of nodes are: errors
// name the one whose copy failed.
var nodeIDs = regexp.MustCompile(`([vU])[A-Za-z0-9_-]{22}`)

// dropInts drops the number after each of two keys, as they are encoded.
func dropInts(body []byte, first, second string, length func([]byte) int) []byte {
	for _, key := range []string{first, second} {
		at := bytes.Index(body, []byte(key))
		if at < 0 {
			continue
		}
		at += len(key)
		body = slices.Concat(body[:at], body[at+min(length(body[at:]), len(body)-at):])
	}
	return body
}

// cborInt returns how long the encoded number is that b starts with.
func cborInt(b []byte) int {
	if len(b) == 0 || b[0] < 0x18 || b[0] > 0x1b {
		return 1
	}
	return 1 + 1<<(b[0]-0x18)
}

// smileInt returns how long the encoded number is that b starts with.
func smileInt(b []byte) int {
	if len(b) == 0 || b[0] != 0x24 && b[0] != 0x25 {
		return 1 // it is part of the token
	}
	for i := 1; i < len(b); i++ {
		if b[i]&0x80 != 0 { // the last byte of a number has the sign
			return i + 1
		}
	}
	return len(b)
}

// equalSmile compares SMILE, in which a short ASCII text is written as ASCII or as
// Unicode: as the engine has it at hand as text or as bytes, from this node or another
// one. The two tokens of texts of the same length differ by 0x3f.
func equalSmile(a, b []byte) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		ascii, unicode := min(a[i], b[i]), max(a[i], b[i])
		if ascii != unicode && (unicode-ascii != 0x3f || unicode < 0x80 || unicode > 0xbf) {
			return false
		}
	}
	return true
}

// firstDifference shows where two bodies part.
func firstDifference(a, b []byte) string {
	at := 0
	for at < len(a) && at < len(b) && a[at] == b[at] {
		at++
	}
	from := max(0, at-60)
	return fmt.Sprintf("at byte %d: %.160q, through sidestep: %.160q", at, a[from:], b[from:])
}
