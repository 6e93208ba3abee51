package simcluster

import (
	"encoding/json"
	"fmt"
	"strings"
)

// searchTemplate renders the template of the body and runs the search that comes
// of it. Templates know plain variables, {{name}}, and nothing else.
func (n *Node) searchTemplate(r *request, target string) (reply, *apiError) {
	if err := r.allow(searchParams()...); err != nil {
		return reply{}, err
	}
	text, err := render(r.body)
	if err != nil {
		return reply{}, err
	}
	out, err := n.searchFor(r, target, text)
	if err != nil {
		return reply{}, err
	}
	return answer(out), nil
}

// render returns the search body that a template and its parameters make.
func render(template []byte) ([]byte, *apiError) {
	var body struct {
		Source json.RawMessage `json:"source"` // an object, or its text
		Params map[string]any  `json:"params"`
	}
	if err := json.Unmarshal(template, &body); err != nil {
		return nil, parseError(err)
	}
	var text string
	if json.Unmarshal(body.Source, &text) != nil {
		text = string(body.Source)
	}
	if text == "" {
		return nil, illegalArgument("template is missing")
	}
	for name, value := range body.Params {
		text = strings.ReplaceAll(text, "{{"+name+"}}", fmt.Sprint(value))
	}
	return []byte(text), nil
}
