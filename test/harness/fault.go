package harness

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// errNotProxied is the answer to a fault on the connections of a node that has
// no proxies.
var errNotProxied = errors.New("the cluster was started without ClusterOptions.Proxied")

// fault is a toxiproxy before one port. It refuses connections until it is opened.
type fault struct {
	port  int
	proxy *toxiproxy.Proxy
}

func newFault(name string, upstream int) (*fault, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	return &fault{port: port, proxy: toxiproxy.NewProxy(server, name, loopback(port), loopback(upstream))}, nil
}

// open listens; no error if it does already.
func (f *fault) open() error {
	if err := f.proxy.Start(); err != nil && !errors.Is(err, toxiproxy.ErrProxyAlreadyStarted) {
		return fmt.Errorf("start proxy %s: %w", f.proxy.Name, err)
	}
	return nil
}

// close ends all connections and refuses new ones.
func (f *fault) close() { f.proxy.Stop() }

// add adds a toxic to existing and new connections. Stream "downstream" is what
// the node sends.
func (f *fault) add(stream, kind, attributes string) error {
	toxic := fmt.Sprintf(`{"type":%q,"stream":%q,"attributes":%s}`, kind, stream, attributes)
	if _, err := f.proxy.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
		return fmt.Errorf("add %s to proxy %s: %w", kind, f.proxy.Name, err)
	}
	return nil
}

func (f *fault) slow(latency, jitter time.Duration) error {
	return f.add("downstream", "latency", fmt.Sprintf(`{"latency":%d,"jitter":%d}`, latency.Milliseconds(), jitter.Milliseconds()))
}

// SlowTransport delays everything the node answers other nodes by latency ±
// jitter: the node is slow as a data node, for every other coordinating node.
func (n *Node) SlowTransport(latency, jitter time.Duration) error {
	if n.transport == nil {
		return errNotProxied
	}
	return n.transport.slow(latency, jitter)
}

// SlowHTTP delays everything the node answers clients by latency ± jitter: the
// node is slow as a coordinating node.
func (n *Node) SlowHTTP(latency, jitter time.Duration) error {
	if n.http == nil {
		return errNotProxied
	}
	return n.http.slow(latency, jitter)
}

// BlackholeHTTP swallows what clients and the node send each other. Connections
// stay open and are accepted.
func (n *Node) BlackholeHTTP() error {
	if n.http == nil {
		return errNotProxied
	}
	return errors.Join(n.http.add("upstream", "timeout", `{"timeout":0}`), n.http.add("downstream", "timeout", `{"timeout":0}`))
}

// RefuseHTTP ends the clients' connections and refuses new ones; the node itself
// keeps working for the others.
func (n *Node) RefuseHTTP() error {
	if n.http == nil {
		return errNotProxied
	}
	n.http.close()
	return nil
}

// BreakHandshakes ends the clients' connections, and that share of the new ones
// during the TLS handshake, once the client has sent its hello: as a server does that
// closes the connection, or with a reset.
func (n *Node) BreakHandshakes(share float64, reset bool) error {
	if n.http == nil {
		return errNotProxied
	}
	toxic := `{"type":"limit_data","stream":"downstream","toxicity":%g,"attributes":{"bytes":16}}`
	if reset {
		toxic = `{"type":"reset_peer","stream":"downstream","toxicity":%g,"attributes":{"timeout":0}}`
	}
	n.http.close()
	if _, err := n.http.proxy.Toxics.AddToxicJson(strings.NewReader(fmt.Sprintf(toxic, share))); err != nil {
		return fmt.Errorf("break handshakes of %s: %w", n.Name, err)
	}
	return n.http.open()
}

// DropHTTP ends the clients' connections; new ones are accepted.
func (n *Node) DropHTTP() error {
	if n.http == nil {
		return errNotProxied
	}
	n.http.close()
	return n.http.open()
}

// ResetToxics takes away what was done to the node's connections.
func (n *Node) ResetToxics(ctx context.Context) error {
	if n.http == nil {
		return errNotProxied
	}
	if err := n.endStandIn(); err != nil {
		return err
	}
	n.http.proxy.Toxics.ResetToxics(ctx)
	n.transport.proxy.Toxics.ResetToxics(ctx)
	if n.PID() == 0 {
		return nil // a killed node refuses until it is restarted
	}
	return errors.Join(n.http.open(), n.transport.open())
}
