// Command full measures a healthy cluster that is full: which node a client sends its
// searches through then decides how many are answered. It also measures one that is half full, where sidestep
// is to cost nothing.
//
// 40 connections send the next search when the last is answered. The fixed ways are round robin
// over all nodes, the same with preference=_local, two nodes, and one; each once directly and once
// through a sidestep that does nothing but go that way (routing.mode off, upstream.discovery
// static). Beside them sidestep as it is. The ways take turns in an order drawn by lot, after all
// have warmed the nodes. In the setting "shared" the nodes share the machine, in the setting
// "quota" each has a third of a core.
//
// In the settings "half" and "half-quota" searches start on schedule, half as many as round robin
// through sidestep answers when the cluster is full. There sidestep, alone and as ten at once, is
// compared with that way, which is there twice.
//
// With -variants, sidesteps of other configurations or builds take turns with these, in place of
// the direct ways. The report tells what CPU nodes and sidesteps took for a search, and what each
// sidestep did beside sending searches.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"time"

	"sidestep/test/harness"
)

// options of a run.
type options struct {
	harness.Measured
	settings    []setting
	rounds      int
	lead, turn  time.Duration
	warm        time.Duration
	lately      time.Duration // of each way before the first round
	connections int
	variants    []way // of sidestep
	command     string
}

// setting is what the nodes may use.
type setting struct {
	name, title string
	quota       float64 // of a core, of each node; 0: none
	half        bool    // half full, in an open loop
}

// third of a core.
const third = 1.0 / 3

func settings() []setting {
	return []setting{
		{name: "shared", title: "Full, healthy: cores shared by all"},
		{name: "quota", title: "Full, healthy: each node limited to a third of a core", quota: third},
		{name: "half", title: "Half full, healthy: cores shared by all", half: true},
		{name: "half-quota", title: "Half full, healthy: each node limited to a third of a core", quota: third, half: true},
	}
}

func main() {
	harness.Main("full", func(arguments []string) (harness.Run, error) {
		o, err := parse(arguments)
		return o.run, err
	})
}

func parse(arguments []string) (options, error) {
	var o options
	set := flag.NewFlagSet("full", flag.ContinueOnError)
	o.Flags(set)
	o.ResultFlags(set)
	names := set.String("settings", "", "comma `list` of shared, quota, half, half-quota (default: all)")
	set.IntVar(&o.rounds, "rounds", 6, "`rounds` in which each way has one turn")
	set.DurationVar(&o.lead, "lead", time.Second, "lead-in of each turn, which counts for nothing")
	set.DurationVar(&o.turn, "turn", 4*time.Second, "length of one turn")
	set.DurationVar(&o.warm, "warm", time.Minute, "warm-up of the nodes")
	set.DurationVar(&o.lately, "settle", 10*time.Second, "each way before the first round, which counts for nothing")
	set.IntVar(&o.connections, "connections", 40, "connections of the closed loop")
	variants := set.String("variants", "", "further sidesteps in place of the direct ways, "+harness.VariantList)
	if err := o.Parse(set, arguments); err != nil {
		return o, err
	}
	o.command = harness.Command("bin/full", set, "sidestep", "out")
	taken := harness.Names(slices.Concat(fullWays(), halfWays()), func(w way) string { return w.name })
	all, err := harness.ParseVariants(*variants, taken...)
	if err != nil {
		return o, err
	}
	for _, v := range all {
		o.variants = append(o.variants, way{name: v.Name, front: true, variant: v})
	}
	if o.settings, err = harness.Choose("setting", *names, settings(), func(s setting) string { return s.name }); err != nil {
		return o, err
	}
	if o.rounds < 1 || o.turn <= 0 || o.lead < 0 || o.lately < 0 || o.connections < 1 {
		return o, errors.New("want at least one round and connection, and turns above zero")
	}
	return o, nil
}

// run measures all settings. What it started is gone when it returns, whatever ended it.
func (o options) run(ctx context.Context) (err error) {
	r := &report{options: o, began: time.Now()}
	if r.sidestepVersion, err = o.SidestepVersion(ctx); err != nil {
		return err
	}
	s := &stage{options: o, logf: harness.Logf}
	defer func() { err = errors.Join(err, s.Close(err != nil && ctx.Err() == nil)) }()
	if err := s.open(ctx); err != nil {
		return err
	}
	for _, at := range o.settings {
		m, err := s.measure(ctx, at)
		if err != nil {
			return fmt.Errorf("%s: %w", at.name, err)
		}
		r.add(m)
	}
	return r.write()
}
