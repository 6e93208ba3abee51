package harness

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
)

// FailHTTP has the node answer clients' searches at once with the statuses in
// turn, as an overloaded node does; everything else it answers as ever.
// ResetToxics ends it.
func (n *Node) FailHTTP(ctx context.Context, statuses ...int) error {
	if n.http == nil {
		return errNotProxied
	}
	if err := n.stopFailing(); err != nil {
		return err
	}
	n.http.close()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", loopback(n.http.port))
	if err != nil {
		return fmt.Errorf("fail for %s: %w", n.Name, err)
	}
	direct, err := url.Parse(n.DirectURL)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	//nolint:gosec // loopback, for as long as one test
	server := &http.Server{Handler: failSearches(direct, statuses)}
	n.mu.Lock()
	n.failing = server
	n.mu.Unlock()
	go func() { _ = server.Serve(listener) }() // always ErrServerClosed in the end
	return nil
}

func failSearches(node *url.URL, statuses []int) http.Handler {
	pass := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(node) }}
	var count atomic.Uint64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/_search") {
			pass.ServeHTTP(w, r)
			return
		}
		status := statuses[int(count.Add(1)-1)%len(statuses)]
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		const reason = `{"type":"rejected_execution_exception","reason":"rejected by a test"}`
		_, _ = fmt.Fprintf(w, `{"error":{"root_cause":[%s],%s,"status":%d}`, reason, reason[1:], status)
	})
}

func (n *Node) stopFailing() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.failing == nil {
		return nil
	}
	server := n.failing
	n.failing = nil
	if err := server.Close(); err != nil {
		return fmt.Errorf("end the failures of %s: %w", n.Name, err)
	}
	return nil
}
