package client

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
)

// look is how a piece of text is to stand out. Nothing is told by it alone.
type look int

// Looks.
const (
	plain  look = iota
	strong      // headings
	good
	middling
	bad
)

// view is everything that the screen of top is made of.
type view struct {
	trail         trail
	sort          int // column
	reverse       bool
	paused        bool
	offset        int // rows scrolled by
	width, height int
	problem       string // why there is nothing new; empty while there is
	// style makes text look like something; nil leaves it plain.
	style func(look, string) string
}

// Lines that are not the table's: four of head, one of the table's own, one of keys.
const frame = 6

// render lays the screen out in lines, none longer than the width and no more than
// the height.
func (v view) render() []string {
	s, r := v.trail.latest(), v.trail.rates()
	lines := v.head(s, r)
	lines = append(lines, v.line(strong, v.titles()))
	table := v.table(s, r)
	room := v.room(len(table))
	offset := min(v.offset, len(table)-room)
	shown := table[offset:min(len(table), offset+room)]
	if rest := len(table) - offset - len(shown); rest > 0 && len(shown) > 0 {
		shown = append(shown[:len(shown)-1:len(shown)-1], v.line(plain, fmt.Sprintf("… %d more lines below", rest+1)))
	}
	return append(lines, shown...)
}

// room returns how many of so many lines of the table fit.
func (v view) room(lines int) int {
	if v.height <= 0 {
		return lines
	}
	return min(lines, max(1, v.height-frame))
}

// head says how sidestep is doing.
func (v view) head(s status, r rates) []string {
	first := "sidestep " + s.Version
	if s.Engine.Name != "" {
		first += " · " + s.Engine.Name + " " + s.Engine.Version
	}
	first += " · mode " + s.Mode + " · " + s.At.Local().Format("15:04:05")
	if v.paused {
		first += " · paused"
	}
	ready, readyLook := "ready", good
	if !s.Ready.OK {
		ready, readyLook = "not ready: "+s.Ready.Missing, bad
	}
	if v.problem != "" {
		ready, readyLook = fmt.Sprintf("nothing new since %s: %s", s.At.Local().Format("15:04:05"), v.problem), bad
	}
	return []string{
		v.line(strong, first), v.line(readyLook, ready+" · "+states(s.Nodes)), v.line(plain, traffic(s, r)+admissionOf(s)+bulks(s)), v.spikeLine(s),
	}
}

// admissionOf tells of searches and writes that wait, and of those that were given up since
// the start, if any do.
func admissionOf(s status) string {
	if s.Admission == nil {
		return ""
	}
	mode := s.Admission.Mode
	if w := s.Admission.Writes; w != "" && w != "off" {
		mode += ", of writes " + w
	}
	return fmt.Sprintf(" · admission %s: %d wait, %d refused, %d dropped", mode, s.Admission.Waiting, s.Admission.Refused, s.Admission.Dropped)
}

// bulks tells of bulks since the start, if any are kept on one shard.
func bulks(s status) string {
	if s.Bulks == nil {
		return ""
	}
	text := " · bulks "
	if s.Bulks.Mode != "route" {
		text += s.Bulks.Mode + ": "
	}
	text += fmt.Sprintf("%d one shard, %d mixed, %d passed", s.Bulks.Results["one_shard"]+s.Bulks.Results["one_slot"], s.Bulks.Results["mixed"], s.Bulks.Results["passed"])
	if s.Bulks.Index != "" {
		text += fmt.Sprintf(", skew %.2f", s.Bulks.Skew)
	}
	return text
}

// states counts the nodes by state, the worst first.
func states(nodes []node) string {
	by := map[string]int{}
	for _, n := range nodes {
		by[n.State]++
	}
	var parts []string
	for _, state := range slices.SortedFunc(maps.Keys(by), func(a, b string) int { return cmp.Or(trouble(b)-trouble(a), strings.Compare(a, b)) }) {
		parts = append(parts, fmt.Sprintf("%d %s", by[state], state))
	}
	return "nodes: " + cmp.Or(strings.Join(parts, ", "), "none known")
}

func traffic(s status, r rates) string {
	if !r.known {
		return fmt.Sprintf("%d requests, %d failovers, %d hedges since the start", s.Requests, sum(s.Failovers), made(s.Hedges))
	}
	steered := "steered"
	if s.Mode == "observe" {
		steered = "would steer"
	}
	return fmt.Sprintf("%s req/s · %s %.0f %%, left to engine %.0f %% · failovers %s/s · hedges %s/s",
		figure(r.requests), steered, 100*r.steered, 100*r.left, figure(r.failovers), figure(r.hedges))
}

