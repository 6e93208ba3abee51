package harness

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"time"
)

// standIn answers a node's clients in its place.
type standIn struct {
	server *http.Server
	base   *http.Transport // to the node
	delay  atomic.Int64    // ns: of statistics
}

// FailHTTP has the node answer clients' searches at once with the statuses in
// turn, as an overloaded node does; everything else it answers as ever.
// ResetToxics ends it.
func (n *Node) FailHTTP(ctx context.Context, statuses ...int) error {
	_, err := n.replace(ctx, func(node http.Handler, _ *standIn) http.Handler {
		return failSearches(node, statuses)
	})
	return err
}

// DelayStatistics has the node answer late when it is asked for its statistics; everything
// else it answers as ever. Called again it changes the delay and leaves connections as they
// are. ResetToxics ends it.
func (n *Node) DelayStatistics(ctx context.Context, delay time.Duration) error {
	n.mu.Lock()
	now := n.standIn
	n.mu.Unlock()
	if now == nil {
		var err error
		if now, err = n.replace(ctx, delayStatistics); err != nil {
			return err
		}
	}
	now.delay.Store(int64(delay))
	return nil
}

// replace ends the clients' connections and has a handler answer them from now on.
func (n *Node) replace(ctx context.Context, handler func(node http.Handler, s *standIn) http.Handler) (*standIn, error) {
	if n.http == nil {
		return nil, errNotProxied
	}
	if err := n.endStandIn(); err != nil {
		return nil, err
	}
	direct, err := url.Parse(n.DirectURL)
	if err != nil {
		return nil, fmt.Errorf("answer for %s: %w", n.Name, err)
	}
	n.http.close()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", loopback(n.http.port))
	if err != nil {
		return nil, fmt.Errorf("answer for %s: %w", n.Name, err)
	}
	const idle = 128 // connections: one for each search under way
	s := &standIn{base: &http.Transport{MaxIdleConnsPerHost: idle, IdleConnTimeout: time.Minute, DisableCompression: true}}
	pass := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(direct) }, Transport: s.base}
	//nolint:gosec // loopback, for as long as one test
	s.server = &http.Server{Handler: handler(pass, s)}
	n.mu.Lock()
	n.standIn = s
	n.mu.Unlock()
	go func() { _ = s.server.Serve(listener) }() // always ErrServerClosed in the end
	return s, nil
}

// delayStatistics waits before it asks for statistics.
func delayStatistics(node http.Handler, s *standIn) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if delay := time.Duration(s.delay.Load()); delay > 0 && statisticsPath.MatchString(r.URL.Path) && Pause(r.Context(), delay) != nil {
			return // the client has left
		}
		node.ServeHTTP(w, r)
	})
}

// statisticsPath matches /_nodes/stats, /_nodes/_local/stats and those of some metrics.
var statisticsPath = regexp.MustCompile(`^/_nodes/([^/]+/)?stats(/|$)`)

func failSearches(node http.Handler, statuses []int) http.Handler {
	var count atomic.Uint64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/_search") {
			node.ServeHTTP(w, r)
			return
		}
		status := statuses[int(count.Add(1)-1)%len(statuses)]
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		const reason = `{"type":"rejected_execution_exception","reason":"rejected by a test"}`
		_, _ = fmt.Fprintf(w, `{"error":{"root_cause":[%s],%s,"status":%d}`, reason, reason[1:], status)
	})
}

func (n *Node) endStandIn() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.standIn == nil {
		return nil
	}
	s := n.standIn
	n.standIn = nil
	err := s.server.Close()
	s.base.CloseIdleConnections()
	if err != nil {
		return fmt.Errorf("end the answers for %s: %w", n.Name, err)
	}
	return nil
}
