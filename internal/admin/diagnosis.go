package admin

import (
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// Diagnosis is the history of the nodes and the records of spikes. Its results are
// written as JSON.
type Diagnosis interface {
	// History returns the figures of the nodes since a moment.
	History(from time.Time) any
	// Spikes lists the records of spikes, the newest first.
	Spikes() any
	// Spike returns one record; false if there is none of this id.
	Spike(id string) (any, bool)
	// Folded returns the stacks of its hot threads, folded; false if there is none
	// of this id.
	Folded(id string) (string, bool)
}

// defaultHistory is how many seconds of the history are shown if no number is given.
const defaultHistory = 300

// mostHistory is more than is kept.
const mostHistory = 86400

func (h *handler) history(w http.ResponseWriter, r *http.Request) {
	if seconds, ok := h.number(w, r, "seconds", defaultHistory); ok {
		h.compact(w, h.service.History(time.Now().Add(-time.Duration(min(seconds, mostHistory))*time.Second)))
	}
}

// number reads a parameter that is a whole number above 0; without it it is the usual one. If it is none, that is answered.
func (h *handler) number(w http.ResponseWriter, r *http.Request, name string, usual int) (n int, ok bool) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return usual, true
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		h.json(w, http.StatusBadRequest, refusal{Error: fmt.Sprintf("%s must be a whole number above 0, not %q", name, text)})
		return 0, false
	}
	return n, true
}

func (h *handler) spikes(w http.ResponseWriter, _ *http.Request) { h.compact(w, h.service.Spikes()) }

func (h *handler) spike(w http.ResponseWriter, r *http.Request) {
	record, ok := h.service.Spike(r.PathValue("id"))
	if !ok {
		h.json(w, http.StatusNotFound, noSpike)
		return
	}
	h.compact(w, record)
}

func (h *handler) folded(w http.ResponseWriter, r *http.Request) {
	stacks, ok := h.service.Folded(r.PathValue("id"))
	if !ok {
		h.json(w, http.StatusNotFound, noSpike)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	h.write(w, http.StatusOK, []byte(stacks))
}

// noSpike is the answer about an unknown record.
var noSpike = refusal{Error: "there is no such record: /spikes lists the records"} //nolint:gochecknoglobals // a constant
