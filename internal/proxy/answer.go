package proxy

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"sidestep/internal/es"
	"sidestep/internal/selection"
)

// Causes of a failover. The set is closed: it is a metric label.
const (
	causeTransport   = "transport"
	causeUnreachable = "unreachable"
	causeRejected    = "rejected"     // 429
	causeEngineError = "engine_error" // 5xx
	causeNoCopy      = "no_copy"      // the placement proved wrong
	causePartial     = "partial"      // _shards.failed > 0
	causeForbidden   = "forbidden"    // strict weighted routing
	causeRefused     = "refused"      // 400 or 405: what it says may come from the preference
)

// causes is the closed set.
var causes = []string{causeTransport, causeUnreachable, causeRejected, causeEngineError, causeNoCopy, causePartial, causeForbidden, causeRefused}

// answer is what one attempt brought.
type answer struct {
	resp   *http.Response
	err    error
	head   es.Head
	cause  string // why it should not be the last word; empty if it may be
	own    bool   // came from the request as the client wrote it
	blamed []*selection.Node
}

// final reports whether the answer is as good as the client could get.
func (a answer) final() bool { return a.resp != nil && a.cause == "" }

// discard gives up an answer.
func (a answer) discard() {
	if a.resp != nil {
		_ = a.resp.Body.Close()
	}
}

// response hands the answer to the client.
func (a answer) response(x *exchange) (*http.Response, error) {
	if a.resp == nil {
		return nil, a.err
	}
	if a.cause == causePartial {
		x.outcome = outcomePartial
	}
	if a.head.HasTook {
		x.took = a.head.Took
	}
	return a.resp, nil
}

// quality orders answers: complete, partial with few failures, the engine's
// verdict on the request as written, its verdict on ours, nothing.
func (a answer) quality() float64 {
	switch {
	case a.resp == nil:
		return 0
	case a.cause == "":
		return 4
	case a.cause == causePartial:
		return 3 + 1/float64(1+a.head.Failed)
	case a.own:
		return 2
	default:
		return 1
	}
}

// better returns the better of two answers and gives up the other. Of equals the
// later one wins.
func better(a, b answer) answer {
	if a.quality() > b.quality() {
		b.discard()
		return a
	}
	a.discard()
	if b.resp == nil && b.err == nil {
		b.err = a.err
	}
	return b
}

// headLimit is how much of an answer is looked at, decoded.
const headLimit = 8 << 10

// judge looks at the start of the answer to the request as rewritten for d. What
// is read is put back.
func (p *Proxy) judge(x *exchange, resp *http.Response, d *selection.Decision) answer {
	if x.steering() == es.SteerByID {
		return p.judgeRead(x, resp, d)
	}
	a := answer{resp: resp}
	switch {
	case resp.StatusCode == http.StatusTooManyRequests:
		a.cause = causeRejected
	case resp.StatusCode >= http.StatusInternalServerError:
		a.cause = causeEngineError
	case resp.StatusCode == http.StatusOK:
		a.judgeHead()
	case resp.StatusCode == http.StatusBadRequest && es.IsNoNodesError(readHead(resp, nil)):
		a.cause = causeNoCopy
		p.o.Refresh()
	case resp.StatusCode == http.StatusForbidden && es.IsWeightedRoutingError(readHead(resp, nil)):
		a.cause = causeForbidden
	case refuses(resp, d):
		a.cause = causeRefused
	}
	a.blamed = a.blame(d)
	return a
}

// refuses reports whether resp is an error whose words may come from the preference
// that was added for d: the operation takes none after all, the request line or a
// place in it is quoted ("no handler found for uri", "byte offset: #744"), or what all
// copies refuse is worded as the last copy tried did. The client is to read what it
// would have read directly.
func refuses(resp *http.Response, d *selection.Decision) bool {
	if !d.Reason.Lists() {
		return false
	}
	switch resp.StatusCode {
	case http.StatusBadRequest, http.StatusMethodNotAllowed:
		return true
	case http.StatusForbidden:
		return !decodable(resp.Header.Get("Content-Encoding"))
	}
	return false
}

