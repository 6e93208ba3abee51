package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"sync"
)

// direct is a network in memory: requests to a host are handed to its handler. A
// thousand nodes and hundreds of sidecars have more connections than a process may
// have open.
type direct struct {
	mu    sync.RWMutex
	hosts map[string]http.Handler
}

func (d *direct) serve(host string, h http.Handler) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hosts[host] = h
}

// RoundTrip implements http.RoundTripper. It decompresses, as http.Transport does.
func (d *direct) RoundTrip(r *http.Request) (response *http.Response, err error) {
	d.mu.RLock()
	h, ok := d.hosts[r.URL.Host]
	d.mu.RUnlock()
	if !ok {
		return nil, fmt.Errorf("no such host: %s", r.URL.Host)
	}
	in := r.Clone(r.Context())
	in.RequestURI, in.RemoteAddr = r.URL.RequestURI(), "127.0.0.1:1"
	w := &answer{header: http.Header{}, status: http.StatusOK}
	defer func() {
		switch cause := recover(); cause {
		case nil:
		case http.ErrAbortHandler:
			response, err = nil, io.ErrUnexpectedEOF
		default:
			panic(cause)
		}
	}()
	h.ServeHTTP(w, in)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	response = &http.Response{StatusCode: w.status, Header: w.header, Body: io.NopCloser(&w.body), Request: r}
	if w.header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(&w.body)
		if err != nil {
			return nil, err
		}
		response.Body = z
	}
	return response, nil
}

// answer is what a handler writes.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) { a.status = status }

// Write implements io.Writer.
func (a *answer) Write(p []byte) (int, error) { return a.body.Write(p) }
