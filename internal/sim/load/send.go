package loadgen

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// headSize is how much of an answer is kept to look at its _shards, in bytes.
const headSize = 16 << 10

// outcome is what came of one request.
type outcome struct {
	latency time.Duration
	failed  error // nil: HTTP status below 400, read to its end
	status  int   // 0: no answer
	timeout bool
	partial string // _shards, if some are missing
}

var errRequestTimeout = errors.New("no answer in time")

// send runs the request number i. Its latency counts from start.
func (r *run) send(ctx context.Context, i int, start time.Time) {
	limited, cancel := context.WithTimeoutCause(ctx, r.Timeout, errRequestTimeout)
	defer cancel()
	o := r.exchange(limited, i)
	o.latency = time.Since(start)
	if ctx.Err() != nil {
		return // the end of the load cut it off
	}
	if o.failed != nil && errors.Is(context.Cause(limited), errRequestTimeout) {
		o.timeout = true
	}
	r.end(o)
}

func (r *run) exchange(ctx context.Context, i int) outcome {
	req := r.Request(i).WithContext(ctx)
	target := r.targets[i%len(r.targets)]
	u := *req.URL
	u.Scheme, u.Host = target.Scheme, target.Host
	req.URL, req.Host = &u, ""
	if req.Header == nil {
		req.Header = http.Header{}
	}
	res, err := r.Transport.RoundTrip(req)
	if err != nil {
		return outcome{failed: fmt.Errorf("%s %s: %w", req.Method, req.URL.Host, err)}
	}
	head, err := readAll(res.Body)
	_ = res.Body.Close() // read to its end, or already an error
	if err != nil {
		return outcome{failed: fmt.Errorf("read the answer of %s: %w", req.URL.Host, err)}
	}
	if res.StatusCode >= http.StatusBadRequest {
		return outcome{status: res.StatusCode, failed: fmt.Errorf("status %d from %s: %.200s", res.StatusCode, req.URL.Host, head)}
	}
	return readHead(head)
}

// readHead looks at timed_out and _shards, which stand before the hits. What is
// not a search response is complete.
func readHead(head []byte) outcome {
	var o outcome
	d := json.NewDecoder(bytes.NewReader(head))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return o
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return o
		}
		switch key {
		case "_shards":
			o.partial = missing(d)
			return o
		case "timed_out":
			err = d.Decode(&o.timeout)
		default:
			var other json.RawMessage
			err = d.Decode(&other)
		}
		if err != nil {
			return o
		}
	}
	return o
}

// missing reads _shards, and returns them if some are missing. Where their end is not in the
// head, what fills it is a list of failures.
func missing(d *json.Decoder) string {
	var text json.RawMessage
	if d.Decode(&text) != nil {
		return "more failures than are kept"
	}
	var shards struct{ Total, Successful, Failed int }
	if json.Unmarshal(text, &shards) == nil && (shards.Failed > 0 || shards.Successful < shards.Total) {
		return fmt.Sprintf("%.1000s", text)
	}
	return ""
}

// readAll reads a body to its end and returns its beginning.
func readAll(body io.Reader) ([]byte, error) {
	head, err := io.ReadAll(io.LimitReader(body, headSize))
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(io.Discard, body)
	return head, err
}
