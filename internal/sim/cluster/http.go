package simcluster

import (
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// maxLine is the longest request line that the engines accept, in bytes.
const maxLine = 4096

const maxBody = 100 << 20

// request is an HTTP request as the handlers see it.
type request struct {
	ctx    context.Context //nolint:containedctx // the request's own
	method string
	path   string
	uri    string   // path and query as on the request line
	parts  []string // decoded path segments, empty ones left out
	params url.Values
	body   []byte
}

// reply is what a handler answers.
type reply struct {
	status int
	body   []byte
	text   bool // text/plain instead of JSON
}

func answer(v any) reply { return reply{status: http.StatusOK, body: mustJSON(v)} }

// serveHTTP answers a request. A node that is killed, or whose client has left,
// hangs up: it has nothing to say.
func (n *Node) serveHTTP(w http.ResponseWriter, r *http.Request) {
	if !n.cluster.begin() {
		panic(http.ErrAbortHandler) // to return would answer 200
	}
	defer n.cluster.work.Done()
	ctx := r.Context()
	// The body is read first: only then does net/http notice a client that leaves.
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if n.awaitNot(ctx, httpSilent) != nil || sleep(ctx, n.fault().CoordinatorDelay) != nil {
		panic(http.ErrAbortHandler)
	}
	rep := n.handle(r, body)
	if n.awaitNot(ctx, httpSilent) != nil {
		panic(http.ErrAbortHandler)
	}
	n.write(w, r, rep)
}

func (n *Node) handle(r *http.Request, body []byte) reply {
	if len(r.Method)+len(r.RequestURI)+len("  HTTP/1.1") > maxLine {
		reason := "An HTTP line is larger than " + strconv.Itoa(maxLine) + " bytes."
		return errorReply(&apiError{Status: http.StatusBadRequest, Type: "too_long_http_line_exception", Reason: reason})
	}
	req, bad := parseRequest(r, body)
	if bad != nil {
		return errorReply(bad)
	}
	rep, bad := n.route(req)
	if bad != nil {
		return errorReply(bad)
	}
	return rep
}

func errorReply(e *apiError) reply { return reply{status: e.Status, body: e.body()} }

func parseRequest(r *http.Request, body []byte) (*request, *apiError) {
	req := &request{ctx: r.Context(), method: r.Method, path: r.URL.Path, uri: r.RequestURI, body: body}
	for raw := range strings.SplitSeq(r.URL.EscapedPath(), "/") {
		part, err := url.PathUnescape(raw)
		if err != nil {
			return nil, illegalArgument(err.Error())
		}
		if part != "" {
			req.parts = append(req.parts, part)
		}
	}
	params, bad := parseQuery(r.URL.RawQuery)
	req.params = params
	return req, bad
}

// parseQuery splits on ; as well as &, as the engines do.
func parseQuery(raw string) (url.Values, *apiError) {
	params := url.Values{}
	for _, pair := range strings.FieldsFunc(raw, func(c rune) bool { return c == '&' || c == ';' }) {
		key, value, _ := strings.Cut(pair, "=")
		k, err := url.QueryUnescape(key)
		if err != nil {
			return nil, illegalArgument(err.Error())
		}
		v, err := url.QueryUnescape(value)
		if err != nil {
			return nil, illegalArgument(err.Error())
		}
		params.Set(k, v)
	}
	return params, nil
}

// flag reads a boolean parameter; present without a value means true.
func (r *request) flag(name string) bool {
	return r.params.Has(name) && r.params.Get(name) != "false"
}

// at returns the path segment i, empty if there is none. Negative i counts from
// the end.
func (r *request) at(i int) string {
	if i < 0 {
		i += len(r.parts)
	}
	if i < 0 || i >= len(r.parts) {
		return ""
	}
	return r.parts[i]
}

func (n *Node) write(w http.ResponseWriter, r *http.Request, rep reply) {
	h := w.Header()
	h.Set("Content-Type", n.contentType(rep))
	if n.cluster.opts.Engine == Elasticsearch {
		h.Set("X-Elastic-Product", "Elasticsearch")
	}
	if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") || len(rep.body) == 0 || r.Method == http.MethodHead {
		h.Set("Content-Length", strconv.Itoa(len(rep.body)))
		w.WriteHeader(rep.status)
		if r.Method != http.MethodHead {
			_, _ = w.Write(rep.body) // the client is gone
		}
		return
	}
	h.Set("Content-Encoding", "gzip")
	w.WriteHeader(rep.status)
	z, _ := n.cluster.zippers.Get().(*gzip.Writer)
	defer n.cluster.zippers.Put(z)
	z.Reset(w)
	if _, err := z.Write(rep.body); err != nil {
		return
	}
	_ = z.Close() // the client is gone
}

