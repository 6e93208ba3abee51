package es

import (
	"encoding/json"
	"slices"
	"strings"
)

// AsksAddresses reports whether a request asks for the nodes' HTTP addresses, as sniffing
// clients do: GET _nodes/http, of some nodes (_nodes/_all/http) or with other metrics
// (_nodes/http,settings).
func AsksAddresses(method, rawPath string) bool {
	if method != "GET" || !strings.HasPrefix(rawPath, "/_nodes/") {
		return false
	}
	var buf [maxSegments]string
	path := splitPath(rawPath, buf[:0])
	switch len(path) {
	case 2:
	case 3:
		switch path[1] {
		case "stats", "usage", "hot_threads":
			return false // _nodes/stats/http has numbers of connections
		}
	default:
		return false
	}
	metrics, ok := decode(path[len(path)-1], false)
	return ok && slices.Contains(strings.Split(metrics, ","), "http")
}

// PublishAddress returns the answer to such a request with address (host:port) in place
// of every node's http.publish_address and http.bound_address. All other bytes stay. It
// returns the answer unchanged and false if there is no such address, or if the answer
// cannot be parsed.
func PublishAddress(answer []byte, address string) ([]byte, bool) {
	quoted, err := json.Marshal(address)
	if err != nil {
		return answer, false
	}
	e := addressEdit{scanner: scanner{b: answer}, address: quoted}
	if e.object(0) != scanOK || e.copied == 0 {
		return answer, false
	}
	return append(e.out, answer[e.copied:]...), true
}

// addressEdit copies an answer and puts another address into it.
type addressEdit struct {
	scanner
	address []byte // quoted
	out     []byte
	copied  int // bytes of the answer that are in out, or were replaced
}

// object reads an object at a depth of the answer: 0 is all of it, 1 the nodes by
// id, 2 one node, 3 its http.
func (e *addressEdit) object(depth int) status {
	if st := e.expect('{'); st != scanOK {
		return st
	}
	return e.members(func(key []byte) status {
		switch {
		case depth == 1, depth == 0 && string(key) == "nodes", depth == 2 && string(key) == "http":
			return e.object(depth + 1)
		case depth == 3 && string(key) == "publish_address":
			return e.replace(e.address)
		case depth == 3 && string(key) == "bound_address":
			return e.replace(slices.Concat([]byte{'['}, e.address, []byte{']'}))
		default:
			return e.skip()
		}
	})
}

// replace puts value in place of the next one.
func (e *addressEdit) replace(value []byte) status {
	start := e.i
	if st := e.skip(); st != scanOK {
		return st
	}
	e.out = append(append(e.out, e.b[e.copied:start]...), value...)
	e.copied = e.i
	return scanOK
}
