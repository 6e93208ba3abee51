package harness

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Run is a command whose arguments are understood. Its context ends with a signal.
type Run func(context.Context) error

// Main is the main function of a command: it has the arguments parsed, runs what comes of
// them until it ends or a signal comes, and ends the process. The exit code is 2 if the
// arguments are wrong and 1 if the command fails.
func Main(name string, parse func(arguments []string) (Run, error)) {
	os.Exit(execute(name, os.Args[1:], parse, os.Stderr)) //nolint:revive // deep-exit: this is all that main functions do
}

func execute(name string, arguments []string, parse func([]string) (Run, error), stderr io.Writer) int {
	run, err := parse(arguments)
	switch {
	case errors.Is(err, flag.ErrHelp): // the flags have been shown
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "%s: %v\n", name, err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", name, err)
		return 1
	}
	return 0
}

// Measured is what the flags of most commands name: the engine, and the sidestep before it.
// Embedded in the options of a command, with its own flags in the same set.
type Measured struct {
	Engine, Version string
	Sidestep        string // the binary
	Out             string // folder of the results
}

// Flags adds the flags of the engine to a set.
func (m *Measured) Flags(set *flag.FlagSet) {
	set.StringVar(&m.Engine, "engine", OpenSearch, "`distribution`: opensearch or elasticsearch")
	set.StringVar(&m.Version, "version", "", "its `version` (default: the one the tests are written for)")
}

// ResultFlags adds those of the binary and of the results.
func (m *Measured) ResultFlags(set *flag.FlagSet) {
	set.StringVar(&m.Sidestep, "sidestep", "bin/sidestep", "sidestep `binary`")
	set.StringVar(&m.Out, "out", "test/bench/results", "`folder` of the results")
}

// SidestepVersion asks the binary for its version and commit.
func (m *Measured) SidestepVersion(ctx context.Context) (string, error) {
	version, err := exec.CommandContext(ctx, m.Sidestep, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("ask %s for its version: %w", m.Sidestep, err)
	}
	return strings.TrimPrefix(strings.TrimSpace(string(version)), "sidestep "), nil
}

// Parse parses the arguments, which must be flags alone, and fills in the version.
func (m *Measured) Parse(set *flag.FlagSet, arguments []string) error {
	if err := set.Parse(arguments); err != nil {
		return err
	}
	if set.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", set.Arg(0))
	}
	if m.Engine != OpenSearch && m.Engine != Elasticsearch {
		return fmt.Errorf("-engine %s: want %s or %s", m.Engine, OpenSearch, Elasticsearch)
	}
	if m.Version == "" {
		m.Version = DefaultVersion(m.Engine)
	}
	return nil
}

// Command is the command line that measures the same again: the flags that were given, but
// for those that say nothing about the measurement. A shell reads it as it was given.
func Command(binary string, set *flag.FlagSet, silent ...string) string {
	set.Visit(func(f *flag.Flag) {
		if value := f.Value.String(); value != "" && !slices.Contains(silent, f.Name) {
			binary += fmt.Sprintf(" -%s %s", f.Name, quoted(value))
		}
	})
	return binary
}

// quoted is a word of a command line.
func quoted(value string) string {
	if !strings.ContainsAny(value, " \t\n\"'`$&|;<>()*?[]#~\\") {
		return value
	}
	return "'" + strings.ReplaceAll(value, "'", `'\''`) + "'"
}

// Seed is that of what a command draws by lot.
type Seed uint64

// maxSeed keeps drawn seeds short.
const maxSeed = 9999

// Flag adds the flag -seed to a set.
func (s *Seed) Flag(set *flag.FlagSet) {
	set.Uint64Var((*uint64)(s), "seed", 0, "`seed` of what is drawn by lot, as the order of turns; 0: drawn, and printed")
}

// Draw draws it if none was given, as if that had been given: it is part of [Command].
func (s *Seed) Draw(set *flag.FlagSet) error {
	if *s != 0 {
		return nil
	}
	return set.Set("seed", strconv.FormatUint(1+rand.Uint64N(maxSeed), 10))
}

// Random returns a source of what is drawn, and prints the seed.
func (s *Seed) Random() *rand.Rand {
	Logf("seed %d", *s)
	return rand.New(rand.NewPCG(uint64(*s), 0))
}

// WriteResult writes a file of results. It may be the first in its folder.
func WriteResult(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("write the results: %w", err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return fmt.Errorf("write the results: %w", err)
	}
	return nil
}

// Milliseconds is a duration as reports print it, with fractions.
func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Logf prints a line with the time of day: what a command is doing, beside its results.
func Logf(format string, args ...any) { logTo(os.Stderr, format, args...) }

// Sayf is Logf for a command whose output is what it is doing.
func Sayf(format string, args ...any) { logTo(os.Stdout, format, args...) }

func logTo(w io.Writer, format string, args ...any) {
	fmt.Fprintf(w, "%s "+format+"\n", append([]any{time.Now().Format(time.TimeOnly)}, args...)...)
}
