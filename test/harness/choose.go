package harness

import (
	"fmt"
	"slices"
	"strings"
)

// Names returns the names of all.
func Names[T any](all []T, name func(T) string) []string {
	names := make([]string, len(all))
	for i, one := range all {
		names[i] = name(one)
	}
	return names
}

// Choose returns those of all that a comma list names, in the order of all; all of them if
// the list is empty. what is their kind, for the error.
func Choose[T any](what, list string, all []T, name func(T) string) ([]T, error) {
	if list == "" {
		return all, nil
	}
	wanted, names := strings.Split(list, ","), Names(all, name)
	for _, one := range wanted {
		if !slices.Contains(names, one) {
			return nil, fmt.Errorf("no %s %q: want some of %s", what, one, strings.Join(names, ", "))
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(one T) bool { return !slices.Contains(wanted, name(one)) }), nil
}