// judgeOwn looks at the start of the answer to the request as the client wrote
// it: the engine's verdict on that stands.
func (p *Proxy) judgeOwn(x *exchange, resp *http.Response) answer {
	a := answer{resp: resp, own: true}
	if resp.StatusCode == http.StatusOK && x.steering() != es.SteerByID {
		a.judgeHead()
	}
	return a
}

// judgeHead looks whether an answer is partial.
func (a *answer) judgeHead() {
	a.head = scanHead(a.resp)
	if a.head.HasShards && a.head.Failed > 0 {
		a.cause = causePartial
	}
}

// blame says whose fault a bad answer to d is: that of the nodes it names. A
// partial answer that names none is the fault of the whole set, an error that
// names none that of the node that gave it.
func (a answer) blame(d *selection.Decision) []*selection.Node {
	var named func(n *selection.Node) bool
	switch a.cause {
	case causePartial:
		named = func(n *selection.Node) bool { return slices.Contains(a.head.FailedNodes, n.ID) }
	case causeRejected, causeEngineError:
		body := readHead(a.resp, nil)
		named = func(n *selection.Node) bool { return bytes.Contains(body, []byte(n.ID)) }
	case causeNoCopy:
		return slices.Clone(d.Nodes)
	default:
		return nil
	}
	var blamed []*selection.Node
	for _, n := range d.Nodes {
		if named(n) {
			blamed = append(blamed, n)
		}
	}
	switch {
	case len(blamed) > 0:
		return blamed
	case a.cause == causePartial:
		return slices.Clone(d.Nodes)
	default:
		return []*selection.Node{d.Coordinator}
	}
}

// scanHead reads the start of a search answer.
func scanHead(resp *http.Response) es.Head {
	var h es.Head
	readHead(resp, func(prefix []byte, complete bool) bool {
		var done bool
		h, done = es.ScanHead(prefix, complete)
		return done
	})
	return h
}

// readHead reads the decoded start of resp's body, up to headLimit bytes or until
// enough says so, and puts the raw bytes back. A body that cannot be decoded has
// no start.
func readHead(resp *http.Response, enough func(prefix []byte, complete bool) bool) []byte {
	return readHeadWithin(resp, headLimit, enough)
}

// readHeadWithin is readHead with another limit.
func readHeadWithin(resp *http.Response, limit int, enough func(prefix []byte, complete bool) bool) []byte {
	switch strings.ToLower(resp.Header.Get("Content-Encoding")) {
	case "", "identity":
		prefix := readUntil(resp.Body, limit, enough)
		resp.Body = readCloser{io.MultiReader(bytes.NewReader(prefix), resp.Body), resp.Body}
		return prefix
	case "gzip":
		var raw bytes.Buffer
		prefix := gunzip(io.TeeReader(resp.Body, &raw), limit, enough)
		resp.Body = readCloser{io.MultiReader(&raw, resp.Body), resp.Body}
		return prefix
	default:
		return nil
	}
}

// gzipReaders saves an allocation of 40 kB for each compressed answer.
var gzipReaders = sync.Pool{New: func() any { return new(gzip.Reader) }} //nolint:gochecknoglobals // a pool is shared by nature

func gunzip(r io.Reader, limit int, enough func([]byte, bool) bool) []byte {
	z := gzipReaders.Get().(*gzip.Reader)
	defer gzipReaders.Put(z)
	if z.Reset(r) != nil {
		return nil
	}
	return readUntil(z, limit, enough)
}

// readUntil reads from r until enough is satisfied, limit is reached or r ends.
func readUntil(r io.Reader, limit int, enough func([]byte, bool) bool) []byte {
	prefix := make([]byte, 0, 1024)
	for len(prefix) < limit {
		if len(prefix) == cap(prefix) {
			prefix = append(prefix, make([]byte, len(prefix))...)[:len(prefix)]
		}
		n, err := r.Read(prefix[len(prefix):cap(prefix)])
		prefix = prefix[:len(prefix)+n]
		if (enough != nil && enough(prefix, err != nil)) || err != nil {
			break
		}
	}
	return prefix
}

// leasedBody returns a decision's lease when the answer has been read, or given
// up.
type leasedBody struct {
	io.ReadCloser
	release func()
}

// Read implements io.Reader.
func (b *leasedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.release()
	}
	return n, err
}

// Close implements io.Closer.
func (b *leasedBody) Close() error {
	b.release()
	return b.ReadCloser.Close()
}
