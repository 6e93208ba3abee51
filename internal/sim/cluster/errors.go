package simcluster

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// apiError is an error as the engines report it.
type apiError struct {
	Status int
	Type   string
	Reason string
	// Fields are further keys of the error object.
	Fields map[string]any
}

func (e *apiError) Error() string { return fmt.Sprintf("%s: %s", e.Type, e.Reason) }

// object is the error without its causes.
func (e *apiError) object() map[string]any {
	o := map[string]any{"type": e.Type, "reason": e.Reason}
	for k, v := range e.Fields {
		o[k] = v
	}
	return o
}

// body is the whole reply.
func (e *apiError) body() []byte {
	detail := e.object()
	if _, ok := detail["root_cause"]; !ok {
		detail["root_cause"] = []any{e.object()}
	}
	return mustJSON(map[string]any{"error": detail, "status": e.Status})
}

func illegalArgument(reason string) *apiError {
	return &apiError{Status: http.StatusBadRequest, Type: "illegal_argument_exception", Reason: reason}
}

func noSuchIndex(name string) *apiError {
	return &apiError{
		Status: http.StatusNotFound, Type: "index_not_found_exception", Reason: "no such index [" + name + "]",
		Fields: map[string]any{
			"index": name, "index_uuid": "_na_", "resource.id": name, "resource.type": "index_or_alias",
		},
	}
}

// mustJSON encodes values this package built; they always encode.
func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("simcluster: encode reply: %v", err))
	}
	return b
}
