package main

import (
	"errors"
	"flag"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

// servePlain is the smallest proxy the standard library gives: round robin over
// the nodes, pooled connections, nothing else.
func servePlain(args []string) error {
	flags := flag.NewFlagSet("plain", flag.ExitOnError)
	listen := flags.String("listen", "", "`address` to listen on")
	nodes := flags.String("nodes", "", "node `addresses`, comma separated")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var targets []*url.URL
	for node := range strings.SplitSeq(*nodes, ",") {
		targets = append(targets, &url.URL{Scheme: "http", Host: node})
	}
	if *listen == "" || len(targets) == 0 {
		return errors.New("plain needs -listen and -nodes")
	}
	var next atomic.Uint64
	proxy := &httputil.ReverseProxy{
		Transport: &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true},
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(targets[next.Add(1)%uint64(len(targets))])
		},
	}
	server := &http.Server{
		Addr:              *listen,
		ReadHeaderTimeout: 10 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			// Without it a node that answers at once has the server close the request
			// body under the transport, which cuts the answer off (golang/go#40747).
			if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			proxy.ServeHTTP(w, r)
		}),
	}
	return server.ListenAndServe()
}
