package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"sidestep/test/harness"
)

const (
	// bulks are sent at once, of bulkSize bytes each.
	bulks    = 10
	bulkSize = 100_000_000
	// oneShard is the reason of a bulk that sidestep keeps on one shard.
	oneShard = "one_shard"
)

// document is one operation of the bulks, of 1,000 bytes.
func document() []byte {
	const head, tail = "{\"index\":{}}\n{\"text\":\"", "\"}\n"
	return []byte(head + strings.Repeat("x", 1000-len(head)-len(tail)) + tail)
}

// longBody repeats one document until left bytes have been read.
type longBody struct {
	document []byte
	left     int
}

// Read implements io.Reader. left is a multiple of the document's length.
func (b *longBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF
	}
	n := copy(p, b.document[len(b.document)-1-(b.left-1)%len(b.document):])
	b.left -= n
	return n, nil
}

// write measures what p takes while large bulks are on their way.
func (h *held) write(ctx context.Context, p peer) error {
	if err := eventually(ctx, "small bulks through "+p.name, func(ctx context.Context) error {
		return sendBulk(ctx, p, 10*len(document()))
	}); err != nil {
		return err
	}
	if err := harness.Pause(ctx, rest); err != nil {
		return err
	}
	before, err := usageOf(p.pid)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() {
		each := make(chan error, bulks)
		for range bulks {
			go func() { each <- sendBulk(ctx, p, bulkSize) }()
		}
		var all error
		for range bulks {
			all = errors.Join(all, <-each)
		}
		ended <- all
	}()
	most, err := mostResident(p, ended)
	h.bulks = most - before.resident
	return err
}

// sendBulk sends one bulk of size bytes and reads its answer. Through sidestep it must
// have been kept on one shard.
func sendBulk(ctx context.Context, p peer, size int) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+p.addr+"/"+written+"/_bulk", &longBody{document(), size})
	if err != nil {
		return err
	}
	req.ContentLength = int64(size)
	req.Header.Set("Content-Type", "application/x-ndjson")
	req.Header.Set("X-Sidestep-Explain", "1")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var count counter
	if _, err := io.Copy(&count, resp.Body); err != nil {
		return err
	}
	if want := size / len(document()); resp.StatusCode != http.StatusOK || count.items != want {
		return fmt.Errorf("bulk: status %d, %d of %d items", resp.StatusCode, count.items, want)
	}
	if decision := resp.Header.Get(harness.DecisionHeader); p.admin != "" && harness.ParseDecision(decision).Reason != oneShard {
		return fmt.Errorf("bulk: decided %q, want %s", decision, oneShard)
	}
	return nil
}

// counter counts the items of a bulk's answer that were stored.
type counter struct {
	items int
	last  []byte // the end of what was written before, shorter than what is counted
}

// Write implements io.Writer.
func (c *counter) Write(p []byte) (int, error) {
	const stored = `"status":201`
	text := append(c.last, p...) //nolint:gocritic // last is replaced below
	c.items += bytes.Count(text, []byte(stored))
	c.last = bytes.Clone(text[max(0, len(text)-len(stored)+1):])
	return len(p), nil
}
