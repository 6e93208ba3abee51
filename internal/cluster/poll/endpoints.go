package poll

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"sidestep/internal/cluster"
)

const (
	// distrust is for how long an address that failed is asked last.
	distrust = 5 * time.Second
	// maxTries bounds how many addresses one question is put to; as many strangers do not count.
	maxTries = 3
)

// endpoints knows which addresses can be asked, and which of them answered last time.
type endpoints struct {
	client *client
	seeds  []*url.URL

	mu     sync.Mutex
	nodes  []*url.URL
	failed map[string]time.Time // by host: when it last failed
	next   int
}

func newEndpoints(c *client, seeds []*url.URL) *endpoints {
	return &endpoints{client: c, seeds: seeds, failed: map[string]time.Time{}}
}

// use replaces the addresses of the nodes. The seeds stay.
func (f *endpoints) use(nodes []*cluster.Node) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.nodes = f.nodes[:0]
	for _, n := range nodes {
		if n.URL != nil {
			f.nodes = append(f.nodes, n.URL)
		}
	}
	for host := range f.failed {
		if !slices.ContainsFunc(f.addresses(), func(u *url.URL) bool { return u.Host == host }) {
			delete(f.failed, host)
		}
	}
}

// addresses lists the nodes, then those seeds that are not among them.
func (f *endpoints) addresses() []*url.URL {
	all := slices.Clone(f.nodes)
	for _, seed := range f.seeds {
		if !has(f.nodes, seed) {
			all = append(all, seed)
		}
	}
	return all
}

// has reports whether an address is one of a list; nil is none.
func has(list []*url.URL, u *url.URL) bool {
	return u != nil && slices.ContainsFunc(list, func(other *url.URL) bool { return other.Host == u.Host })
}

// candidates returns the addresses in the order in which to ask them: this one if it is
// one of them and works, nodes that work in turn (a single one might be cut off from the cluster
// without knowing), then seeds that do, then what failed, the longest ago first.
func (f *endpoints) candidates(first *url.URL) []*url.URL {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	var nodes, seeds, failed []*url.URL
	for i, u := range f.addresses() {
		at, hasFailed := f.failed[u.Host]
		switch {
		case hasFailed && now.Sub(at) < distrust:
			failed = append(failed, u)
		case i < len(f.nodes):
			nodes = append(nodes, u)
		default:
			seeds = append(seeds, u)
		}
	}
	f.next++
	rotate(nodes, f.next)
	rotate(seeds, f.next)
	slices.SortStableFunc(failed, func(a, b *url.URL) int { return f.failed[a.Host].Compare(f.failed[b.Host]) })
	all := slices.Concat(nodes, seeds, failed)
	if has(nodes, first) || has(seeds, first) {
		all = slices.DeleteFunc(all, func(u *url.URL) bool { return u.Host == first.Host })
		all = slices.Insert(all, 0, first)
	}
	return all
}

// other returns the address to ask first when that of u has been asked; nil if there is no other.
func (f *endpoints) other(u *url.URL) *url.URL {
	for _, other := range f.candidates(nil) {
		if other.Host != u.Host {
			return other
		}
	}
	return nil
}

func rotate(addresses []*url.URL, by int) {
	if n := len(addresses); n > 1 {
		copy(addresses, slices.Concat(addresses[by%n:], addresses[:by%n]))
	}
}

// learned records how a poll of an address ended.
func (f *endpoints) learned(u *url.URL, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if settled(err) {
		delete(f.failed, u.Host)
		return
	}
	f.failed[u.Host] = time.Now()
}

// askOne asks one address.
func (f *endpoints) askOne(ctx context.Context, u *url.URL, q Query) error {
	if q.began != nil {
		*q.began = time.Now()
	}
	err := f.client.get(ctx, u, q)
	if ctx.Err() == nil {
		f.learned(u, err)
	}
	return err
}

// askFirst puts a question to up to maxTries addresses until one answers, beginning with this one, unless it is nil or
// failed lately. It returns which answered.
func (f *endpoints) askFirst(ctx context.Context, first *url.URL, q Query) (*url.URL, error) {
	addresses := f.candidates(first)
	var failed error
	tries := maxTries
	for i := 0; i < min(len(addresses), tries); i++ {
		u := addresses[i]
		err := f.askOne(ctx, u, q)
		if err == nil {
			return u, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if q.ofName && notFound(err) {
			return nil, err
		}
		if stranger(err) { // where the addresses of three managers mean other machines
			tries = min(tries+1, 2*maxTries)
		}
		failed = alsoFailed(failed, err)
	}
	return nil, cmp.Or(failed, errNoAddress)
}

var errNoAddress = errors.New("no address of the cluster is known")

// longestJoined is from which length on, in bytes, no more errors are joined: there are as many as nodes.
const longestJoined = 500

// leftOut stands for the others.
const leftOut = "; …"

// alsoFailed joins errors in one line, for a status and a log.
func alsoFailed(before, err error) error {
	switch {
	case before == nil:
		return err
	case strings.HasSuffix(before.Error(), leftOut):
		return before
	case len(before.Error())+len(err.Error()) >= longestJoined:
		return fmt.Errorf("%w%s", before, leftOut)
	}
	return fmt.Errorf("%w; %w", before, err)
}