func (n *Node) contentType(rep reply) string {
	switch {
	case rep.text:
		return "text/plain; charset=UTF-8"
	case n.cluster.opts.Engine == Elasticsearch:
		return "application/json"
	default:
		return "application/json; charset=UTF-8"
	}
}

// route finds the handler of a request.
func (n *Node) route(r *request) (reply, *apiError) {
	first, last := r.at(0), r.at(-1)
	switch {
	case n.cluster.opts.Serverless && (first == "_nodes" || first == "_cat" || first == "_cluster" || last == "_search_shards"):
		return reply{}, r.notServerless()
	case first == "":
		return answer(n.info()), nil
	case first == "_nodes":
		return n.nodesAPI(r)
	case first == "_cat":
		return n.catAPI(r)
	case first == "_tasks":
		return n.tasksAPI(), nil
	case first == "_cluster":
		return n.clusterAPI(r)
	case r.at(1) == "_settings" && r.method == http.MethodGet:
		return n.indexSettings(r)
	case last == "_mget":
		return n.multiGet(r)
	case last == "_alias" && len(r.parts) == 2:
		return n.aliases(r)
	case len(r.parts) == 3 && isRead(r.method, r.at(1)):
		return n.read(r)
	case strings.HasPrefix(last, "_") || first == "_search" || r.at(-2) == "_msearch" || r.at(1) == "_search":
		return n.searchAPI(r)
	case strings.HasPrefix(first, "_"):
		return r.noHandler(), nil
	default:
		return n.documentAPI(r)
	}
}

// isRead tells reads of one document from writes.
func isRead(method, kind string) bool {
	switch kind {
	case "_doc", "_source":
		return method == http.MethodGet || method == http.MethodHead
	case "_explain", "_termvectors":
		return method == http.MethodGet || method == http.MethodPost
	}
	return false
}

// notServerless is the answer to what serverless keeps to itself.
func (r *request) notServerless() *apiError {
	return &apiError{
		Status: http.StatusGone, Type: "api_not_available_exception",
		Reason: "Request for uri [" + r.path + "] with method [" + r.method + "] exists but is not available when running in serverless mode",
	}
}

// noHandler is the engines' answer to a path they do not know: the error is plain
// text.
func (r *request) noHandler() reply {
	text := "no handler found for uri [" + r.uri + "] and method [" + r.method + "]"
	return reply{status: http.StatusBadRequest, body: mustJSON(map[string]string{"error": text})}
}

// documentAPI answers everything else about one index or document, plausibly and
// without effect.
func (n *Node) documentAPI(r *request) (reply, *apiError) {
	index, kind, id := r.at(0), r.at(1), r.at(2)
	names, missing := n.cluster.state.Load().resolve(index, time.Now())
	switch {
	case missing != "" && r.method != http.MethodPut && r.method != http.MethodPost:
		return reply{}, noSuchIndex(missing)
	case kind == "" && len(names) == 0:
		return answer(map[string]any{}), nil
	case kind == "":
		return n.metadata(names), nil
	case r.method == http.MethodGet || r.method == http.MethodHead:
		return r.noHandler(), nil
	default:
		shards := map[string]any{"total": 1, "successful": 1, "failed": 0}
		rep := answer(map[string]any{
			"_index": index, "_id": id, "_version": 1, "result": "created", "_shards": shards, "_seq_no": 0, "_primary_term": 1,
		})
		rep.status = http.StatusCreated
		return rep, nil
	}
}
