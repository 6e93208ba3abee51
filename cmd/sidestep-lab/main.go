// Command sidestep-lab runs sidestep and its selection of nodes on simulated
// clusters. It is for demonstrations and comparisons; what serves searches is the
// command sidestep.
package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
)

// version is set by the linker; without it the module's own is used.
var version string

// Exit codes.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2 // bad arguments: nothing was run
)

const usage = `sidestep-lab runs sidestep and its selection of nodes on simulated clusters.

Usage:
  sidestep-lab demo [flags]   a simulated cluster, a load, a table
  sidestep-lab lab [flags]    policies compared on simulated nodes, in virtual time
  sidestep-lab random [flags] scenarios drawn by lot: engine, sidestep, oracle

  --version                   print the version
  --help                      print this, or the flags of a sub-command

Exit codes: 0 done, 1 failed, 2 bad arguments.
`

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		fmt.Fprint(stderr, usage)
		return exitUsage
	}
	switch args[0] {
	case "demo":
		return runDemo(args[1:], stdout, stderr)
	case "lab":
		return runLab(args[1:], stdout, stderr)
	case "random":
		return runRandom(args[1:], stdout, stderr)
	case "-h", "-help", "--help":
		fmt.Fprint(stdout, usage)
		return exitOK
	case "-version", "--version":
		fmt.Fprintf(stdout, "sidestep-lab %s (%s %s/%s)\n", buildVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
		return exitOK
	}
	fmt.Fprintf(stderr, "sidestep-lab: unknown argument %q\nsidestep-lab --help lists the sub-commands.\n", args[0])
	return exitUsage
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
