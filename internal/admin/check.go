package admin

import "net/http"

// check checks the cluster; it takes as long as the slowest answer.
func (h *handler) check(w http.ResponseWriter, r *http.Request) {
	h.json(w, http.StatusOK, h.service.Check(r.Context()))
}
