// Command sidestep is a reverse proxy that sends each search to the copies of
// the data that will answer it best.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"

	"sidestep/internal/app"
	"sidestep/internal/config"
)

// Set by the linker; without it they are what version control told the compiler.
var (
	version string
	commit  string
)

// Exit codes.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2 // bad flags: nothing was started. A panic of Go ends with it, too
	// exitConfig is for a bad configuration, which does not get better by itself (EX_CONFIG of sysexits.h). Where files
	// cannot be read it is exitFailure.
	exitConfig = 78
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 {
		if command := commandOf(args[0]); command != nil {
			return command(args[1:], stdout, stderr)
		}
	}
	f, err := parseFlags(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		return exitOK
	case err != nil:
		fmt.Fprintf(stderr, "sidestep: %v\nsidestep --help lists the flags.\n", err)
		return exitUsage
	case f.version:
		return printVersion(nil, stdout, stderr)
	}
	reloads := reloadSignals() // from now on: a supervisor may ask for a reload as soon as the process is there
	defer signal.Stop(reloads)
	cfg, err := f.load()
	if err != nil {
		return refuse(stderr, err)
	}
	if f.check && cfg.Log.Level == "error" {
		cfg.Log.Level = "warn" // it is asked what is to be said about the configuration
	}
	direct, _ := newLogger(cfg.Log, stderr)
	log := startLines(stderr, direct)
	defer log.end()
	logger, level := newLogger(cfg.Log, log)
	sockets, err := app.InheritSockets()
	if err != nil {
		logger.Error("cannot start", "err", err)
		if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
			return exitFailure
		}
		return exitConfig // the supervisor's: trying again would not help
	}
	sidestep, err := app.New(cfg, app.Options{
		Version: buildVersion(), Commit: buildCommit(), Logger: logger, Level: level, Load: f.load, Sockets: sockets,
	})
	if err != nil {
		return refuse(stderr, err)
	}
	if f.check {
		fmt.Fprintln(stdout, "configuration is valid")
		return exitOK
	}
	return serve(sidestep, logger, reloads)
}

// command is a sub-command. It returns the exit code.
type command func(args []string, stdout, stderr io.Writer) int

// commandOf returns the sub-command of this name, nil if there is none.
func commandOf(name string) command {
	return map[string]command{
		"top": runTop, "explain": runExplain, "check": runCheck, "spikes": runSpikes, "drain": runDrain, "version": printVersion,
		"demo": moved("demo"), "lab": moved("lab"),
	}[name]
}

// moved answers a sub-command that sidestep-lab has now. For one release.
func moved(name string) command {
	return func(_ []string, _, stderr io.Writer) int {
		fmt.Fprintf(stderr, "sidestep: %s is a sub-command of sidestep-lab: run sidestep-lab %s\n", name, name)
		return exitUsage
	}
}

// refuse prints every problem of a configuration.
func refuse(stderr io.Writer, err error) int {
	what, code := "the configuration is not valid", exitConfig
	if config.Unreadable(err) {
		what, code = "files cannot be read", exitFailure
	}
	fmt.Fprintf(stderr, "sidestep: %s, nothing was started:\n  %s\n", what, strings.ReplaceAll(err.Error(), "\n", "\n  "))
	return code
}

// serve runs until a signal or a broken listener ends it.
func serve(sidestep *app.App, logger *slog.Logger, reloads <-chan os.Signal) int {
	// The reader of the logs may end before sidestep does: then writing to them fails, and that is all.
	signal.Ignore(syscall.SIGPIPE)
	stops := stopSignals()
	defer signal.Stop(stops)
	ctx, ended := context.WithCancel(context.Background())
	defer ended()
	go app.LimitMemory(ctx)
	go app.LimitProcessors(ctx)
	if err := sidestep.Start(context.Background()); err != nil {
		logger.Error("cannot start", "err", err)
		if _, bad := errors.AsType[*config.Problem](err); bad && !config.Unreadable(err) { // a log that is none
			return exitConfig
		}
		return exitFailure
	}
	for {
		select {
		case <-reloads:
			go reload(sidestep, logger) // a signal to stop must not wait for it
		case received := <-stops:
			if received == syscall.SIGINT {
				sidestep.SkipDrain() // somebody at a terminal waits
			}
			return stop(sidestep, stops, logger)
		case err := <-sidestep.Failed():
			logger.Error("cannot serve any more", "err", err)
			sidestep.SkipDrain()
			stop(sidestep, stops, logger)
			return exitFailure
		}
	}
}

// reloadSignals returns those to reload.
func reloadSignals() chan os.Signal {
	reloads := make(chan os.Signal, 1)
	signal.Notify(reloads, syscall.SIGHUP)
	return reloads
}

// stopSignals returns those to stop. A signal for which a channel has no room is lost, so they do not share
// that of the others.
func stopSignals() chan os.Signal {
	stops := make(chan os.Signal, 2)
	signal.Notify(stops, syscall.SIGINT, syscall.SIGTERM)
	return stops
}

func reload(sidestep *app.App, logger *slog.Logger) {
	if err := sidestep.ReloadConfig(); err != nil {
		logger.Error("configuration not reloaded, the old one stays", "err", err)
	}
}

// stop finishes what is in flight. A second signal skips limits.drain_delay; one after
// the delay ends the process at once.
func stop(sidestep *app.App, again <-chan os.Signal, logger *slog.Logger) int {
	go func() {
		for range again {
			if !sidestep.SkipDrain() {
				os.Exit(exitFailure)
			}
		}
	}()
	if err := sidestep.Stop(context.Background()); err != nil {
		logger.Error("stopped late", "err", err)
		return exitFailure
	}
	return exitOK
}

// printVersion prints the version, the commit if it is known, and what it was built with.
func printVersion(_ []string, stdout, _ io.Writer) int {
	built := fmt.Sprintf("%s %s/%s", runtime.Version(), runtime.GOOS, runtime.GOARCH)
	if c := buildCommit(); c != "" {
		built = "commit " + c + ", " + built
	}
	fmt.Fprintf(stdout, "sidestep %s (%s)\n", buildVersion(), built)
	return exitOK
}

func buildVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return "devel"
}

// buildCommit returns the commit sidestep was built from, empty if it is not known.
func buildCommit() string {
	info, ok := debug.ReadBuildInfo()
	if commit != "" || !ok {
		return commit
	}
	var revision, modified string
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			revision = setting.Value
		case "vcs.modified":
			if setting.Value == "true" {
				modified = " with changes"
			}
		}
	}
	if revision == "" {
		return ""
	}
	return revision + modified
}
