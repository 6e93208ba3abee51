package config

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// keys returns the path of every key, sections too, in the order of the schema. In a list the elements have the path "list[]".
func keys() []string {
	return keysOf(reflect.TypeFor[Config](), "")
}

func keysOf(section reflect.Type, path string) []string {
	var all []string
	for i := range section.NumField() {
		field := section.Field(i)
		key := join(path, field.Tag.Get("yaml"))
		all = append(all, key)
		switch section := field.Type; {
		case section.Kind() == reflect.Struct:
			all = append(all, keysOf(section, key)...)
		case section.Kind() == reflect.Slice && section.Elem().Kind() == reflect.Struct:
			all = append(all, keysOf(section.Elem(), key+"[]")...)
		}
	}
	return all
}

// element is the number of an element in a path.
var element = regexp.MustCompile(`\[\d+\]`)

// suggestion returns the key that was probably meant: one with a similar spelling in the
// same section, or the same word in another section. In an element of a list it is one of that.
func suggestion(section, key string) string {
	schema := element.ReplaceAllString(section, "[]")
	// The documents write routing.mode for the key mode in the section routing, and so may users.
	if parent, name := split(join(section, key)); parent != section && slices.Contains(keys(), join(schema, key)) {
		return fmt.Sprintf("; write it as %q in the section %q", name, parent)
	}
	best, bestDistance := "", 1+max(1, len(key)/3)
	for _, known := range keys() {
		if listOf(known) != listOf(schema) {
			continue
		}
		parent, name := split(known)
		distance := editDistance(strings.ToLower(key), name)
		if strings.HasPrefix(name, key) {
			distance = min(distance, 1) // password for password_file, user for username
		}
		if parent != schema {
			distance++ // a key of the same section is the likelier one
		}
		if distance < bestDistance {
			best, bestDistance = known, distance
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", listOf(section)+strings.TrimPrefix(best, listOf(best)))
}

// listOf returns the path of the list element that path is in; empty if it is in none.
func listOf(path string) string { return path[:strings.LastIndexByte(path, ']')+1] }

func split(path string) (section, name string) {
	if i := strings.LastIndexByte(path, '.'); i >= 0 {
		return path[:i], path[i+1:]
	}
	return "", path
}

// editDistance is the Levenshtein distance of two ASCII words.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j]+1, row[j+1]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
