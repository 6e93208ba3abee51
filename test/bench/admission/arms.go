package main

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

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
	config string // text of its configuration; empty: the defaults
	alone  bool   // without the flood
}

// direct reports whether the client goes to the nodes itself.
func (a arm) direct() bool { return a.binary == "" && !a.relay() }

// relay reports whether the client goes through HAProxy.
func (a arm) relay() bool { return strings.TrimSuffix(a.name, alone) == armRelay }

// targetResponseTime is what the arm target is given.
const targetResponseTime = "250ms"

// modes are the sidesteps that differ in their admission.
func (o options) modes() []harness.Variant {
	all := []harness.Variant{
		{Name: armOff, Keys: map[string]string{"admission.mode": `"off"`}},
		{Name: armAuto, Keys: map[string]string{"admission.mode": "auto"}},
		{Name: armTarget, Keys: map[string]string{"admission.mode": "target", "admission.target_response_time": targetResponseTime}},
	}
	if o.flood == 0 {
		return all
	}
	return append(all, harness.Variant{Name: armRate, Keys: map[string]string{"admission.mode": "auto"}})
}

// names are those that arms have by themselves.
var names = []string{armDirect, armControl, armOff, armAuto, armTarget, armRate, armRelay}

// wanted returns the names of those that were asked for. The last is not unless it is named.
func (o options) wanted() ([]string, error) {
	if o.arms == "" {
		return names[:len(names)-1], nil
	}
	return harness.Choose("arm", o.arms, names, func(name string) string { return name })
}

// findArms returns the arms of a run. A mode of admission that the binary does not know is
// left out; off is what it does then.
func (o options) findArms(ctx context.Context, logf func(string, ...any)) ([]arm, error) {
	wanted, err := o.wanted()
	if err != nil {
		return nil, err
	}
	var arms []arm
	for _, name := range []string{armDirect, armControl, armRelay} {
		if slices.Contains(wanted, name) {
			arms = append(arms, arm{name: name})
		}
	}
	for _, v := range o.modes() {
		if !slices.Contains(wanted, v.Name) {
			continue
		}
		a, err := o.arm(ctx, v)
		switch {
		case err == nil:
			arms = append(arms, a)
		case v.Name == armOff:
			logf("sidestep knows no admission: %s is its default", v.Name)
			arms = append(arms, arm{name: v.Name, binary: o.Sidestep})
		default:
			logf("%s is left out: %v", v.Name, err)
		}
	}
	variants, err := harness.ParseVariants(o.variants, names...)
	if err != nil {
		return nil, err
	}
	for _, v := range variants {
		a, err := o.arm(ctx, v)
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

// arm has the sidestep of a variant read its configuration.
func (o options) arm(ctx context.Context, v harness.Variant) (a arm, err error) {
	a = arm{name: v.Name, binary: cmp.Or(v.Binary, o.Sidestep)}
	if o.flood > 0 {
		v.Keys["admission.classes"] = o.classes(v.Name == armRate)
	}
	if a.config, err = v.Config(); err != nil {
		return a, err
	}
	return a, harness.CheckConfig(ctx, a.binary, a.config)
}
