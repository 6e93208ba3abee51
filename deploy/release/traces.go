package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"strings"
)

// traces are what a release must not tell of the machine it was built on: its folders,
// and the addresses its modules came from.
type traces []string

func (b builder) traces(ctx context.Context) (traces, error) {
	text, err := output(ctx, b.root, "go", "env", "-json", "GOMODCACHE", "GOCACHE", "GOROOT", "GOPROXY")
	if err != nil {
		return nil, err
	}
	env := make(map[string]string)
	if err := json.Unmarshal([]byte(text), &env); err != nil {
		return nil, fmt.Errorf("read go env: %w", err)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return nil, fmt.Errorf("find the home folder: %w", err)
	}
	var found traces
	for _, dir := range []string{b.root, b.out, home, env["GOMODCACHE"], env["GOCACHE"], env["GOROOT"]} {
		if dir = strings.TrimRight(dir, "/"); dir != "" {
			found = append(found, dir+"/")
		}
	}
	for proxy := range strings.FieldsFuncSeq(env["GOPROXY"], func(r rune) bool { return r == ',' || r == '|' }) {
		if address, err := url.Parse(proxy); err == nil && address.Host != "" {
			found = append(found, address.Host)
		}
	}
	return found, nil
}

// check returns an error if a file, or what it packs, tells one of them.
func (t traces) check(f file) error {
	for _, trace := range t {
		if bytes.Contains(f.data, []byte(trace)) {
			return fmt.Errorf("%s tells of the machine it was built on: it contains %q", f.name, trace)
		}
	}
	for _, part := range f.parts {
		if err := t.check(part); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return nil
}
