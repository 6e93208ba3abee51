package es

import (
	"strings"
	"unicode/utf8"
)

const preferenceParam = "preference"

// param is one parameter of a query string, still percent-encoded. It is between these
// offsets. A parameter without `=` has an empty value.
type param struct {
	name, value string
	start, end  int
}

// nextParam reads the first parameter at or after pos as the engines do: `&` and
// `;` separate, `=` signs before the name are skipped, nameless parameters do
// not exist. next is -1 when there was none left.
func nextParam(query string, pos int) (p param, next int) {
	for pos < len(query) {
		start, end := pos, pos
		for end < len(query) && query[end] != '&' && query[end] != ';' {
			end++
		}
		pos = end + 1
		for start < end && query[start] == '=' {
			start++
		}
		if start == end {
			continue
		}
		p = param{start: start, end: end}
		p.name, p.value, _ = strings.Cut(query[start:end], "=")
		return p, pos
	}
	return param{}, -1
}

// decode undoes the percent-encoding as the engines do: `%%` is `%`, and `+` is a
// space in a query but not in a path. ok is false for what the engines reject
// and for what is not plain UTF-8 once decoded: they would replace bytes. Raw
// bytes beyond ASCII are in the same class, engines disagree on their charset.
func decode(s string, plusIsSpace bool) (decoded string, ok bool) {
	plain := true
	for i := range len(s) {
		c := s[i]
		if c >= utf8.RuneSelf {
			return "", false
		}
		if c == '%' || (c == '+' && plusIsSpace) {
			plain = false
		}
	}
	if plain {
		return s, true
	}
	buf := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '+' && plusIsSpace:
			buf = append(buf, ' ')
		case s[i] != '%':
			buf = append(buf, s[i])
		case i+1 < len(s) && s[i+1] == '%':
			buf = append(buf, '%')
			i++
		case i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]):
			buf = append(buf, unhex(s[i+1])<<4|unhex(s[i+2]))
			i += 2
		default:
			return "", false
		}
	}
	if !utf8.Valid(buf) {
		return "", false
	}
	return string(buf), true
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func unhex(c byte) byte {
	switch {
	case c <= '9':
		return c - '0'
	case c <= 'F':
		return c - 'A' + 10
	default:
		return c - 'a' + 10
	}
}

// SetPreference returns rawQuery with the preference parameter set to value: the
// value of an existing one is replaced in place, else the parameter is appended.
// Every byte that does not belong to it stays as it was.
func SetPreference(rawQuery, value string) string {
	// The engines read no further than a fragment.
	query, fragment := rawQuery, ""
	if i := strings.IndexByte(rawQuery, '#'); i >= 0 {
		query, fragment = rawQuery[:i], rawQuery[i:]
	}
	var out strings.Builder
	out.Grow(len(rawQuery) + len("&preference=") + encodedLen(value))
	write := func(name string) {
		out.WriteString(name)
		out.WriteByte('=')
		writeEncoded(&out, value)
	}
	if !editParam(&out, query, preferenceParam, func(p param) { write(p.name) }) {
		if query != "" {
			out.WriteByte('&')
		}
		write(preferenceParam)
	}
	out.WriteString(fragment)
	return out.String()
}

// editParam writes a query string to out, with what write writes in place of each parameter of this name. It reports
// whether there is one.
func editParam(out *strings.Builder, query, name string, write func(param)) (found bool) {
	copied := 0
	for p, next := nextParam(query, 0); next >= 0; p, next = nextParam(query, next) {
		if decoded, _ := decode(p.name, true); decoded == name {
			out.WriteString(query[copied:p.start])
			write(p)
			copied, found = p.end, true
		}
	}
	out.WriteString(query[copied:])
	return found
}

func encodedLen(s string) int {
	n := len(s)
	for i := range len(s) {
		if !isLiteral(s[i]) {
			n += 2
		}
	}
	return n
}

func writeEncoded(out *strings.Builder, s string) {
	const hex = "0123456789ABCDEF"
	for i := range len(s) {
		if c := s[i]; isLiteral(c) {
			out.WriteByte(c)
		} else {
			out.WriteByte('%')
			out.WriteByte(hex[c>>4])
			out.WriteByte(hex[c&0xf])
		}
	}
}

// isLiteral says that a byte may stand unencoded in a parameter value: legal in
// a query (RFC 3986) and without meaning to the engines' parsers.
func isLiteral(c byte) bool {
	switch c {
	case '-', '_', '.', '~', ':', ',', '*', '@', '/', '!', '$', '(', ')':
		return true
	}
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
