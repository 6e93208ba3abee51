package client

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"time"
)

// Draining says which node is to be kept from new requests.
type Draining struct {
	Node   string        // name or id
	Length time.Duration // 0: no longer
	Token  string        // of the admin listener; empty where it demands none
}

// Drain has sidestep keep a node from new requests for a while, and prints what it did.
func Drain(ctx context.Context, c *Client, out io.Writer, f Format, d Draining) error {
	body, err := json.Marshal(map[string]string{"node": d.Node, "for": d.Length.String()})
	if err != nil {
		return err
	}
	var told struct {
		Note string `json:"note"`
	}
	raw, err := c.ask(ctx, question{method: http.MethodPut, path: "-/drain", body: body, token: d.Token}, &told)
	switch {
	case err != nil:
		return err
	case f == JSON:
		return indented(out, raw)
	case d.Length == 0:
		printf(out, "%s is drained no longer", d.Node)
	case told.Note != "":
		printf(out, "%s is drained for %s, or until it has restarted", d.Node, d.Length)
	default:
		printf(out, "%s is given no new requests for %s, as far as others can take them, or until it has restarted", d.Node, d.Length)
	}
	if told.Note != "" {
		printf(out, "but %s", told.Note)
	}
	return nil
}
