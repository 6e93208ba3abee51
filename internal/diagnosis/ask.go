package diagnosis

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	// statsDeadline bounds a request for counters. A node that takes longer is silent.
	statsDeadline = 2 * time.Second
	// hotDeadline bounds a request for hot threads. The engine itself samples for half a
	// second, and a node starved of CPU takes long to walk its stacks.
	hotDeadline = 6 * time.Second
	// maxAnswer bounds how much of an answer is read, in bytes.
	maxAnswer = 1 << 20
	// hotQuery asks for ten snapshots (the default) of each of the busiest threads. See
	// https://www.elastic.co/guide/en/elasticsearch/reference/8.18/cluster-nodes-hot-threads.html.
	hotQuery = "/hot_threads?threads=12&interval=500ms&ignore_idle_threads=true"
	// opaqueID marks sidestep's requests in the engines' task lists.
	opaqueID = "sidestep-diagnosis"
)

// statusError is an answer with another status than 200.
type statusError struct{ status int }

// Error implements error.
func (e statusError) Error() string {
	if e.status == http.StatusUnauthorized || e.status == http.StatusForbidden {
		return "not permitted: grant sidestep's account the cluster privilege monitor"
	}
	return fmt.Sprintf("HTTP status %d", e.status)
}

// statusOf returns the status of an answer of the node that is an error; 0 if there was none. A gateway before the node
// says that it cannot be reached.
func statusOf(err error) int {
	answer, _ := errors.AsType[statusError](err)
	if answer.status >= http.StatusBadGateway && answer.status <= http.StatusGatewayTimeout {
		return 0
	}
	return answer.status
}

// refused reports whether the account lacks the privilege.
func refused(err error) bool {
	status := statusOf(err)
	return status == http.StatusUnauthorized || status == http.StatusForbidden
}

// querier asks about one node: the node itself and other nodes.
type querier struct {
	client *http.Client
	node   string   // id of the node that is asked about
	direct *url.URL // its own address, nil if it is not known
	others []other  // that can be asked about it, in turn
	turn   int
}

// other is another node, or a seed, that is asked about the node.
type other struct {
	name string
	url  *url.URL
}

// newQuerier finds the addresses at which the node can be asked about. fine reports
// whether a node, by its id, may be asked about another.
func newQuerier(s *Source, node string, fine func(id string) bool) *querier {
	a := &querier{client: s.Client, node: node}
	snapshot := s.Snapshot()
	if snapshot != nil {
		for _, n := range snapshot.Nodes {
			switch {
			case n.URL == nil:
			case n.ID == node:
				a.direct = n.URL
			case n.Coordinating() && fine(n.ID):
				a.others = append(a.others, other{n.Name, n.URL})
			}
		}
	}
	if a.direct == nil && len(a.others) == 0 {
		for _, seed := range s.Seeds {
			a.others = append(a.others, other{seed.Host, seed})
		}
	}
	return a
}

// next returns the other node whose turn it is. Taking turns keeps a slow other node from
// being taken for a slow node. The url is nil if there is none.
func (a *querier) next() other {
	if len(a.others) == 0 {
		return other{}
	}
	a.turn++
	return a.others[a.turn%len(a.others)]
}

// get asks base and returns the answer, and how long it took.
func (a *querier) get(ctx context.Context, base *url.URL, path string, deadline time.Duration) (body []byte, took time.Duration, err error) {
	defer func(start time.Time) { took = time.Since(start) }(time.Now())
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(base.String(), "/")+"/"+path, http.NoBody)
	if err != nil {
		return nil, 0, err
	}
	req.Header.Set("X-Opaque-Id", opaqueID)
	resp, err := a.client.Do(req)
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err // without the address, which is shown elsewhere
		}
		return nil, 0, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
	case resp.StatusCode != http.StatusOK:
		err = statusError{resp.StatusCode}
	case len(body) > maxAnswer:
		err = fmt.Errorf("the answer is longer than %d KiB", maxAnswer>>10)
	}
	return body, 0, err
}

// about asks for something about the node: the node itself or, if there is one, another node, which waits for it as long.
func (a *querier) about(ctx context.Context, via other, query string, deadline time.Duration) ([]byte, time.Duration, error) {
	if via.url == nil {
		return a.get(ctx, a.direct, "_nodes/_local"+query, deadline)
	}
	path := fmt.Sprintf("_nodes/%s%s&timeout=%dms", url.PathEscape(a.node), query, deadline.Milliseconds())
	return a.get(ctx, via.url, path, deadline+time.Second)
}

