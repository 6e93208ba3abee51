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
	var body struct {
		Source json.RawMessage `json:"source"` // an object, or its text
		Params map[string]any  `json:"params"`
	}
	if err := json.Unmarshal(r.body, &body); err != nil {
		return reply{}, parseError(err)
	}
	var text string
	if json.Unmarshal(body.Source, &text) != nil {
		text = string(body.Source)
	}
	if text == "" {
		return reply{}, illegalArgument("template is missing")
	}
	for name, value := range body.Params {
		text = strings.ReplaceAll(text, "{{"+name+"}}", fmt.Sprint(value))
	}
	out, err := n.searchFor(r, target, []byte(text))
	if err != nil {
		return reply{}, err
	}
	return answer(out), nil
}
