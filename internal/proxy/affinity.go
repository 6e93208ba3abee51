package proxy

import (
	"hash/fnv"
	"regexp"
	"strings"

	"sidestep/internal/es"
)

// Affinity says which searches keep to the same copies.
type Affinity struct {
	// Strings has searches with a custom string as preference keep to copies by that
	// string. Without it they pass.
	Strings bool
	// Indices are names of targets, with * as wildcard. Searches on them without a
	// preference keep to copies by their target.
	Indices []string
}

// affinity is Affinity with its patterns compiled.
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
// expression all of whose elements match a pattern. Exclusions are not matched, as they
// only narrow the target.
func matchTargets(patterns []string) *regexp.Regexp {
	quoted := make([]string, len(patterns))
	for i, pattern := range patterns {
		quoted[i] = strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, `[^,]*`)
	}
	one := strings.Join(quoted, "|")
	return regexp.MustCompile(`^(?:` + one + `)(?:,(?:-[^,]*|` + one + `))*$`)
}

// passes reports whether the preference of r is left to the engine.
func (a affinity) passes(r es.Request) bool {
	return r.Pass == es.PassNone && r.Preference != "" && !a.strings
}

// key returns the hash by which r keeps to copies; 0 if it does not. sticky says that it
// must be steered even where the engine's own selection would decide: the engine honours
// a custom string by itself, but knows no affinity by target.
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

// hash is the same in every sidestep and after every restart, so that all of them choose
// the same copies. It is never 0.
func hash(s string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s)) // never fails
	return max(1, h.Sum64())
}
