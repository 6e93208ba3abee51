package simcluster

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// Sizes of a page of _list/shards, in copies; the smallest is the default.
const (
	minPage = 2000
	maxPage = 20000
)

// listAPI answers _list/shards of OpenSearch: _cat/shards by pages, in the order
// in which the indices were created. A page holds whole shards.
func (n *Node) listAPI(r *request) (reply, *apiError) {
	if r.at(1) != "shards" || n.cluster.opts.Engine != OpenSearch {
		return r.noHandler(), nil
	}
	size := minPage
	if r.params.Has("size") {
		var err error
		size, err = strconv.Atoi(r.params.Get("size"))
		if err != nil || size < minPage || size > maxPage {
			return reply{}, illegalArgument(fmt.Sprintf("size should be from [%d] to [%d]", minPage, maxPage))
		}
	}
	after, ok := pageToken(r.params.Get("next_token"))
	if !ok {
		return reply{}, illegalArgument("Parameter [next_token] has been tainted and is incorrect. Please provide a valid [next_token].")
	}
	s := n.cluster.state.Load()
	names, missing := s.resolve(r.at(2), time.Now())
	if missing != "" {
		return reply{}, noSuchIndex(missing)
	}
	if err := n.askAll(r); err != nil {
		return reply{}, err
	}
	indices := make([]*indexState, len(names))
	for i, name := range names {
		indices[i] = s.index(name)
	}
	slices.SortFunc(indices, func(a, b *indexState) int { return cmp.Compare(a.UUID, b.UUID) })
	t := n.cluster.newTable(r)
	t.begin()
	return t.page(indices, after, size), nil
}

// page prints the shards after a place until the page is full.
func (t *shardTable) page(indices []*indexState, after place, size int) reply {
	at, _ := slices.BinarySearchFunc(indices, after.uuid, func(ix *indexState, uuid string) int { return cmp.Compare(ix.UUID, uuid) })
	last, next := after, "null"
	for _, ix := range indices[at:] {
		first := 0
		if ix.UUID == after.uuid {
			first = after.shard + 1
		}
		for number := first; number < len(ix.Shards); number++ {
			if t.rows+len(ix.Shards[number]) > size {
				next = last.token()
				return t.pageReply(next)
			}
			t.add(ix, number)
			last = place{ix.UUID, number}
		}
	}
	return t.pageReply(next)
}

func (t *shardTable) pageReply(next string) reply {
	if !t.json {
		return t.reply("next_token " + next + "\n")
	}
	if next != "null" {
		next = strconv.Quote(next)
	}
	body := `{"next_token":` + next + `,"shards":`
	return reply{status: http.StatusOK, body: append(append([]byte(body), t.out...), "]}"...)}
}

// place is the last shard of a page.
type place struct {
	uuid  string
	shard int
}

func (p place) token() string {
	return base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%s %d", p.uuid, p.shard))
}

func pageToken(token string) (place, bool) {
	p := place{shard: -1}
	if token == "" {
		return p, true
	}
	raw, err := base64.StdEncoding.DecodeString(token)
	if err != nil {
		return p, false
	}
	n, err := fmt.Sscanf(string(raw), "%s %d", &p.uuid, &p.shard)
	return p, err == nil && n == 2
}
