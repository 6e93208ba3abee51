package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// maxBody bounds the body of a switch, which is a short object.
const maxBody = 4 << 10

func (h *handler) healthy(w http.ResponseWriter, _ *http.Request) {
	h.text(w, http.StatusOK, "healthy")
}

// serving is for balancers: what is answered 503 closes its connections soon, and still takes new ones.
func (h *handler) serving(w http.ResponseWriter, _ *http.Request) {
	if !h.service.Serving() {
		h.text(w, http.StatusServiceUnavailable, "stopping")
		return
	}
	h.text(w, http.StatusOK, "serving")
}

func (h *handler) ready(w http.ResponseWriter, r *http.Request) {
	if err := h.service.Ready(); err != nil {
		missing := "not ready"
		if h.access().knows(r) { // else a page of another site may be asking
			missing += ": " + err.Error()
		}
		h.text(w, http.StatusServiceUnavailable, missing)
		return
	}
	h.text(w, http.StatusOK, "ready")
}

func (h *handler) nodes(w http.ResponseWriter, _ *http.Request) {
	h.json(w, http.StatusOK, h.service.Nodes())
}

// check checks the cluster; it takes as long as the slowest answer.
func (h *handler) check(w http.ResponseWriter, r *http.Request) {
	h.json(w, http.StatusOK, h.service.Check(r.Context()))
}

// defaultSlow is how many records are shown if no number is given.
const defaultSlow = 50

// slow shows requests that were kept because they were slow, failed or took several attempts.
func (h *handler) slow(w http.ResponseWriter, r *http.Request) {
	if limit, ok := h.number(w, r, "limit", defaultSlow); ok {
		h.compact(w, struct {
			Slow any `json:"slow"`
		}{h.service.Slow(limit)})
	}
}

// mode is the body of /-/routing, both ways.
type mode struct {
	Mode string `json:"mode"`
}

func (h *handler) modeOf(s Switch) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { h.json(w, http.StatusOK, mode{Mode: s.Get()}) }
}

func (h *handler) switchMode(name string, s Switch) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var body mode
		if err := readObject(http.MaxBytesReader(w, r.Body, maxBody), &body); err != nil {
			h.json(w, statusOfBody(err), refusal{
				Error: fmt.Sprintf(`the body must be {"mode": "..."}: %v`, err), Valid: s.Modes,
			})
			return
		}
		wanted := body.Mode
		if !slices.Contains(s.Modes, wanted) {
			h.json(w, http.StatusBadRequest, refusal{Error: fmt.Sprintf("%q is not a mode", wanted), Valid: s.Modes})
			return
		}
		before := s.Get()
		if err := s.Set(wanted); err != nil {
			h.json(w, statusOfError(err), refusal{Error: err.Error()})
			return
		}
		h.logger.Info(name+" mode switched", "from", before, "to", wanted, "by", r.RemoteAddr)
		h.modeOf(s)(w, r)
	}
}

// statusOfError returns the status for an error of the service.
func statusOfError(err error) int {
	switch {
	case errors.As(err, new(Unconfigured)), errors.As(err, new(SeveralNodes)):
		return http.StatusConflict
	case errors.As(err, new(NoNode)):
		return http.StatusNotFound
	}
	return http.StatusInternalServerError
}

func (h *handler) reload(w http.ResponseWriter, _ *http.Request) {
	if err := h.service.Reload(); err != nil {
		h.logger.Warn("configuration not reloaded, the old one stays in force", "err", err)
		h.json(w, http.StatusUnprocessableEntity, refusal{
			Error:    "not reloaded: the old configuration stays",
			Problems: strings.Split(err.Error(), "\n"),
		})
		return
	}
	h.json(w, http.StatusOK, struct {
		Reloaded bool `json:"reloaded"`
	}{true})
}

// refusal is the body of an error.
type refusal struct {
	Error    string   `json:"error"`
	Valid    []string `json:"valid,omitempty"` // the values that are accepted
	Problems []string `json:"problems,omitempty"`
}

func (h *handler) json(w http.ResponseWriter, status int, value any) {
	h.encoded(w, status, value, "  ")
}

// compact answers on one line: one line a number would make series many times as long.
func (h *handler) compact(w http.ResponseWriter, value any) {
	h.encoded(w, http.StatusOK, value, "")
}

func (h *handler) encoded(w http.ResponseWriter, status int, value any, indent string) {
	body, err := encode(value, indent)
	if err != nil {
		h.logger.Error("cannot encode an admin page", "err", err)
		h.text(w, http.StatusInternalServerError, "cannot encode the page: "+err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	h.write(w, status, body)
}

// encode returns a value as JSON that ends its last line.
func encode(value any, indent string) ([]byte, error) {
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	err := encoder.Encode(value)
	return body.Bytes(), err
}

func (h *handler) text(w http.ResponseWriter, status int, line string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	h.write(w, status, []byte(line+"\n"))
}

func (h *handler) write(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	if _, err := w.Write(body); err != nil {
		h.logger.Debug("admin client went away", "err", err)
	}
}
