package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"sidestep/test/harness"
)

// The arms. Those of sidestep are named like the values of admission.mode.
const (
	armDirect  = "direct"
	armControl = "control"
	armOff     = "off"
	armAuto    = "auto"
	armTarget  = "target"
	armRate    = "rate" // auto, and a bound to the rate of the flood
)

// arm is one way to send searches.
type arm struct {
	name   string
	binary string // of sidestep; empty: the client goes to the nodes itself
	config string // its configuration; empty: the defaults
	alone  bool   // without the flood
}

// direct reports whether the client goes to the nodes itself.
func (a arm) direct() bool { return a.binary == "" && !a.relay() }

// relay reports whether the client goes through HAProxy.
func (a arm) relay() bool { return strings.TrimSuffix(a.name, alone) == armRelay }

// targetResponseTime is what the arm target is given.
const targetResponseTime = "250ms"

// variant is a further sidestep.
type variant struct {
	name, binary string
	keys         map[string]string
}

// modes are the sidesteps that differ in their admission.
func (o options) modes() []variant {
	all := []variant{
		{name: armOff, keys: map[string]string{"admission.mode": `"off"`}},
		{name: armAuto, keys: map[string]string{"admission.mode": "auto"}},
		{name: armTarget, keys: map[string]string{"admission.mode": "target", "admission.target_response_time": targetResponseTime}},
	}
	if o.flood == 0 {
		return all
	}
	return append(all, variant{name: armRate, keys: map[string]string{"admission.mode": "auto"}})
}

// parseVariants reads "a=routing.hedge_budget:0+cluster.stats_timeout:9s b=binary:/old".
func parseVariants(list string) ([]variant, error) {
	var all []variant
	for text := range strings.FieldsSeq(list) {
		name, settings, named := strings.Cut(text, "=")
		if !named || name == "" {
			return nil, fmt.Errorf("variant %q: want name=key:value", text)
		}
		v := variant{name: name, keys: map[string]string{}}
		for setting := range strings.SplitSeq(settings, "+") {
			key, value, keyed := strings.Cut(setting, ":")
			switch {
			case !keyed || key == "" || value == "":
				return nil, fmt.Errorf("variant %q: %q is not key:value", text, setting)
			case key == "binary":
				v.binary = value
			default:
				v.keys[key] = value
			}
		}
		all = append(all, v)
	}
	return all, nil
}

// write writes the configuration of a variant.
func (v variant) write(path string) error {
	root := map[string]any{}
	for key, text := range v.keys {
		var value any
		if err := yaml.Unmarshal([]byte(text), &value); err != nil {
			return fmt.Errorf("%s: %s: %w", v.name, key, err)
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
		return fmt.Errorf("%s: %w", v.name, err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return fmt.Errorf("%s: %w", v.name, err)
	}
	return nil
}

// findArms returns the arms of a run. A mode of admission that the binary does not know is
// left out; off is what it does then.
func (o options) findArms(ctx context.Context, dir string, logf func(string, ...any)) ([]arm, error) {
	wanted := []string{armDirect, armControl, armOff, armAuto, armTarget, armRate}
	if o.arms != "" {
		wanted = strings.Split(o.arms, ",")
	}
	var arms []arm
	for _, name := range []string{armDirect, armControl, armRelay} {
		if slices.Contains(wanted, name) {
			arms = append(arms, arm{name: name})
		}
	}
	for _, v := range o.modes() {
		if !slices.Contains(wanted, v.name) {
			continue
		}
		a, err := o.arm(ctx, v, dir)
		switch {
		case err == nil:
			arms = append(arms, a)
		case v.name == armOff:
			logf("sidestep knows no admission: %s is its default", v.name)
			arms = append(arms, arm{name: v.name, binary: o.Sidestep})
		default:
			logf("%s is left out: %v", v.name, err)
		}
	}
	variants, err := parseVariants(o.variants)
	if err != nil {
		return nil, err
	}
	for _, v := range variants {
		a, err := o.arm(ctx, v, dir)
		if err != nil {
			return nil, err
		}
		arms = append(arms, a)
	}
	if len(arms) == 0 || !slices.ContainsFunc(arms, func(a arm) bool { return a.name == armDirect }) {
		return nil, errors.New("no arms to compare: want direct and others")
	}
	return o.withAlone(arms), nil
}

// arm writes the configuration of a variant and has its sidestep read it.
func (o options) arm(ctx context.Context, v variant, dir string) (arm, error) {
	a := arm{name: v.name, binary: v.binary, config: filepath.Join(dir, v.name+".yaml")}
	if a.binary == "" {
		a.binary = o.Sidestep
	}
	if o.flood > 0 {
		v.keys["admission.classes"] = o.classes(v.name == armRate)
	}
	if err := v.write(a.config); err != nil {
		return a, err
	}
	return a, harness.CheckConfig(ctx, a.binary, a.config)
}
