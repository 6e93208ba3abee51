package main

import (
	"fmt"
	"strconv"
	"strings"
)

// request is one HTTP request as it stands on the wire, but for whom it is sent to.
// In its target and body stand for what is known only when it is sent:
//
//	@side@    the side's own name: each side writes to indices of its own
//	@node1@   the node id of node-1, and so on
//	@scroll@  the scroll id of the answer before
//	@pit@     the point in time of the answer before
//
// In its text form and in curl commands @padding@ stands for a megabyte of blanks.
type request struct {
	operation string // as the report calls it
	method    string
	uri       string // path and query, percent-encoded
	header    []header
	body      string
	packed    bool // the body is compressed when it is sent
}

// header is one line of a request's head.
type header struct{ name, value string }

// conversation is what one client sends, one request after the other.
type conversation struct {
	number uint64
	steps  []request
	// writes says that the steps change something: they are sent once a side, and
	// to indices of the side's own.
	writes bool
}

// String is the stable text form of a conversation.
func (c conversation) String() string {
	var b strings.Builder
	for _, r := range c.steps {
		fmt.Fprintf(&b, "%s\n", r)
	}
	return b.String()
}

// String is the stable text form: one line, with bytes that do not print escaped.
func (r request) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-14s %s %s", r.operation, r.method, r.uri)
	for _, h := range r.header {
		fmt.Fprintf(&b, " [%s: %s]", h.name, h.value)
	}
	if r.packed {
		b.WriteString(" (gzip)")
	}
	if r.body != "" {
		b.WriteByte(' ')
		b.WriteString(strconv.Quote(strings.Replace(r.body, padding, "@padding@", 1)))
	}
	return b.String()
}

// padding makes a body larger than what is held for a second try.
var padding = strings.Repeat(" ", 1<<20) //nolint:gochecknoglobals // a constant, but for its length

// set replaces a header, or adds it.
func (r *request) set(name, value string) {
	for i := range r.header {
		if r.header[i].name == name {
			r.header[i].value = value
			return
		}
	}
	r.header = append(r.header, header{name, value})
}

// param appends to the query string, as it is.
func (r *request) param(text string) {
	separator := "?"
	if strings.Contains(r.uri, "?") {
		separator = "&"
	}
	r.uri += separator + text
}

// fill puts in what is known only when the request is sent.
func (r request) fill(values *strings.Replacer) request {
	r.uri = values.Replace(r.uri)
	r.body = values.Replace(r.body)
	return r
}

// curl is the command that sends the request to base.
func (r request) curl(base string) string {
	var b strings.Builder
	b.WriteString("curl -sS -i --path-as-is -g")
	if r.method == "HEAD" {
		b.WriteString(" --head")
	} else {
		b.WriteString(" -X " + r.method)
	}
	for _, h := range r.header {
		b.WriteString(" -H " + shellQuote(h.name+": "+h.value))
	}
	if r.body != "" {
		b.WriteString(" --data-binary " + shellQuote(strings.Replace(r.body, padding, "@padding@", 1)))
	}
	b.WriteString(" " + shellQuote(base+r.uri))
	return b.String()
}

// shellQuote quotes for bash. Bytes that do not print are written as \xHH.
func shellQuote(s string) string {
	plain := true
	for i := range len(s) {
		plain = plain && s[i] >= ' ' && s[i] < 0x7f && s[i] != '\''
	}
	if plain {
		return "'" + s + "'"
	}
	var b strings.Builder
	b.WriteString("$'")
	for i := range len(s) {
		switch c := s[i]; {
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\'' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c >= 0x7f:
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('\'')
	return b.String()
}
