package client

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"time"
)

// Drain has sidestep keep a node from new requests for a while, 0: no longer, and prints what it
// did. The token may be empty where the listener demands none.
func Drain(ctx context.Context, c *Client, out io.Writer, f Format, node string, length time.Duration, token string) error {
	body, err := json.Marshal(map[string]string{"node": node, "for": length.String()})
	if err != nil {
		return err
	}
	raw, err := c.ask(ctx, http.MethodPut, "-/drain", nil, body, token)
	switch {
	case err != nil:
		return err
	case f == JSON:
		return indented(out, raw)
	case length == 0:
		printf(out, "%s is given requests again", Printable(node))
	default:
		printf(out, "%s is given no new requests for %s, as far as others can take them, or until it has restarted", Printable(node), length)
	}
	return nil
}
