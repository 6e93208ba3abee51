package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sidestep/test/harness"
)

// variant is a further sidestep with a routing of its own, and a load through it.
type variant struct {
	name    string
	routing map[string]string // keys of the configuration's section routing
}

// shorthand are values that say by themselves which key they are for.
var shorthand = map[string]string{
	"always": "when", "outlier": "when", "only_nodes": "preference", "prefer_nodes": "preference",
}

// plain matches what is a YAML scalar without quotes, and a key.
var plain = regexp.MustCompile(`^[A-Za-z0-9_.]+$`)

// parseVariants reads "always/only_nodes,calm=always/hedge_budget:0": a
// comma list, each a list of values with or without their keys, with a name or
// called what it says.
func parseVariants(list string) ([]variant, error) {
	if list == "" {
		return nil, nil
	}
	taken := []string{loadEngine, loadSidestep, loadOracle, loadControl}
	var out []variant
	for text := range strings.SplitSeq(list, ",") {
		name, settings, named := strings.Cut(text, "=")
		if !named {
			settings = name
		}
		v := variant{name: name, routing: map[string]string{}}
		for setting := range strings.SplitSeq(settings, "/") {
			key, value, keyed := strings.Cut(setting, ":")
			if !keyed {
				key, value = shorthand[setting], setting
			}
			if !plain.MatchString(key) || !plain.MatchString(value) {
				return nil, fmt.Errorf("variant %q: %q is neither always, outlier, only_nodes or prefer_nodes nor key:value", text, setting)
			}
			v.routing[key] = value
		}
		if name == "" || slices.Contains(taken, name) {
			return nil, fmt.Errorf("variant %q: its name is empty or taken", text)
		}
		taken = append(taken, name)
		out = append(out, v)
	}
	return out, nil
}

// fileName is a name that a file can have.
func fileName(load string) string {
	return regexp.MustCompile(`[^A-Za-z0-9_.]+`).ReplaceAllString(load, "-")
}

// configPath is where the configuration of the variant is, so that it can be run
// again by hand.
func (o options) configPath(v variant) string {
	return filepath.Join(o.trace, "chaos-"+o.Engine+"-"+fileName(v.name)+".yaml")
}

// checkVariants writes the variants' configurations and has sidestep read them:
// before a cluster is started for nothing.
func (o options) checkVariants(ctx context.Context) error {
	for _, v := range o.variants {
		path := o.configPath(v)
		if err := harness.WriteConfig(path, v.routing); err != nil {
			return err
		}
		if err := harness.CheckConfig(ctx, o.Sidestep, path); err != nil {
			return fmt.Errorf("variant %s: %w", v.name, err)
		}
	}
	return nil
}

// stopFronts stops every sidestep and moves its log to where the slowest searches
// are told of.
func (s *stage) stopFronts() error {
	var errs []error
	for _, f := range s.Fronts {
		errs = append(errs, f.Stop(), f.Panicked())
		log, err := os.ReadFile(f.LogPath)
		if err == nil {
			path := filepath.Join(s.trace, "chaos-"+s.Engine+"-"+fileName(strings.Trim(s.shape.name+" "+f.Name, " "))+".log")
			err = errors.Join(os.MkdirAll(s.trace, 0o755), os.WriteFile(path, log, 0o644))
		}
		if err == nil {
			err = os.Remove(f.LogPath)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
