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

	"sidestep/internal/es"
	simcluster "sidestep/internal/sim/cluster"
)

// answerSizes returns the sizes of answers measured, in bytes.
func answerSizes() []int { return []int{1 << 10, 32 << 10} }

// hitSize is about what one hit takes in an answer: most of it is the name of
// the index, which is long for that purpose.
const hitSize = 256

const (
	alias     = "bench"
	indexName = "bench-"
	// written is the index that bulks go to.
	written = "writes"
)

// searchPath is a search that is answered with about size bytes. preference may be empty.
func searchPath(size int, preference string) string {
	query := "size=" + strconv.Itoa(size/hitSize)
	if preference != "" {
		query = es.SetPreference(query, preference)
	}
	return "/" + alias + "/_search?" + query
}

// backend is what the others must know of the simulated cluster.
type backend struct {
	// Addrs and IDs are those of the nodes that are well, host:port and node ids.
	Addrs, IDs []string
	// Degraded is the name of the node that is not.
	Degraded string
}

// degradedBy delays what other nodes ask of the degraded node: longer than any probe
// waits, so that it is kept out for as long as it is probed.
const degradedBy = 3 * time.Second

// serveBackend runs the simulated cluster until it is interrupted: three nodes that
// answer at once, and a fourth that holds copies of the same index and is degraded. It
// writes to a file what there is to know of it once the nodes listen.
func serveBackend(args []string) error {
	flags := flag.NewFlagSet("backend", flag.ExitOnError)
	ready := flags.String("ready", "", "`file` for the nodes' addresses and ids")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *ready == "" {
		return errors.New("backend needs -ready")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cluster, err := simcluster.Start(simcluster.Options{
		Nodes:       4,
		ServiceTime: time.Nanosecond,
		Sigma:       -1,
		Threads:     8192, // no shard query waits for one
		Indices: []simcluster.IndexSpec{{
			Name: indexName + strings.Repeat("x", hitSize-60-len(indexName)), Aliases: []string{alias},
			Shards: 5, Replicas: 1, Docs: 10_000,
		}, {Name: written, Shards: 3, Replicas: 1}},
	})
	if err != nil {
		return err
	}
	defer cluster.Stop()
	nodes := cluster.Nodes()
	well, degraded := nodes[:len(nodes)-1], nodes[len(nodes)-1]
	degraded.SetFault(simcluster.Fault{Extra: degradedBy})
	b := backend{Degraded: degraded.Name()}
	for _, n := range well {
		b.Addrs = append(b.Addrs, strings.TrimPrefix(n.URL(), "http://"))
		b.IDs = append(b.IDs, n.ID())
	}
	text, err := json.Marshal(b)
	if err != nil {
		return err
	}
	if err := os.WriteFile(*ready, text, 0o600); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}
