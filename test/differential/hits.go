package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// comparison walks over two JSON answers at once.
type comparison struct {
	paged     bool // the request skips hits
	unordered bool // lists of copies have no order
	tied      bool // hits came in another order, or others of the same rank
}

// jsonDiffers says how two masked JSON bodies differ that are not the same bytes.
// That is allowed only for hits that the engine holds equal.
func jsonDiffers(a, b []byte, r request) string {
	want, err := readJSON(a)
	got, errGot := readJSON(b)
	if err != nil || errGot != nil {
		return "body: " + firstDifference(a, b)
	}
	c := comparison{
		paged:     strings.Contains(r.uri+r.body, "from"),
		unordered: strings.Contains(r.uri, "/_search_shards"),
	}
	if d := c.differ("", want, got); d != "" {
		return "body" + d
	}
	if !c.tied {
		return "body: the same JSON in other bytes, " + firstDifference(a, b)
	}
	return ""
}

// readJSON keeps numbers as they were sent.
func readJSON(body []byte) (any, error) {
	var v any
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	err := d.Decode(&v)
	return v, err
}

func (c *comparison) differ(path string, want, got any) string {
	switch want := want.(type) {
	case map[string]any:
		got, ok := got.(map[string]any)
		if !ok {
			break
		}
		return c.objectsDiffer(path, want, got)
	case []any:
		got, ok := got.([]any)
		if !ok || len(got) != len(want) {
			break
		}
		if c.unordered && sameMembers(want, got) {
			c.tied = true
			return ""
		}
		for i := range want {
			if d := c.differ(path+"["+strconv.Itoa(i)+"]", want[i], got[i]); d != "" {
				return d
			}
		}
		return ""
	default:
		if want == got {
			return ""
		}
	}
	return fmt.Sprintf("%s: %.300s, through sidestep: %.300s", path, text(want), text(got))
}

func (c *comparison) objectsDiffer(path string, want, got map[string]any) string {
	c.reduceCauses(want, got)
	keys := slices.Sorted(maps.Keys(want))
	if other := slices.Sorted(maps.Keys(got)); !slices.Equal(keys, other) {
		return fmt.Sprintf("%s: keys %v, through sidestep: %v", path, keys, other)
	}
	for _, key := range keys {
		a, b := want[key], got[key]
		if key == "hits" {
			list, ok := a.([]any)
			other, okOther := b.([]any)
			if ok && okOther {
				if d := c.hitsDiffer(path+".hits", list, other, len(list) == total(want["total"])); d != "" {
					return d
				}
				continue
			}
		}
		if d := c.differ(path+"."+key, a, b); d != "" {
			return d
		}
	}
	return ""
}

// reduceCauses leaves of the errors of single shards only what kinds there are. The
// engine groups them by their texts, and those are other ones when an error comes from
// another node than the one that was asked: so who is listed, and how often, depends
// on which copies served.
func (c *comparison) reduceCauses(want, got map[string]any) {
	for _, key := range []string{"failed_shards", "failures"} {
		if _, ok := want[key].([]any); !ok {
			continue
		}
		c.tied = true
		for _, o := range []map[string]any{want, got} {
			o[key] = kinds(o[key])
			if v, ok := o["root_cause"]; ok {
				o["root_cause"] = kinds(v)
			}
			delete(o, "caused_by") // the cause of one of these, or of none
		}
	}
}

// kinds lists the types of errors, each once.
func kinds(errors any) string {
	list, ok := errors.([]any)
	if !ok {
		list = []any{errors}
	}
	var types []string
	for _, e := range list {
		o, _ := e.(map[string]any)
		if reason, ok := o["reason"].(map[string]any); ok {
			o = reason // of a failed shard
		}
		types = append(types, text(o["type"]))
	}
	slices.Sort(types)
	return strings.Join(slices.Compact(types), " ")
}

// total returns how many hits there are, -1 if that is not known exactly.
func total(v any) int {
	relation := any("eq")
	if o, ok := v.(map[string]any); ok {
		v, relation = o["value"], o["relation"]
	}
	number, ok := v.(json.Number)
	n, err := number.Int64()
	if !ok || err != nil || relation != "eq" {
		return -1
	}
	return int(n)
}

// hitsDiffer compares two lists of hits. The engine orders hits by their sort values
// or, without any, by their score; the order of equals depends on which copies
// served. So the lists are cut into groups of equal rank, which must follow each
// other with the same ranks and the same sizes, and each group must hold the same
// hits, with all they carry. Of a group that the page cuts off (the last one, and
// the first where hits are skipped, unless all hits are there) it is not known who
// else is in it: there the ranks and the size alone count.
func (c *comparison) hitsDiffer(path string, want, got []any, all bool) string {
	if len(want) != len(got) {
		return fmt.Sprintf("%s: %d hits, through sidestep: %d", path, len(want), len(got))
	}
	for from := 0; from < len(want); {
		to := from + 1
		for to < len(want) && rank(want[to]) == rank(want[from]) {
			to++
		}
		for i := from; i < to; i++ {
			if rank(got[i]) != rank(want[from]) {
				return fmt.Sprintf("%s[%d]: ranks as %s, through sidestep: %s", path, i, rank(want[from]), rank(got[i]))
			}
		}
		if !reflect.DeepEqual(want[from:to], got[from:to]) {
			open := !all && (to == len(want) || from == 0 && c.paged)
			if rank(want[from]) == "" || !open && !sameMembers(want[from:to], got[from:to]) {
				return fmt.Sprintf("%s[%d:%d]: %.600s, through sidestep: %.600s", path, from, to, text(want[from:to]), text(got[from:to]))
			}
			c.tied = true
		}
		from = to
	}
	return ""
}

// rank is what a hit is ordered by, "" if it does not say.
func rank(hit any) string {
	o, _ := hit.(map[string]any)
	if sort, ok := o["sort"]; ok {
		return text(sort)
	}
	if score, ok := o["_score"]; ok && score != nil {
		return text(score)
	}
	return ""
}

// sameMembers reports whether two lists hold the same, in any order.
func sameMembers(a, b []any) bool {
	return slices.Equal(members(a), members(b))
}

func members(list []any) []string {
	out := make([]string, len(list))
	for i, v := range list {
		if inner, ok := v.([]any); ok {
			out[i] = strings.Join(members(inner), "\n")
		} else {
			out[i] = text(v)
		}
	}
	slices.Sort(out)
	return out
}

// text is the JSON of a value, keys in order.
func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}
