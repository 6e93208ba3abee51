package admin

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
)

// Question is a request that is explained without being sent.
type Question struct {
	Operation  string // empty: a search
	Target     string // index expression, empty: all indices
	ID         string // of the document, for reads by id
	Routing    string
	Preference string // a custom string of the client's
	User       string // of basic authentication, for the class of admission
	OpaqueID   string // X-Opaque-Id, for the same
	// Bulk is an index that a bulk writes to. It excludes all other fields.
	Bulk string
}

// explain shows what would be done with a request, and why.
func (h *handler) explain(w http.ResponseWriter, r *http.Request) {
	var q Question
	parameters := map[string]*string{
		"operation": &q.Operation, "target": &q.Target, "id": &q.ID, "routing": &q.Routing,
		"preference": &q.Preference, "user": &q.User, "opaque_id": &q.OpaqueID, "bulk": &q.Bulk,
	}
	query, err := url.ParseQuery(r.URL.RawQuery) // [url.URL.Query] leaves out what it cannot read
	if err != nil {
		h.json(w, http.StatusBadRequest, refusal{Error: fmt.Sprintf("the parameters cannot be read: %v", err)})
		return
	}
	if query.Has("bulk") && (len(query) > 1 || query.Get("bulk") == "") {
		h.json(w, http.StatusBadRequest, refusal{Error: "bulk is the name of an index, and no other parameter goes with it"})
		return
	}
	for name, values := range query {
		into := parameters[name]
		if into == nil || len(values) > 1 {
			h.json(w, http.StatusBadRequest, refusal{Error: fmt.Sprintf("parameter %q is unknown, or given twice", name), Valid: slices.Sorted(maps.Keys(parameters))})
			return
		}
		*into = values[0]
	}
	explanation, err := h.service.Explain(q)
	if err != nil {
		h.json(w, http.StatusBadRequest, refusal{Error: err.Error()})
		return
	}
	h.json(w, http.StatusOK, explanation)
}
