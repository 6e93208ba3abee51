package admin

import "net/http"

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
