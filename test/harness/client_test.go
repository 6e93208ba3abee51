package harness

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// never is a node whose copies do not start.
type never struct{}

func (never) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := Pause(r.Context(), 10*time.Second); err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: http.StatusRequestTimeout, Body: io.NopCloser(strings.NewReader(`{"status":"red"}`))}, nil
}

func TestWaitGreenEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := &Node{Name: "node-1", DirectURL: "http://127.0.0.1:1", process: &Process{PID: 1, gone: make(chan struct{})}}
		c := &Cluster{Nodes: []*Node{node}, client: &http.Client{Transport: never{}}}
		began := time.Now()
		err := c.WaitGreen(t.Context(), "products")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "wait until all copies of products are started")
		require.Equal(t, Patience, time.Since(began))
	})
}
