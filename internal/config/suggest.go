package config

import (
	"fmt"
	"reflect"
	"strings"
)

// Keys returns the path of every key that takes a value, in the order of the
// schema.
func Keys() []string {
	return keysOf(reflect.TypeFor[Config](), "")
}

func keysOf(section reflect.Type, path string) []string {
	var keys []string
	for i := range section.NumField() {
		field := section.Field(i)
		key := join(path, field.Tag.Get("yaml"))
		if field.Type.Kind() == reflect.Struct {
			keys = append(keys, keysOf(field.Type, key)...)
			continue
		}
		keys = append(keys, key)
	}
	return keys
}

// suggestion returns the key that was probably meant: one with a similar spelling in the
// same section, or the same word in another section.
func suggestion(section, key string) string {
	best, bestDistance := "", 1+max(1, len(key)/3)
	for _, known := range withSections(Keys()) {
		parent, name := split(known)
		distance := editDistance(strings.ToLower(key), name)
		if strings.HasPrefix(name, key+"_") {
			distance = 1 // password for password_file
		}
		if parent != section {
			distance++ // a key of the same section is the likelier one
		}
		if distance < bestDistance {
			best, bestDistance = known, distance
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// withSections adds the paths of the sections themselves to those of the keys.
func withSections(keys []string) []string {
	var all []string
	seen := make(map[string]bool)
	for _, key := range keys {
		for i, char := range key {
			if char == '.' && !seen[key[:i]] {
				seen[key[:i]] = true
				all = append(all, key[:i])
			}
		}
		all = append(all, key)
	}
	return all
}

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
