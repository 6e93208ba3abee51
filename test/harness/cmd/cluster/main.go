// Command cluster starts a real cluster that stays in the background, and stops
// it again:
//
//	cluster up [-engine opensearch] [-version 3.6.0] [-nodes 3] [-proxied]
//	cluster down
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"sidestep/test/harness"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

type arguments struct {
	options harness.ClusterOptions
	state   string
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("say up or down")
	}
	var a arguments
	flags := flag.NewFlagSet("cluster "+args[0], flag.ExitOnError)
	flags.StringVar(&a.options.Distribution, "engine", harness.OpenSearch, "opensearch or elasticsearch")
	flags.StringVar(&a.options.Version, "version", "", "version (default: the one the tests use)")
	flags.IntVar(&a.options.Nodes, "nodes", 3, "number of nodes")
	flags.BoolVar(&a.options.Proxied, "proxied", false, "put every connection through toxiproxy")
	flags.StringVar(&a.state, "state", filepath.Join(".cache", "cluster.json"), "where to note what is running")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(a.state), 0o755); err != nil {
		return fmt.Errorf("make the folder of the state file: %w", err)
	}
	switch args[0] {
	case "up":
		return up(a, args[1:])
	case "serve": // what up leaves in the background
		return serve(a)
	case "down":
		return down(a.state)
	default:
		return fmt.Errorf("unknown command %q: say up or down", args[0])
	}
}

// serve runs the cluster until it is told to end.
func serve(a arguments) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	a.options.Logf = func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
	cluster, err := harness.StartCluster(ctx, a.options)
	if err != nil {
		return err
	}
	if err := writeState(a.state, cluster); err != nil {
		return errors.Join(err, cluster.Stop())
	}
	<-ctx.Done()
	return errors.Join(cluster.Stop(), os.Remove(a.state))
}
