package harness

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Variant is a sidestep that is compared with others in one run.
type Variant struct {
	Name   string
	Binary string            // another one than the run's; empty: that one
	Keys   map[string]string // of the configuration, "section.key" to a value in YAML
}

// VariantList says how a flag lists variants.
const VariantList = "a space separated `list`: name=key:value+key:value, with keys of the configuration, or binary:PATH"

// ParseVariants reads "a=routing.hedge_budget:0+cluster.stats_timeout:9s b=binary:/old". A name
// that is there twice, or taken, is an error.
func ParseVariants(list string, taken ...string) ([]Variant, error) {
	var all []Variant
	for text := range strings.FieldsSeq(list) {
		name, settings, named := strings.Cut(text, "=")
		if !named || name == "" {
			return nil, fmt.Errorf("variant %q: want name=key:value", text)
		}
		if slices.Contains(taken, name) {
			return nil, fmt.Errorf("variant %q: its name is taken", text)
		}
		taken = append(taken, name)
		v := Variant{Name: name, Keys: map[string]string{}}
		for setting := range strings.SplitSeq(settings, "+") {
			key, value, keyed := strings.Cut(setting, ":")
			switch {
			case !keyed || key == "" || value == "":
				return nil, fmt.Errorf("variant %q: %q is not key:value", text, setting)
			case key == "binary":
				v.Binary = value
			default:
				v.Keys[key] = value
			}
		}
		all = append(all, v)
	}
	return all, nil
}

// Config is the text of the variant's configuration file.
func (v Variant) Config() (string, error) {
	root := map[string]any{}
	for key, text := range v.Keys {
		var value any
		if err := yaml.Unmarshal([]byte(text), &value); err != nil {
			return "", fmt.Errorf("%s: %s: %w", v.Name, key, err)
		}
		section := root
		parts := strings.Split(key, ".")
		for _, part := range parts[:len(parts)-1] {
			next, ok := section[part].(map[string]any)
			if !ok {
				next = map[string]any{}
				section[part] = next
			}
			section = next
		}
		section[parts[len(parts)-1]] = value
	}
	text, err := yaml.Marshal(root)
	if err != nil {
		return "", fmt.Errorf("%s: %w", v.Name, err)
	}
	return string(text), nil
}
