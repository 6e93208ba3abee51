package poll

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"sidestep/internal/cluster"
)

// maxAddress is longer than the longest name of a host with scheme and port, in bytes.
const maxAddress = 300

// addresses decides where nodes are spoken to, whoever names the addresses: only by the
// scheme of the configured ones. Else a node that is named with http would be sent, in
// the clear, the credentials that clients were promised go out by https.
//
// It belongs to the goroutine that lists the nodes.
type addresses struct {
	scheme  string // of the seeds, which are all alike; empty if there are none
	logger  *slog.Logger
	refused map[string]bool // ids of the nodes of which the log was told
}

func newAddresses(seeds []*url.URL, logger *slog.Logger) *addresses {
	a := &addresses{logger: logger, refused: map[string]bool{}}
	if len(seeds) > 0 {
		a.scheme = seeds[0].Scheme
	}
	return a
}

// assign gives nodes the addresses that were told of them, URLs by node id. A node with
// one that is refused has none: it is known, and not spoken to.
func (a *addresses) assign(nodes []*cluster.Node, told map[string]string) {
	refused := map[string]bool{}
	for _, n := range nodes {
		address, ok := told[n.ID]
		if !ok { // it stays as it was known
			if a.refused[n.ID] {
				refused[n.ID] = true
			}
			continue
		}
		var err error
		if n.URL, err = a.parse(address); err == nil {
			continue
		}
		if !a.refused[n.ID] {
			a.logger.Warn("a node is not spoken to: its address is refused", "node", n.Name, "id", n.ID, "address", address[:min(len(address), maxAddress)], "err", err)
		}
		refused[n.ID] = true
	}
	a.refused = refused
}

// parse reads the address of a node: scheme, host and port, and nothing else.
func (a *addresses) parse(address string) (*url.URL, error) {
	if len(address) > maxAddress {
		return nil, fmt.Errorf("it is longer than %d bytes", maxAddress)
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil, unwrapURL(err)
	}
	host, port, err := net.SplitHostPort(u.Host)
	switch {
	case u.Scheme != a.scheme:
		return nil, fmt.Errorf("its scheme is %q, that of the configured addresses %q", u.Scheme, a.scheme)
	case u.User != nil:
		return nil, errors.New("it has user information")
	case (&url.URL{Scheme: u.Scheme, Host: u.Host}).String() != address:
		return nil, errors.New("it is not scheme, host and port alone")
	case err != nil:
		return nil, err
	case !isHost(host):
		return nil, fmt.Errorf("%q is no host", host)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return nil, fmt.Errorf("%q is no port", port)
	}
	return u, nil
}

// isHost reports whether host is an IP address or may be a name.
func isHost(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return host != "" && !slices.ContainsFunc([]byte(host), func(c byte) bool {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '.', c == '_':
			return false
		}
		return true
	})
}

// published returns the URL that an http publish address stands for: "ip:port",
// "host/ip:port" or "[ip6]:port". The host name counts if there is one: certificates
// name it.
func (a *addresses) published(address string) string {
	if host, after, named := strings.Cut(address, "/"); named {
		if at, err := netip.ParseAddrPort(after); err == nil {
			address = net.JoinHostPort(host, strconv.Itoa(int(at.Port())))
		}
	}
	return a.scheme + "://" + address
}
