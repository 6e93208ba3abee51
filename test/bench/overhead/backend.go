package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"sidestep/internal/simcluster"
)

// answerSizes returns the sizes of answers measured, in bytes.
func answerSizes() []int { return []int{1 << 10, 32 << 10} }

// hitSize is about what one hit takes in an answer: most of it is the name of
// the index, which is long for that purpose.
const hitSize = 256

const (
	alias     = "bench"
	indexName = "bench-"
)

// searchPath is a search that is answered with about size bytes.
func searchPath(size int) string {
	return "/" + alias + "/_search?size=" + strconv.Itoa(size/hitSize)
}

// serveBackend runs the simulated cluster until it is interrupted. It writes the
// nodes' addresses to a file once they listen.
func serveBackend(args []string) error {
	flags := flag.NewFlagSet("backend", flag.ExitOnError)
	ready := flags.String("ready", "", "`file` for the nodes' addresses")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *ready == "" {
		return errors.New("backend needs -ready")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cluster, err := simcluster.Start(simcluster.Options{
		Nodes:       3,
		ServiceTime: time.Nanosecond,
		Sigma:       -1,
		Threads:     64,
		Indices: []simcluster.IndexSpec{{
			Name: indexName + strings.Repeat("x", hitSize-60-len(indexName)), Aliases: []string{alias},
			Shards: 5, Replicas: 1, Docs: 10_000,
		}},
	})
	if err != nil {
		return err
	}
	defer cluster.Stop()
	var nodes []string
	for _, url := range cluster.URLs() {
		nodes = append(nodes, strings.TrimPrefix(url, "http://"))
	}
	text, err := json.Marshal(nodes)
	if err != nil {
		return err
	}
	if err := os.WriteFile(*ready, text, 0o600); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}
