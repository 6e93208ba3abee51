package main

import (
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"sidestep/test/harness"
)

// answer is what came back, or why nothing did.
type answer struct {
	status int
	header http.Header
	body   []byte
	err    error
	// decision is the header in which sidestep explains itself; not part of the
	// answer that is compared.
	decision string
}

// side is whom requests are sent to.
type side struct {
	name string // also the name of its own indices
	base string // address
	// explain asks sidestep for its decision.
	explain bool
	ids     []string // of the nodes, for @node1@ …
	client  *http.Transport
}

// converse sends the steps of a conversation one after the other.
func (s side) converse(ctx context.Context, c conversation) []answer {
	answers := make([]answer, len(c.steps))
	var scroll, pit string
	for i, r := range c.steps {
		a := s.send(ctx, r.fill(s.values(scroll, pit)))
		if c.writes {
			a.body = []byte(strings.ReplaceAll(string(a.body), ownPrefix+s.name, ownPrefix+"@side@"))
			if l := a.header.Get("Location"); l != "" {
				a.header.Set("Location", strings.ReplaceAll(l, ownPrefix+s.name, ownPrefix+"@side@"))
			}
		}
		answers[i] = a
		var handed struct {
			Scroll string `json:"_scroll_id"`
			ES     string `json:"id"`
			OS     string `json:"pit_id"`
		}
		if json.Unmarshal(a.body, &handed) == nil {
			scroll, pit = cmp.Or(handed.Scroll, scroll), cmp.Or(handed.ES+handed.OS, pit)
		}
	}
	return answers
}

// values replaces the placeholders of a request.
func (s side) values(scroll, pit string) *strings.Replacer {
	pairs := []string{"@side@", s.name, "@scroll@", scroll, "@pit@", pit}
	for i, id := range s.ids {
		pairs = append(pairs, "@node"+string(rune('1'+i))+"@", id)
	}
	return strings.NewReplacer(pairs...)
}

// sendTimeout is how long an answer may take: far longer than any takes that comes.
const sendTimeout = time.Minute

// send sends one request and reads the whole answer.
func (s side) send(ctx context.Context, r request) answer {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	if r.packed {
		r.body = gzipped(r.body)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, s.base, strings.NewReader(r.body))
	if err != nil {
		return answer{err: err}
	}
	req.URL = rawURL(req.URL, r.uri)
	for _, h := range r.header {
		req.Header.Add(h.name, h.value)
		if h.name == "Transfer-Encoding" {
			req.ContentLength = -1 // what Go sends in chunks
		}
	}
	if s.explain {
		req.Header.Set("X-Sidestep-Explain", "1")
	}
	res, err := s.client.RoundTrip(req)
	if err != nil {
		return answer{err: err}
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	a := answer{status: res.StatusCode, header: res.Header, body: body, err: err}
	a.decision = a.header.Get(harness.DecisionHeader)
	a.header.Del(harness.DecisionHeader)
	return a
}

// gzipped compresses a body.
func gzipped(body string) string {
	var b strings.Builder
	w := gzip.NewWriter(&b)
	// A Builder takes everything.
	_, _ = w.Write([]byte(body))
	_ = w.Close()
	return b.String()
}

// rawURL returns base with a request target that goes out byte for byte.
func rawURL(base *url.URL, uri string) *url.URL {
	u := *base
	path, query, asked := strings.Cut(uri, "?")
	u.RawQuery, u.ForceQuery = query, asked && query == ""
	if strings.HasPrefix(path, "//") {
		u.Path, u.RawPath = path, path // Opaque would take it for the start of a host
		if plain, err := url.PathUnescape(path); err == nil {
			u.Path = plain
		}
	} else {
		u.Opaque = path
	}
	return &u
}
