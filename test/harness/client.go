package harness

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Do sends a request past the proxies to the first running node and decodes the
// JSON answer into out unless it is nil. body is sent as it is if it is a []byte
// (NDJSON) and as JSON otherwise; nil sends none. A status above 299 is an error.
func (c *Cluster) Do(ctx context.Context, method, path string, body, out any) error {
	for _, node := range c.Nodes {
		if node.PID() != 0 {
			return node.do(ctx, c.client, request{method, path, body}, out)
		}
	}
	return fmt.Errorf("%s %s: no node is running", method, path)
}

// Do is Cluster.Do for this node.
func (n *Node) Do(ctx context.Context, method, path string, body, out any) error {
	return n.do(ctx, &http.Client{Transport: n.launch.transport}, request{method, path, body}, out)
}

type request struct {
	method, path string
	body         any
}

func (n *Node) do(ctx context.Context, client *http.Client, r request, out any) error {
	content, contentType, err := r.encode()
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, r.method, n.DirectURL+r.path, content)
	if err != nil {
		return fmt.Errorf("%s %s: %w", r.method, r.path, err)
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	res, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("ask %s: %w", n.Name, err)
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		return fmt.Errorf("ask %s %s %s: %w", n.Name, r.method, r.path, err)
	}
	if res.StatusCode > 299 {
		return fmt.Errorf("ask %s %s %s: status %d: %.500s", n.Name, r.method, r.path, res.StatusCode, answer)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return fmt.Errorf("ask %s %s %s: %w", n.Name, r.method, r.path, err)
	}
	return nil
}

func (r request) encode() (io.Reader, string, error) {
	switch body := r.body.(type) {
	case nil:
		return http.NoBody, "", nil
	case []byte:
		return bytes.NewReader(body), "application/x-ndjson", nil
	default:
		data, err := json.Marshal(body)
		if err != nil {
			return nil, "", fmt.Errorf("%s %s: encode the body: %w", r.method, r.path, err)
		}
		return bytes.NewReader(data), "application/json", nil
	}
}

func (n *Node) joined(ctx context.Context, count int) bool {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var health struct {
		Nodes int `json:"number_of_nodes"`
	}
	// Without local=true the node has to have found a cluster manager to answer.
	if err := n.Do(ctx, http.MethodGet, "/_cluster/health?timeout=2s", nil, &health); err != nil {
		return false
	}
	if count > 0 && health.Nodes != count {
		return false
	}
	var self struct {
		Nodes map[string]struct{} `json:"nodes"`
	}
	if err := n.Do(ctx, http.MethodGet, "/_nodes/_local/http", nil, &self); err != nil {
		return false
	}
	for id := range self.Nodes {
		n.ID = id
	}
	return n.ID != ""
}

// WaitGreen waits until all copies of the indices (a comma list, or empty for
// all) are started and none is moving, at most for [Patience].
func (c *Cluster) WaitGreen(ctx context.Context, indices string) error {
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	path := "/_cluster/health"
	if indices != "" {
		path += "/" + indices
	}
	path += "?wait_for_status=green&wait_for_no_relocating_shards=true&wait_for_no_initializing_shards=true&timeout=10s"
	var last error
	for ctx.Err() == nil {
		if last = c.Do(ctx, http.MethodGet, path, nil, nil); last == nil {
			return nil
		}
		if !strings.Contains(last.Error(), "status 408") {
			if err := Pause(ctx, 200*time.Millisecond); err != nil {
				break
			}
		}
	}
	return errors.Join(fmt.Errorf("wait until all copies of %s are started: %w", cmp.Or(indices, "all indices"), ctx.Err()), last)
}

// ElectedLast returns the nodes with the elected cluster manager at the end.
func (c *Cluster) ElectedLast(ctx context.Context) ([]*Node, error) {
	var state struct {
		Master  string `json:"master_node"`
		Manager string `json:"cluster_manager_node"`
	}
	if err := c.Do(ctx, http.MethodGet, "/_cluster/state/master_node", nil, &state); err != nil {
		return nil, fmt.Errorf("find the elected node: %w", err)
	}
	var others, elected []*Node
	for _, node := range c.Nodes {
		if node.ID == state.Master || node.ID == state.Manager {
			elected = append(elected, node)
		} else {
			others = append(others, node)
		}
	}
	return append(others, elected...), nil
}
