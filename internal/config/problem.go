package config

import (
	"cmp"
	"errors"
	"io/fs"
	"slices"
	"strings"
)

// Problem is one thing wrong with a configuration.
type Problem struct {
	// Path is the key, such as "upstream.urls[0]"; empty when the file as a whole
	// is unreadable.
	Path string
	// Origin is where the value came from: "sidestep.yaml:12", "--listen", or
	// empty for a default.
	Origin string
	// Message says what is wrong and what would be right, in a few words.
	Message string
	// Cause is why a file cannot be read or opened; nil if what is written is wrong.
	Cause error

	line int
}

// Unwrap returns the cause.
func (p *Problem) Unwrap() error { return p.Cause }

// Error is origin, path and message, separated by colons.
func (p *Problem) Error() string {
	parts := make([]string, 0, 3)
	for _, part := range []string{p.Origin, p.Path, p.Message} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, ": ")
}

// Join returns the problems as one error with a line for each, those of a file
// in the order of its lines; nil if there is none.
func Join(problems ...*Problem) error {
	slices.SortStableFunc(problems, func(a, b *Problem) int { return cmp.Compare(a.line, b.line) })
	errs := make([]error, len(problems))
	for i, p := range problems {
		errs[i] = p
	}
	return errors.Join(errs...)
}

// Unreadable reports whether all that err holds is that files cannot be read or opened. That
// may pass by itself, unlike what is written in them.
func Unreadable(err error) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return !slices.ContainsFunc(joined.Unwrap(), func(one error) bool { return !Unreadable(one) })
	}
	_, unreadable := errors.AsType[*fs.PathError](err)
	return unreadable
}
