// Command overhead measures what a proxy costs: the time it adds to a search,
// the CPU it burns for one and the memory it holds. sidestep is compared with a
// plain httputil.ReverseProxy, nginx and haproxy in front of the same simulated
// cluster, whose nodes answer at once.
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
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"sidestep/test/bench/plain"
)

// options of a comparison.
type options struct {
	sidestep string        // the binary to measure
	out      string        // where the table goes
	rounds   int           // measured rounds
	window   time.Duration // one measurement
	clients  int           // connections while CPU is measured
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
	var o options
	flag.StringVar(&o.sidestep, "sidestep", "bin/sidestep", "sidestep `binary`")
	flag.StringVar(&o.out, "out", "test/bench/results/overhead.md", "result `file`")
	flag.IntVar(&o.rounds, "rounds", 5, "measured rounds")
	flag.DurationVar(&o.window, "window", time.Second, "length of one measurement")
	flag.IntVar(&o.clients, "clients", 64, "connections while CPU is measured")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	exitOn(compare(ctx, o))
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "overhead:", err)
		os.Exit(1)
	}
}

// compare starts everything, measures, and writes the table.
func compare(ctx context.Context, o options) error {
	dir, err := os.MkdirTemp("", "sidestep-overhead-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()

	s := &stage{dir: dir}
	defer s.stop()
	peers, err := s.start(ctx, o.sidestep)
	if err != nil {
		return err
	}
	results, err := measure(ctx, o, peers)
	if err != nil {
		return err
	}
	table := render(o, results, versions(ctx, o.sidestep))
	fmt.Print("\n" + table)
	if err := os.MkdirAll(filepath.Dir(o.out), 0o755); err != nil {
		return err
	}
	return os.WriteFile(o.out, []byte(table), 0o644)
}

// versions says which programs were measured, in the order of the table.
func versions(ctx context.Context, sidestep string) []string {
	var out []string
	for _, command := range [][]string{{sidestep, "--version"}, {find("nginx"), "-v"}, {find("haproxy"), "-v"}} {
		text, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput()
		if err != nil {
			continue
		}
		out = append(out, firstLine(text))
	}
	return out
}
