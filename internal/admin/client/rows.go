package client

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// row is one node in the table of top.
type row struct {
	node
	perSecond *float64 // searches; nil: not known
}

// rows joins nodes with their rates.
func rows(s status, r rates) []row {
	out := make([]row, len(s.Nodes))
	for i, n := range s.Nodes {
		out[i] = row{node: n}
		if v, ok := r.searches[n.ID]; ok {
			out[i].perSecond = &v
		}
	}
	return out
}

// column is one of the table of top.
type column struct {
	title string
	width int // of narrow terminals; the first one takes what is left
	left  bool
	tail  bool // of what is too long the end is shown: names differ there
	text  func(r row) string
	// compare sorts what an operator looks for first: trouble, and much of it.
	compare func(a, b row) int
}

// columns of top, in order.
func columns() []column {
	number := func(title string, width int, text func(r row) string, value func(r row) float64) column {
		return column{title: title, width: width, text: text, compare: func(a, b row) int { return cmp.Compare(value(b), value(a)) }}
	}
	return []column{
		{title: "NODE", width: 8, left: true, text: func(r row) string { return r.Name }, tail: true, compare: func(a, b row) int { return strings.Compare(a.Name, b.Name) }},
		{title: "STATE", width: 12, left: true, text: func(r row) string { return r.State }, compare: func(a, b row) int { return cmp.Compare(trouble(b.State), trouble(a.State)) }},
		number("RANK", 5, func(r row) string { return optional(r.Rank, figure) }, func(r row) float64 { return orZero(r.Rank) }),
		number("RESP", 5, func(r row) string { return measured(r.Rank, r.Parts.ResponseTime) }, func(r row) float64 { return r.Parts.ResponseTime }),
		number("SERV", 5, func(r row) string { return measured(r.Rank, r.Parts.ServiceTime) }, func(r row) float64 { return r.Parts.ServiceTime }),
		number("QUEUE", 5, func(r row) string { return measured(r.Rank, r.Parts.Queue) }, func(r row) float64 { return r.Parts.Queue }),
		number("OUT", 4, func(r row) string { return fmt.Sprint(r.Outstanding) }, func(r row) float64 { return float64(r.Outstanding) }),
		number("SHARE", 5, func(r row) string { return percent(r.Share) }, func(r row) float64 { return r.Share }),
		number("SRCH/S", 6, func(r row) string { return optional(r.perSecond, figure) }, func(r row) float64 { return orZero(r.perSecond) }),
		number("COORD", 5, func(r row) string { return optional(r.Coordinates, percent) }, func(r row) float64 { return orZero(r.Coordinates) }),
		number("FAIL", 5, func(r row) string { return whole(r.Failures) }, func(r row) float64 { return float64(r.Failures) }),
		number("POLL", 4, func(r row) string { return optional(r.PollAge, figure) }, func(r row) float64 { return orZero(r.PollAge) }),
	}
}

// columnState is the column that rows are sorted by at first.
const columnState = 1

// unknown stands for what is not known.
const unknown = "-"

// byTrouble are the states of nodes: the later one is, the sooner somebody should look.
func byTrouble() []string {
	return []string{"fine", "unknown", "ramping", "busy", "slow", "failing", "unresponsive", "unreachable"}
}

func trouble(state string) int { return slices.Index(byTrouble(), state) }

// order sorts rows by a column, and what is alike there by name.
func order(rows []row, by column, reverse bool) {
	slices.SortStableFunc(rows, func(a, b row) int {
		c := by.compare(a, b)
		if reverse {
			c = -c
		}
		return cmp.Or(c, strings.Compare(a.Name, b.Name))
	})
}

func orZero(p *float64) float64 {
	if p == nil {
		return 0
	}
	return *p
}

func optional(p *float64, text func(float64) string) string {
	if p == nil {
		return unknown
	}
	return text(*p)
}

// measured prints a part of a rank, if there is one.
func measured(rank *float64, part float64) string {
	if rank == nil {
		return unknown
	}
	return figure(part)
}

// percent prints a part of one.
func percent(part float64) string { return fmt.Sprintf("%.0f%%", 100*part) }

// figure prints a number in at most six characters.
func figure(v float64) string {
	abs := max(v, -v)
	switch {
	case abs < 99.95:
		return fmt.Sprintf("%.1f", v)
	case abs < 99_999.5:
		return fmt.Sprintf("%.0f", v)
	case abs < 9_999_500:
		return fmt.Sprintf("%.0fk", v/1e3)
	}
	return fmt.Sprintf("%.1e", v)
}

// whole prints a count in at most five characters, up to a billion.
func whole(n int64) string {
	switch {
	case n < 100_000:
		return fmt.Sprint(n)
	case n < 10_000_000:
		return fmt.Sprintf("%dk", n/1000)
	}
	return fmt.Sprintf("%dM", n/1_000_000)
}

// age prints how long something takes or has lasted.
func age(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d days", int(d.Hours())/24)
}
