package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// record is the answer of /spikes/{id}, as far as it is shown.
type record struct {
	spike
	Evidence []evidence `json:"evidence"`
	Causes   []struct {
		Cause    string     `json:"cause"`
		Score    float64    `json:"score"`
		Evidence []evidence `json:"evidence"`
	} `json:"causes"`
	Samples  timeline `json:"samples"`
	Captures []struct {
		Error string   `json:"error"`
		Notes []string `json:"notes"`
	} `json:"captures"`
	HotThreads []struct {
		At      time.Time `json:"at"`
		Threads []struct {
			Name string  `json:"name"`
			CPU  float64 `json:"cpu_percent"`
		} `json:"threads"`
	} `json:"hot_threads"`
}

// evidence is one finding with its figure.
type evidence struct {
	Text  string  `json:"text"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

// timeline holds samples in parallel lists; the first series is the node's, the
// second the median of the others.
type timeline struct {
	At    []time.Time `json:"at"`
	Nodes []series    `json:"nodes"`
}

// series holds the samples of one node, nil where nothing is known.
type series struct {
	Response []*float64 `json:"response_ms"`
	Share    []*float64 `json:"share"`
	Queue    []*float64 `json:"queue"`
	Active   []*float64 `json:"active"`
	Poll     []*float64 `json:"poll_ms"`
	State    []*string  `json:"state"`
}

// moment has the zone: ids, and the logs of nodes and containers, are in UTC, whatever the terminal's zone is.
const moment = time.DateTime + " MST"

// Spikes prints a list of the spikes on record.
func Spikes(ctx context.Context, c *Client, out io.Writer, f Format) error {
	var told struct {
		Spikes []spike `json:"spikes"`
		Off    bool    `json:"off"`
	}
	raw, err := c.ask(ctx, question{path: "spikes"}, &told)
	if err != nil {
		return err
	}
	if f == JSON {
		return indented(out, raw)
	}
	switch {
	case told.Off:
		printf(out, "spikes are not recorded: diagnosis.enabled is false")
	case len(told.Spikes) == 0:
		printf(out, "no spikes: no node has stood out since records are kept")
	}
	if len(told.Spikes) == 0 {
		return nil
	}
	g := newGrid(out, "ID", "NODE", "BEGAN", "LASTED", "STATE", "CAUSE", "SUMMARY")
	for _, s := range told.Spikes {
		lasted := "still does"
		if s.Ended != nil {
			lasted = age(s.Ended.Sub(s.Began))
		}
		g.row(s.ID, s.Node, s.Began.Local().Format(moment), lasted, s.State, s.Cause, s.Summary)
	}
	g.flush()
	return nil
}

// Spike prints one record: what was the cause, what speaks for it, and how it went.
func Spike(ctx context.Context, c *Client, out io.Writer, f Format, id string) error {
	var r record
	raw, err := c.ask(ctx, question{path: "spikes/" + url.PathEscape(id)}, &r)
	if errors.As(err, new(notFound)) {
		return fmt.Errorf("there is no spike %s: sidestep spikes lists those on record", id)
	}
	if err != nil {
		return err
	}
	if f == JSON {
		return indented(out, raw)
	}
	r.print(out)
	return nil
}

func (r record) print(out io.Writer) {
	ended := "lasts"
	if r.Ended != nil {
		ended = "ended " + r.Ended.Local().Format(moment) + ", after " + age(r.Ended.Sub(r.Began))
	}
	printf(out, "spike %s: %s, began %s, %s", r.ID, r.Node, r.Began.Local().Format(moment), ended)
	if r.Summary != "" {
		printf(out, "%s", r.Summary)
	}
	printf(out, "seen as %s: %s", r.State, r.Why)
	printf(out, "\ncause: %s", r.Cause)
	tell(out, r.Evidence)
	for _, c := range r.Causes {
		if c.Cause != r.Cause && c.Score > 0 {
			printf(out, "also thought of: %s (%.2f)", c.Cause, c.Score)
			tell(out, c.Evidence)
		}
	}
	r.Samples.print(out, r.Node)
	r.threads(out)
	r.missing(out)
}

// missing says what could not be captured.
func (r record) missing(out io.Writer) {
	var why []string
	times := map[string]int{}
	for _, c := range r.Captures {
		for _, w := range append([]string{c.Error}, c.Notes...) {
			if times[w]++; w != "" && times[w] == 1 {
				why = append(why, w)
			}
		}
	}
	if len(why) > 0 {
		printf(out, "\nnot captured:")
	}
	for _, w := range why {
		if n := times[w]; n > 1 {
			w += fmt.Sprintf(" (%d times)", n)
		}
		printf(out, "  %s", w)
	}
}

func tell(out io.Writer, all []evidence) {
	for _, e := range all {
		printf(out, "  %s: %s", e.Text, strings.TrimSpace(strconv.FormatFloat(e.Value, 'f', -1, 64)+" "+e.Unit))
	}
}

// maxLines bounds the timeline: of longer ones every n-th sample is shown.
const maxLines = 24

func (t timeline) print(out io.Writer, name string) {
	if len(t.At) == 0 || len(t.Nodes) == 0 {
		return
	}
	fmt.Fprintln(out)
	var others series
	if len(t.Nodes) > 1 {
		others = t.Nodes[1]
	}
	own := t.Nodes[0]
	g := newGrid(out, "TIME", "STATE", "RESPONSE", "OTHERS'", "SHARE", "QUEUE", "OTHERS'", "ACTIVE", "POLL")
	step := (len(t.At) + maxLines - 1) / maxLines
	for i := 0; i < len(t.At); i += step {
		state := unknown
		if i < len(own.State) && own.State[i] != nil {
			state = *own.State[i]
		}
		share := at(own.Share, i)
		g.row(t.At[i].Local().Format(time.TimeOnly), state, optional(at(own.Response, i), figure), optional(at(others.Response, i), figure),
			optional(share, func(v float64) string { return fmt.Sprintf("%.0f%%", 100*v) }),
			optional(at(own.Queue, i), figure), optional(at(others.Queue, i), figure), optional(at(own.Active, i), figure), optional(at(own.Poll, i), figure))
	}
	g.flush()
	printf(out, "times in ms, of %s; others': their median; every %d s", name, step*int(max(1, t.grain().Seconds())))
}

// grain is the time between two samples.
func (t timeline) grain() time.Duration {
	if len(t.At) < 2 {
		return time.Second
	}
	return t.At[1].Sub(t.At[0]).Round(time.Second)
}

func at(values []*float64, i int) *float64 {
	if i >= len(values) {
		return nil
	}
	return values[i]
}

// maxThreads is how many of the hottest threads are named.
const maxThreads = 5

func (r record) threads(out io.Writer) {
	if len(r.HotThreads) == 0 || len(r.HotThreads[0].Threads) == 0 {
		return
	}
	first := r.HotThreads[0]
	printf(out, "\nhot threads at %s", first.At.Local().Format(time.TimeOnly))
	for _, thread := range first.Threads[:min(len(first.Threads), maxThreads)] {
		printf(out, "  %5.1f %%  %s", thread.CPU, thread.Name)
	}
}
