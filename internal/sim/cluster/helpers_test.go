package simcluster

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// object is a decoded JSON reply with paths.
type object map[string]any

func (o object) at(path ...string) any {
	var v any = map[string]any(o)
	for _, key := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[key]
	}
	return v
}

func (o object) number(path ...string) int {
	f, _ := o.at(path...).(float64)
	return int(f)
}

// quick is a cluster with service times near zero.
func quick(t *testing.T, change func(*Options)) *Cluster {
	t.Helper()
	o := Options{
		Nodes: 5, ServiceTime: 200 * time.Microsecond, RecoveryTime: 20 * time.Millisecond, Seed: 7,
		Indices: []IndexSpec{{Name: "products", Shards: 5, Replicas: 1, Aliases: []string{"shop"}}},
	}
	if change != nil {
		change(&o)
	}
	c, err := Start(o)
	require.NoError(t, err)
	t.Cleanup(c.Stop)
	return c
}

func client(t *testing.T) *http.Client {
	t.Helper()
	tr := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 100}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// call sends a request "METHOD path" with an optional body.
func call(t *testing.T, n *Node, line string, body ...string) (int, []byte) {
	t.Helper()
	status, raw, err := try(t, n, time.Minute, line, body...)
	require.NoError(t, err)
	return status, raw
}

func try(t *testing.T, n *Node, limit time.Duration, line string, body ...string) (int, []byte, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	method, path, _ := strings.Cut(line, " ")
	req, err := http.NewRequestWithContext(ctx, method, n.URL()+path, strings.NewReader(strings.Join(body, "")))
	require.NoError(t, err)
	res, err := client(t).Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer func() { require.NoError(t, res.Body.Close()) }()
	raw, err := io.ReadAll(res.Body)
	return res.StatusCode, raw, err
}

func ask(t *testing.T, n *Node, want int, line string, body ...string) object {
	t.Helper()
	status, raw := call(t, n, line, body...)
	require.Equal(t, want, status, "%s: %s", line, raw)
	o := object{}
	require.NoError(t, json.Unmarshal(raw, &o), "%s: %s", line, raw)
	return o
}
