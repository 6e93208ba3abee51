// Command overhead measures what a proxy costs: the time it adds to a search, the CPU
// it burns for one, its system calls, context switches and allocations, and, with
// -memory, what it holds for many connections. sidestep is compared with a plain
// httputil.ReverseProxy, nginx and haproxy in front of the same simulated cluster. One
// of its nodes is degraded, so that sidestep steers every search; the other proxies know
// the nodes that are well, which answer at once.
//
// Every program is a process of its own. Rounds are interleaved, so that a
// disturbance of the machine hits all of them; the medians of the rounds count.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"time"

	"sidestep/test/bench/plain"
	"sidestep/test/harness"
)

// options of a comparison.
type options struct {
	sidestep string        // the binary to measure
	out      string        // where the table goes
	rounds   int           // measured rounds
	window   time.Duration // one measurement
	clients  int           // connections while CPU is measured
	memory   bool          // measure memory instead
}

func main() {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "backend":
			exitOn(serveBackend(os.Args[2:]))
			return
		case plain.Command:
			exitOn(plain.Serve(os.Args[2:]))
			return
		}
	}
	harness.Main("overhead", func(arguments []string) (harness.Run, error) {
		var o options
		set := flag.NewFlagSet("overhead", flag.ContinueOnError)
		set.StringVar(&o.sidestep, "sidestep", "bin/sidestep", "sidestep `binary`")
		set.StringVar(&o.out, "out", "", "result `file` (default test/bench/results/overhead.md or, with -memory, memory.md)")
		set.IntVar(&o.rounds, "rounds", 5, "measured rounds")
		set.DurationVar(&o.window, "window", time.Second, "length of one measurement")
		set.BoolVar(&o.memory, "memory", false, "measure resident memory with many connections instead")
		set.IntVar(&o.clients, "clients", 64, "connections while CPU is measured")
		err := set.Parse(arguments)
		if o.out == "" {
			o.out = map[bool]string{false: "test/bench/results/overhead.md", true: "test/bench/results/memory.md"}[o.memory]
		}
		return func(ctx context.Context) error { return run(ctx, o) }, err
	})
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "overhead:", err)
		os.Exit(1)
	}
}

// run measures what was asked for and writes the table.
func run(ctx context.Context, o options) error {
	for _, program := range []string{nginx, haproxy} {
		if _, err := harness.FindProxy(program); err != nil {
			return err
		}
	}
	var table string
	if o.memory {
		rows, err := measureMemory(ctx, o)
		if err != nil {
			return err
		}
		table = renderMemory(o, rows, versions(ctx, o.sidestep))
	} else {
		err := onStage(ctx, o, 4096, func(s *stage, peers []peer) error {
			c := &comparison{options: o, stage: s, peers: peers}
			var err error
			if c.tracer, err = findTracer(ctx, s.dir); err != nil {
				return err
			}
			if err := c.measure(ctx); err != nil {
				return err
			}
			table = c.render(versions(ctx, o.sidestep))
			return nil
		})
		if err != nil {
			return err
		}
	}
	fmt.Print("\n" + table)
	return harness.WriteResult(o.out, table)
}

// onStage starts everything, runs f, and stops everything.
func onStage(ctx context.Context, o options, connections int, f func(*stage, []peer) error) error {
	dir, err := os.MkdirTemp("", "sidestep-overhead-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()

	s := &stage{dir: dir, connections: connections}
	defer s.stop()
	peers, err := s.start(ctx, o.sidestep)
	if err != nil {
		return err
	}
	return f(s, peers)
}

// versions says which programs were measured, in the order of the table.
func versions(ctx context.Context, sidestep string) []string {
	var out []string
	commands := [][]string{{sidestep, "--version"}}
	for _, program := range []string{nginx, haproxy} {
		if path, err := harness.FindProxy(program); err == nil {
			commands = append(commands, []string{path, "-v"})
		}
	}
	for _, command := range commands {
		text, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput()
		if err != nil {
			continue
		}
		out = append(out, firstLine(text))
	}
	return out
}
