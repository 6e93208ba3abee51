package client

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
)

// Printable returns text as it may be sent to a terminal. What it shows comes from the
// cluster, where a name may hold anything: characters that move the cursor, begin a
// command to the terminal, turn the direction of writing or cannot be seen become
// visible, one for one.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsGraphic(r) {
			return '�'
		}
		return r
	}, text)
}

// printableJSON is Printable for indented JSON: in its strings such characters are
// escaped, so that it holds the same.
func printableJSON(body []byte) string {
	var b strings.Builder
	for _, r := range string(body) {
		switch {
		case r == '\n' || unicode.IsGraphic(r):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}