// spikeLine tells of the newest spike that lasts, or of the newest.
func (v view) spikeLine(s status) string {
	switch {
	case len(s.Spikes) > 0:
	case s.SpikesOff:
		return v.line(plain, "spikes are not recorded (diagnosis.enabled)")
	default:
		return v.line(plain, "no spikes")
	}
	lasting := slices.DeleteFunc(slices.Clone(s.Spikes), func(k spike) bool { return k.Ended != nil })
	if len(lasting) == 0 {
		k := s.Spikes[0]
		return v.line(plain, fmt.Sprintf("spike: %s, %s: %s", k.Node, k.lasted(s.At), k.says()))
	}
	k, more := lasting[0], ""
	if n := len(lasting) - 1; n > 0 {
		more = fmt.Sprintf(" (and %d more)", n)
	}
	return v.line(middling, fmt.Sprintf("spike: %s, %s%s: %s", k.Node, k.lasted(s.At), more, k.says()))
}

// lasted says since when, or for how long until when.
func (k spike) lasted(now time.Time) string {
	if k.Ended == nil {
		return "for " + age(now.Sub(k.Began)) + " now"
	}
	return fmt.Sprintf("for %s, over since %s", age(k.Ended.Sub(k.Began)), age(now.Sub(*k.Ended)))
}

// says is the summary, or what there is of one.
func (k spike) says() string { return cmp.Or(k.Summary, k.Cause, k.Why) }

// titles heads the table.
func (v view) titles() string {
	cells := make([]string, 0, len(columns()))
	for i, c := range columns() {
		cells = append(cells, pad(c.title, v.columnWidth(i), c.left))
	}
	return strings.Join(cells, " ")
}

// keys is the last line of the screen.
func (v view) keys() string {
	order := columns()[v.sort].title
	if v.reverse {
		order += " reversed"
	}
	return v.line(plain, "q quit · ←→ sort: "+order+" · r reverse · ↑↓ scroll · p pause · times in ms")
}

// columnWidth returns how wide a column is: the first one takes what is left.
func (v view) columnWidth(i int) int {
	all := columns()
	if i > 0 {
		return all[i].width
	}
	const widest = 40
	if v.width == 0 {
		longest := all[0].width
		for _, n := range v.trail.latest().Nodes {
			longest = max(longest, lipgloss.Width(Printable(n.Name)))
		}
		return min(longest, widest)
	}
	others := len(all) - 1 // spaces between
	for _, c := range all[1:] {
		others += c.width
	}
	return min(max(all[0].width, v.width-others), widest)
}

// table has a line for each node, and one more for what speaks against it, or that it leaves.
func (v view) table(s status, r rates) []string {
	all := rows(s, r)
	order(all, columns()[v.sort], v.reverse)
	var lines []string
	for _, one := range all {
		cells := make([]string, 0, len(columns()))
		for i, c := range columns() {
			text, width := c.text(one), v.columnWidth(i)
			if c.tail {
				text = tail(text, width)
			}
			cells = append(cells, pad(text, width, c.left))
		}
		lines = append(lines, v.line(lookOf(one.State), strings.Join(cells, " ")))
		if one.Leaving != "" {
			lines = append(lines, v.line(plain, "  about to leave: "+one.Leaving))
		}
		if one.Why == "" {
			continue
		}
		why := "  "
		if one.Since != nil {
			why += "for " + age(s.At.Sub(*one.Since)) + ": "
		}
		lines = append(lines, v.line(plain, why+one.Why))
	}
	return lines
}

func lookOf(state string) look {
	switch state {
	case "fine", notPolled:
		return plain
	case "busy", "ramping", "unknown":
		return middling
	}
	return bad
}

// line cuts text to the width and styles it.
func (v view) line(l look, text string) string {
	text = cut(text, v.width)
	if v.style == nil {
		return text
	}
	return v.style(l, text)
}

// cut makes text printable and shortens it to a width in columns of a terminal; 0 is without end.
func cut(text string, width int) string {
	text = Printable(text)
	if width <= 0 || lipgloss.Width(text) <= width {
		return text
	}
	runes := []rune(text)
	runes = runes[:min(len(runes), width)]
	for lipgloss.Width(string(runes)) >= width { // some characters are wide
		runes = runes[:len(runes)-1]
	}
	return string(runes) + "…"
}

// tail is cut for text of which the end is kept.
func tail(text string, width int) string {
	text = Printable(text)
	if lipgloss.Width(text) <= width {
		return text
	}
	runes := []rune(text)
	runes = runes[max(0, len(runes)-width):]
	for lipgloss.Width(string(runes)) >= width {
		runes = runes[1:]
	}
	return "…" + string(runes)
}

// pad fills or cuts text to a width.
func pad(text string, width int, left bool) string {
	text = cut(text, width)
	fill := strings.Repeat(" ", max(0, width-lipgloss.Width(text)))
	if left {
		return text + fill
	}
	return fill + text
}
