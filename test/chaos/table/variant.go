package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"sidestep/test/harness"
)

// further returns the sidesteps of the variants, which must know their keys: before a cluster is
// started for nothing.
func (o options) further(ctx context.Context) ([]harness.Sidestep, error) {
	var all []harness.Sidestep
	for _, v := range o.variants {
		text, err := v.Config()
		if err != nil {
			return nil, err
		}
		if err := harness.CheckConfig(ctx, cmp.Or(v.Binary, o.Sidestep), text); err != nil {
			return nil, fmt.Errorf("variant %s: %w", v.Name, err)
		}
		all = append(all, harness.Sidestep{Name: v.Name, Binary: v.Binary, Config: text})
	}
	return all, nil
}

// odd matches what a file's name had better not have.
var odd = regexp.MustCompile(`[^A-Za-z0-9_.]+`)

// stopFronts stops every sidestep and moves its log to where the slowest searches
// are told of.
func (s *stage) stopFronts() error {
	var errs []error
	for _, f := range s.Fronts {
		name := odd.ReplaceAllString(strings.Trim(s.shape.name+" "+f.Name, " "), "-")
		errs = append(errs, f.Stop(), f.Panicked(), f.MoveLog(filepath.Join(s.trace, "chaos-"+s.Engine+"-"+name+".log")))
	}
	return errors.Join(errs...)
}
