// Package plain is the smallest reverse proxy that the standard library gives: what
// sidestep costs is compared with it.
package plain

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"sidestep/test/harness"
)

// Command is the first argument of a program that is to be the proxy: see Serve.
const Command = "plain"

// Serve is the proxy: round robin over the nodes, pooled connections, nothing else. It
// prints its address and serves until the process ends. args are the flags -listen,
// -nodes and -metrics.
func Serve(args []string) error {
	flags := flag.NewFlagSet(Command, flag.ExitOnError)
	listen := flags.String("listen", "127.0.0.1:0", "`address` to listen on")
	nodes := flags.String("nodes", "", "node `addresses`, comma separated")
	metrics := flags.String("metrics", "", "`address` that tells how many objects were allocated; empty: none does")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *nodes == "" {
		return errors.New("plain needs -nodes")
	}
	if *metrics != "" {
		listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", *metrics)
		if err != nil {
			return err
		}
		server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(tellAllocations)}
		go func() { fmt.Fprintln(os.Stderr, "plain:", server.Serve(listener)) }()
	}
	var targets []*url.URL
	for node := range strings.SplitSeq(*nodes, ",") {
		targets = append(targets, &url.URL{Scheme: "http", Host: node})
	}
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", *listen)
	if err != nil {
		return err
	}
	fmt.Println("http://" + listener.Addr().String())
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: handler(targets)}
	return server.Serve(listener)
}

// tellAllocations answers as the metrics of a Go program do.
func tellAllocations(w http.ResponseWriter, _ *http.Request) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	fmt.Fprintf(w, "go_memstats_mallocs_total %d\n", m.Mallocs)
}

func handler(targets []*url.URL) http.Handler {
	var next atomic.Uint64
	proxy := &httputil.ReverseProxy{
		Transport: &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true},
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(targets[next.Add(1)%uint64(len(targets))])
		},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Without it a node that answers at once has the server close the request
		// body under the transport, which cuts the answer off (golang/go#40747).
		if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		proxy.ServeHTTP(w, r)
	})
}

// Start runs this very program as the proxy, in a process of its own that ends with
// stop or ctx, and returns its URL. nodes are URLs.
func Start(ctx context.Context, nodes []string) (address string, stop func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return "", nil, err
	}
	hosts := strings.ReplaceAll(strings.Join(nodes, ","), "http://", "")
	ctx, kill := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, self, Command, "-nodes", hosts)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = harness.ProcessAttributes(nil)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		address, err = bufio.NewReader(out).ReadString('\n')
	}
	if err != nil {
		kill()
		return "", nil, fmt.Errorf("start the plain proxy: %w", err)
	}
	return strings.TrimSpace(address), func() {
		kill()
		_ = cmd.Wait() // it was killed
	}, nil
}
