package main

import (
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"

	"sidestep/internal/config"
)

const usage = `sidestep sends each search to the copies of the data that will answer it best.

Usage:
  sidestep --upstream URL[,URL...] [flags]
  sidestep --config FILE [flags]
  sidestep top [flags]        the nodes of a running sidestep, live
  sidestep explain TARGET     where a search would go, and why
  sidestep check [flags]      is the cluster fit, and what stands in the way
  sidestep spikes [ID]        what was wrong with nodes, and why
  sidestep drain NODE         no new searches for a node that is about to restart
  sidestep version            version and commit

Cluster and listeners:
  --upstream URL[,URL...]   nodes of the cluster; one that lives is enough. May be repeated
  --listen ADDRESS          where clients are served (127.0.0.1:9210)
  --admin ADDRESS           health, metrics, /nodes, /explain, the switch (127.0.0.1:9211)

Routing:
  --routing.mode MODE       route, observe or off (route)
  --zone ZONE               sidestep's own zone; needs routing.zone.attribute in the file

Configuration:
  --config FILE             a YAML file; deploy/sidestep.yaml shows every key. Flags win over it
  --config.check            tell every problem of the configuration, start nothing
  --log.level LEVEL         debug, info, warn or error (info)

Other:
  --version                 print version and commit
  --help                    print this

Signals: SIGHUP reads the file again; SIGTERM and SIGINT finish what is in flight,
SIGTERM after limits.drain_delay. A second one ends the delay, or else all at once.
Exit codes: 0 stopped or valid, 2 bad flags, 78 bad configuration, 1 failed otherwise:
also where a file cannot be read, which may pass.
`

// flags is the command line.
type flags struct {
	file      string
	check     bool
	version   bool
	overrides []config.Override
}

func parseFlags(args []string) (*flags, error) {
	f := &flags{}
	set := flag.NewFlagSet("sidestep", flag.ContinueOnError)
	set.SetOutput(io.Discard) // errors and usage are printed by the caller
	set.StringVar(&f.file, "config", "", "")
	set.BoolVar(&f.check, "config.check", false, "")
	set.BoolVar(&f.version, "version", false, "")
	f.override(set, "listen", "listen", func(c *config.Config, v string) { c.Listen = v })
	f.override(set, "admin", "admin.listen", func(c *config.Config, v string) { c.Admin.Listen = v })
	f.override(set, "log.level", "log.level", func(c *config.Config, v string) { c.Log.Level = v })
	f.override(set, "routing.mode", "routing.mode", func(c *config.Config, v string) { c.Routing.Mode = v })
	// Accepted for one more release, with a warning.
	f.override(set, "routing.policy", "routing.policy", func(c *config.Config, v string) { c.Routing.Policy = v })
	f.override(set, "zone", "routing.zone.local", func(c *config.Config, v string) { c.Routing.Zone.Local = v })

	var upstreams []string // of all occurrences
	set.Func("upstream", "", func(v string) error {
		for one := range strings.SplitSeq(v, ",") {
			upstreams = append(upstreams, strings.TrimSpace(one))
		}
		return nil
	})

	if err := set.Parse(args); err != nil {
		return nil, err
	}
	if set.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %s", shown(set.Arg(0)))
	}
	if len(upstreams) > 0 {
		f.overrides = append(f.overrides, config.Override{
			Path: "upstream.urls", Flag: "--upstream",
			Apply: func(c *config.Config) { c.Upstream.URLs = upstreams },
		})
	}
	return f, nil
}

// shown is what may be shown of an argument: a URL may hold a password, and what this prints is logged by a supervisor.
func shown(argument string) string {
	if strings.Contains(argument, "://") {
		return "that is a URL: with --upstream, URLs are separated by commas alone"
	}
	return strconv.Quote(argument)
}

// override adds a flag whose value goes over that of the key at path.
func (f *flags) override(set *flag.FlagSet, name, path string, apply func(c *config.Config, value string)) {
	set.Func(name, "", func(value string) error {
		f.overrides = append(f.overrides, config.Override{
			Path: path, Flag: "--" + name,
			Apply: func(c *config.Config) { apply(c, value) },
		})
		return nil
	})
}

// load reads the file, if there is one, and puts the flags over it.
func (f *flags) load() (config.Config, error) {
	return config.Load(f.file, f.overrides...)
}