// stats asks the node itself for its counters or, if there is one, another node.
func (a *querier) stats(ctx context.Context, via other) (Counters, time.Duration, error) {
	body, took, err := a.about(ctx, via, statsQuery, statsDeadline)
	if err != nil {
		return Counters{}, took, err
	}
	c, err := parseStats(body, a.node)
	if via.url != nil && errors.Is(err, errNotTold) {
		err = fmt.Errorf("%s got no answer from the node", via.name)
	}
	c.Via = via.name
	return c, took, err
}

// hotThreads asks the node itself and, if that fails, another node.
func (a *querier) hotThreads(ctx context.Context) (h HotThreads, err error) {
	body, err := []byte(nil), errNotTold
	if a.direct != nil {
		body, _, err = a.about(ctx, other{}, hotQuery, hotDeadline)
	}
	if via := a.next(); via.url != nil && err != nil && !refused(err) {
		h.Via = via.name
		body, _, err = a.about(ctx, via, hotQuery, hotDeadline)
	}
	if err != nil {
		return h, err
	}
	h.At, h.Threads = Time{time.Now()}, parseHotThreads(string(body))
	if len(h.Threads) == 0 && !strings.Contains(string(body), ":::") {
		return h, errNotTold
	}
	return h, nil
}

// Task is a search that was running on the node. Its text is not kept.
type Task struct {
	Action  string  `json:"action"`
	Indices string  `json:"indices,omitempty"`
	Running float64 `json:"running_ms"`
}

// maxTasks bounds the running tasks that are kept, the longest-running ones.
const maxTasks = 20

// The description of a task begins with "indices[logs-1,logs-2], …" for a search and with
// "shardId[[logs-1][0]]" for the query of one shard.
var taskIndices = regexp.MustCompile(`^(?:indices\[([^\]]{0,200})|shardId\[\[([^\]]{0,200})\])`)

// tasks asks for the searches that run on the node.
func (a *querier) tasks(ctx context.Context) ([]Task, error) {
	base, nodes := a.direct, "_local"
	if base == nil {
		if base = a.next().url; base == nil {
			return nil, errNotTold
		}
		nodes = url.QueryEscape(a.node)
	}
	body, _, err := a.get(ctx, base, "_tasks?actions=*search*&detailed=true&nodes="+nodes+
		"&filter_path=nodes.*.tasks.*.action,nodes.*.tasks.*.description,nodes.*.tasks.*.running_time_in_nanos", statsDeadline)
	if err != nil {
		return nil, err
	}
	return parseTasks(body)
}

func parseTasks(body []byte) ([]Task, error) {
	var answer struct {
		Nodes map[string]struct {
			Tasks map[string]struct {
				Action      string `json:"action"`
				Description string `json:"description"`
				Nanos       int64  `json:"running_time_in_nanos"`
			} `json:"tasks"`
		} `json:"nodes"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, err
	}
	tasks := []Task{}
	for _, n := range answer.Nodes {
		for _, t := range n.Tasks {
			one := Task{Action: t.Action, Running: millis(time.Duration(t.Nanos))}
			if m := taskIndices.FindStringSubmatch(t.Description); m != nil {
				one.Indices = strings.Clone(m[1] + m[2]) // else the whole text would stay in memory
			}
			tasks = append(tasks, one)
		}
	}
	slices.SortFunc(tasks, func(a, b Task) int { return cmp.Compare(b.Running, a.Running) })
	return tasks[:min(len(tasks), maxTasks)], nil
}

// Pending are the tasks that wait for the elected cluster manager.
type Pending struct {
	Tasks   int     `json:"tasks"`
	Longest float64 `json:"longest_ms"`
}

// pending asks another node for the tasks that wait for the cluster manager.
func (a *querier) pending(ctx context.Context) (*Pending, error) {
	via := a.next()
	if via.url == nil {
		return nil, errNotTold
	}
	body, _, err := a.get(ctx, via.url, "_cluster/pending_tasks?filter_path=tasks.time_in_queue_millis", statsDeadline)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Tasks []struct {
			Millis float64 `json:"time_in_queue_millis"`
		} `json:"tasks"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, err
	}
	p := &Pending{Tasks: len(answer.Tasks)}
	for _, t := range answer.Tasks {
		p.Longest = max(p.Longest, t.Millis)
	}
	return p, nil
}
