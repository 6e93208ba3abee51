package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

const (
	// drainUsually is for how long a node is drained if nobody says, drainLongest the most.
	drainUsually = 10 * time.Minute
	drainLongest = 24 * time.Hour
	// drainedAtRelay is what [Drained.Leaving] says of a node that the relay was told to drain.
	drainedAtRelay = "drained_at_relay"
)

// Drained says how things stand after a node was drained, or said to stay.
type Drained struct {
	// Mode is the mode of routing.
	Mode string `json:"mode"`
	// Leaving is how the node is said to leave now: drained, or as the cluster announces it, or the relay that is followed was told; empty: it stays.
	Leaving string `json:"leaving,omitempty"`
}

// draining is the body of PUT /-/drain.
type draining struct {
	Node string `json:"node"` // name or id
	For  string `json:"for"`  // as 10m; 0s: no longer
}

// length returns for how long the node is to be drained.
func (d draining) length() (time.Duration, error) {
	if d.Node == "" {
		return 0, errors.New("node is missing")
	}
	if d.For == "" {
		return drainUsually, nil
	}
	length, err := time.ParseDuration(d.For)
	if err != nil || length < 0 || length > drainLongest {
		return 0, fmt.Errorf("for must be a duration from 0s to %s, not %q", drainLongest, d.For)
	}
	return length, nil
}

// drainAnswer is the answer to PUT /-/drain.
type drainAnswer struct {
	draining
	Drained
	// Note says why the node may be used, or left out, all the same.
	Note string `json:"note,omitempty"`
}

// note says what the answer to a request to drain a node for a while would otherwise hide.
func (d Drained) note(length time.Duration) string {
	switch {
	case length == 0 && d.Leaving == drainedAtRelay:
		return "the relay was told that the node leaves: that holds until the relay is told otherwise (sidestep drain --for 0s there)"
	case length == 0 && d.Leaving != "":
		return "the cluster announces that the node leaves (" + d.Leaving + "): that holds until the cluster takes it back"
	case length > 0 && d.Mode != "route":
		return "the mode here is " + d.Mode + ": searches through this sidestep go to the copies that the engine chooses, those of the node too; it only sends no request through the node. Sidesteps that follow this one go by their own mode"
	}
	return ""
}

// drain keeps a node from new requests for a while.
func (h *handler) drain(w http.ResponseWriter, r *http.Request) {
	var wanted draining
	err := readObject(http.MaxBytesReader(w, r.Body, maxBody), &wanted)
	length := time.Duration(0)
	if err == nil {
		length, err = wanted.length()
	}
	if err != nil {
		h.json(w, statusOfBody(err), refusal{Error: fmt.Sprintf(`the body must be {"node": "...", "for": "10m"}: %v`, err)})
		return
	}
	drained, err := h.service.Drain(wanted.Node, length)
	if err != nil {
		h.json(w, statusOfError(err), refusal{Error: err.Error()})
		return
	}
	said := "a node is drained"
	if length == 0 {
		said = "a node is drained no longer"
	}
	h.logger.Info(said, "node", wanted.Node, "for", length, "by", r.RemoteAddr)
	h.json(w, http.StatusOK, drainAnswer{draining{wanted.Node, length.String()}, drained, drained.note(length)})
}

// statusOfBody returns the status for a body that could not be read.
func statusOfBody(err error) int {
	if errors.As(err, new(*http.MaxBytesError)) {
		return http.StatusRequestEntityTooLarge
	}
	return http.StatusBadRequest
}

// readObject reads a body that is one JSON object of known fields.
func readObject(body io.Reader, into any) error {
	decoder := json.NewDecoder(body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the object")
	}
	return nil
}
