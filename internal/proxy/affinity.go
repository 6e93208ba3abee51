package proxy

import (
	"hash/fnv"
	"regexp"
	"strings"

	"sidestep/internal/es"
)

// Affinity says which searches stick to the same copies.
type Affinity struct {
	// Strings: those with a preference that is a custom string, by that string.
	// Else they pass.
	Strings bool
	// Indices are names of targets, with * as wildcard. Searches on them without a
	// preference stick too, by their target.
	Indices []string
}

// affinity is Affinity made ready for use.
type affinity struct {
	strings bool
	targets *regexp.Regexp // nil: none
}

// newAffinity compiles the patterns.
func newAffinity(o Affinity) affinity {
	if len(o.Indices) == 0 {
		return affinity{strings: o.Strings}
	}
	return affinity{strings: o.Strings, targets: matchTargets(o.Indices)}
}

// matchTargets compiles patterns of names to one expression. It matches an index
// expression all of whose elements match a pattern; exclusions only narrow it.
func matchTargets(patterns []string) *regexp.Regexp {
	quoted := make([]string, len(patterns))
	for i, pattern := range patterns {
		quoted[i] = strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, `[^,]*`)
	}
	one := strings.Join(quoted, "|")
	return regexp.MustCompile(`^(?:` + one + `)(?:,(?:-[^,]*|` + one + `))*$`)
}

// passes reports whether the wish of r is left to the engine.
func (a affinity) passes(r es.Request) bool {
	return r.Pass == es.PassNone && r.Preference != "" && !a.strings
}

// key returns the hash of what r sticks to, 0 if to nothing. sticky says that it
// does so even where the engine would decide: the engine knows no such wish,
// whereas it keeps to a custom string by itself.
func (a affinity) key(r es.Request) (key uint64, sticky bool) {
	switch {
	case r.Preference != "":
		return hash(r.Preference), false
	case a.targets != nil && !r.Scroll && a.targets.MatchString(r.Target):
		return hash(r.Target), true
	default:
		return 0, false
	}
}

// hash is the same in every sidestep and after every restart: what sticks to a
// copy is to do so wherever it comes from. It is never 0.
func hash(s string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s)) // never fails
	return max(1, h.Sum64())
}
