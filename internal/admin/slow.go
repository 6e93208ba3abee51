package admin

import (
	"fmt"
	"net/http"
	"strconv"
)

// defaultSlow is how many records are shown if no number is given.
const defaultSlow = 50

// slow shows requests that were kept because they were slow, failed or took several attempts.
func (h *handler) slow(w http.ResponseWriter, r *http.Request) {
	limit := defaultSlow
	if text := r.URL.Query().Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			h.json(w, http.StatusBadRequest, refusal{Error: fmt.Sprintf("limit must be a whole number above 0, not %q", text)})
			return
		}
		limit = n
	}
	h.compact(w, struct {
		Slow any `json:"slow"`
	}{h.service.Slow(limit)})
}
