package proxy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sidestep/internal/bulk"
	"sidestep/internal/cluster"
)

// BulkExplanation says what would be done with a bulk that writes to an index, and why.
type BulkExplanation struct {
	Index string `json:"index"`
	Mode  Mode   `json:"mode"` // of bulks
	// Planned says whether operations without an id and a routing would be given a
	// routing; Reason why (not), and Summary the same in words.
	Planned bool   `json:"planned"`
	Reason  string `json:"reason"`
	Summary string `json:"summary"`
	// Selected says whether bulk.single_shard names the index.
	Selected bool `json:"selected"`
	// WriteIndex is the index that gets the documents, empty while it is not known.
	WriteIndex string `json:"write_index,omitempty"`
	// Choice is how the shard would be chosen, empty where none is.
	Choice bulk.Choice `json:"choice,omitempty"`
	Avoid  bool        `json:"avoid"` // shards in trouble are avoided
	// Ignored are the troubles of nodes that do not count now, as no shard would be left.
	Ignored []string `json:"ignored,omitempty"`
	// Skew is what the fullest shard got since sidestep first wrote to the index,
	// relative to the mean, and MaxSkew its bound.
	Skew    float64     `json:"skew,omitempty"`
	MaxSkew float64     `json:"max_skew"`
	Shards  []BulkShard `json:"shards,omitempty"`
}

// BulkShard is a shard that a bulk may be written to.
type BulkShard struct {
	Shard   int    `json:"shard"`
	Routing string `json:"routing"` // value that leads to it
	// Documents is what it got since sidestep first wrote to the index, Level the same
	// relative to the mean, in documents or bytes and with the bulks on their way, and
	// Full that it is to get no more before the others have.
	Documents   int64   `json:"documents"`
	Outstanding int     `json:"outstanding"` // bulks on their way
	Level       float64 `json:"level"`
	Full        bool    `json:"full,omitempty"`
	Chance      float64 `json:"chance"` // of being chosen, 0 to 1
	// PerDocument is the time that bulks take for each document; null if none has ended.
	PerDocument *float64 `json:"per_document_ms"`
	// Avoided says why the shard is sick, empty if it is not.
	Avoided []string   `json:"avoided,omitempty"`
	Copies  []BulkCopy `json:"copies"`
}

// BulkCopy is a copy of a shard: a write waits for all that are there.
type BulkCopy struct {
	Node    string `json:"node,omitempty"` // empty: on none
	NodeID  string `json:"node_id,omitempty"`
	Primary bool   `json:"primary"`
	State   string `json:"state"` // of the copy
	// Trouble is the state of a node that is not to be written to, not_known, or
	// writes_queue; empty if it may be.
	Trouble string `json:"trouble,omitempty"`
}

// ExplainBulk tells what would be done with a bulk whose operations are for an index and
// have neither an id nor a routing. An index not seen before is learned in the
// background: ask again.
func (p *Proxy) ExplainBulk(name string) BulkExplanation {
	o, v := &p.o.Bulk, p.view.Load()
	e := BulkExplanation{Index: name, Mode: p.BulkMode(), Avoid: o.Avoid, MaxSkew: o.MaxSkew}
	index, why := p.bulkIndex(v, name)
	e.Selected, e.WriteIndex = why != bulk.ReasonNotSelected, index.WriteIndex
	switch {
	case e.Mode == ModeOff:
		e.Reason = reasonOff
	case why != "":
		e.Reason = string(why)
	case e.Mode == ModeObserve:
		e.Reason = string(bulk.ReasonObserve)
	default:
		e.Reason, e.Planned = reasonOneShard, true
	}
	if why == "" {
		p.explainShardsOf(&e, v, index)
	}
	e.Summary = e.summarize()
	return e
}

// explainShardsOf tells how the shards stand.
func (p *Proxy) explainShardsOf(e *BulkExplanation, v *view, index bulk.Index) {
	book := p.o.Bulk.Books.Look(index, p.o.Bulk.MaxSkew)
	p.count(book, e.Index)
	copies, _ := v.snapshot.Lookup(index.WriteIndex)
	sick := p.sickShards(v, book, copies, time.Now())
	standings, how := book.Preview(sick.is)
	times := book.Times()
	e.Choice, e.Skew, e.Ignored = how, book.Skew(), sick.ignored
	for shard, s := range standings {
		one := BulkShard{
			Shard: shard, Routing: index.Values[shard], Documents: s.Documents, Outstanding: s.Outstanding,
			Level: s.Level, Full: !s.Room, Chance: s.Chance,
		}
		if took := times[shard]; took > 0 {
			ms := float64(took) / float64(time.Millisecond)
			one.PerDocument = &ms
		}
		for _, c := range sick.copies(shard) {
			one.Copies = append(one.Copies, p.explainCopy(v, c))
		}
		if sick.is(shard) {
			one.Avoided = sick.reproaches(shard, one.Copies)
		}
		e.Shards = append(e.Shards, one)
	}
}

// explainCopy tells of a copy and its node.
func (p *Proxy) explainCopy(v *view, c cluster.Copy) BulkCopy {
	one := BulkCopy{NodeID: c.Node, Primary: c.Kind == 'p', State: string(c.State)}
	if at, ok := v.snapshot.Position(c.Node); ok {
		one.Node = v.snapshot.Nodes[at].Name
	}
	if c.Serving() {
		one.Trouble = p.troubleOf(v, c.Node)
	}
	return one
}

// reproaches says in words why a shard is avoided.
func (s *sickness) reproaches(shard int, copies []BulkCopy) (why []string) {
	switch s.slowness(shard) {
	case bulk.SlowPace:
		why = append(why, "bulks take longer than on the other shards")
	case bulk.SlowSilent:
		why = append(why, "bulks are on their way and none has ended for long")
	}
	for _, c := range copies {
		switch {
		case c.Trouble == "" || slices.Contains(s.ignored, c.Trouble):
		case c.Trouble == troubleWrites:
			why = append(why, "the write pool of "+c.Node+" has more to do than it can")
		case c.Trouble == troubleAway:
			why = append(why, "node "+c.NodeID+" is not known")
		default:
			why = append(why, c.Node+" is "+c.Trouble)
		}
	}
	return why
}

// bulkTexts say in words why the operations of a bulk stay as they are.
var bulkTexts = map[string]string{
	reasonOff:                          "The mode of bulks is off.",
	string(bulk.ReasonObserve):         "The mode of bulks is observe: what would be done is counted, but nothing is changed.",
	string(bulk.ReasonNotSelected):     "bulk.single_shard does not name the index.",
	string(bulk.ReasonUnknown):         "Nothing is known of the index yet: it is being looked up in the background. Ask again.",
	string(bulk.ReasonAlias):           "The name is an alias, whose index may change at any moment.",
	string(bulk.ReasonClosed):          "The index is closed.",
	string(bulk.ReasonOneShard):        "The index has one shard: its documents are together already.",
	string(bulk.ReasonPartitioned):     "The index has a routing_partition_size: one routing value means several shards.",
	string(bulk.ReasonRoutedByFields):  "Fields of the documents decide about their shards.",
	string(bulk.ReasonRoutingRequired): "The index requires a routing, which the engine is to ask for.",
	string(bulk.ReasonJoinField):       "The index has a join field: children belong to the shard of their parent.",
	string(bulk.ReasonPipeline):        "The index has a pipeline, which may set id, routing or index.",
	string(bulk.ReasonNoCustomRouting): "The name is a data stream: the engines refuse a routing.",
	string(bulk.ReasonUnreadable):      "The metadata of the index does not say how its documents are spread.",
}

// summarize says in words what would be done and why.
func (e *BulkExplanation) summarize() string {
	if !e.Planned {
		text := bulkTexts[e.Reason]
		if text == "" {
			text = "The reason is " + e.Reason + "."
		}
		return "Its operations stay as the client wrote them. " + text
	}
	text := "Operations without an id and a routing get the routing of one shard. "
	var sick, drawn []string
	for _, s := range e.Shards {
		if len(s.Avoided) > 0 {
			sick = append(sick, fmt.Sprint(s.Shard))
		}
		if s.Chance > 0 {
			drawn = append(drawn, fmt.Sprint(s.Shard))
		}
	}
	switch e.Choice {
	case bulk.ChoiceEven:
		which := "Any shard"
		if len(drawn) < len(e.Shards) {
			which = "One of " + strings.Join(drawn, ", ") + ", which have room,"
		}
		text += which + " may be chosen, those with less than the mean more often"
	case bulk.ChoiceAvoided:
		text += "One of " + strings.Join(drawn, ", ") + " is chosen; avoided: " + strings.Join(sick, ", ")
	case bulk.ChoiceBound:
		text += "The shards that are not in trouble have as much as bulk.max_skew allows, so that one of " + strings.Join(drawn, ", ") + " is chosen"
	case bulk.ChoiceAllSick:
		text += "All shards are in trouble, so none is avoided"
	}
	switch len(e.Ignored) {
	case 0:
	case 1:
		text += ". Write pools that have more to do than they can do not count, as no shard would be left"
	default:
		text += ". Nodes in trouble do not count, as no shard would be left"
	}
	return text + "."
}

// BulkSkew returns the skew of the most uneven index that bulks were written to in the
// last hour, and its name; 0 if there is none.
func (p *Proxy) BulkSkew() (index string, skew float64) {
	if p.o.Bulk.Books == nil {
		return "", 0
	}
	skews := p.o.Bulk.Books.Skews(time.Now().Add(-skewAge))
	for _, name := range slices.Sorted(maps.Keys(skews)) {
		if skews[name] > skew {
			index, skew = name, skews[name]
		}
	}
	return index, skew
}

// BulkIndex is how an index stands that bulks are written to.
type BulkIndex struct {
	Index string `json:"index"`
	// Bulks counts those that were stored, and of which operations were kept on one of
	// its Shards; Avoided are the shards that are avoided now.
	Bulks   int64 `json:"bulks"`
	Shards  int   `json:"shards"`
	Avoided []int `json:"avoided"`
	// Skew is what the fullest shard got, relative to the mean; null before that is eight
	// bulks a shard.
	Skew *float64 `json:"skew"`
}

// maxBulkIndices is how many indices are shown.
const maxBulkIndices = 20

// BulkIndices returns the indices that bulks were written to in the last hour, those with
// the most bulks, by name.
func (p *Proxy) BulkIndices() []BulkIndex {
	all := []BulkIndex{}
	v := p.view.Load()
	if p.o.Bulk.Books == nil || v.snapshot == nil {
		return all
	}
	now := time.Now()
	books := p.o.Bulk.Books.Used(now.Add(-skewAge))
	for name, book := range books {
		all = append(all, BulkIndex{Index: name, Bulks: book.Bulks.Load(), Shards: len(book.Times()), Avoided: []int{}})
	}
	slices.SortFunc(all, func(a, b BulkIndex) int {
		return cmp.Or(cmp.Compare(b.Bulks, a.Bulks), strings.Compare(a.Index, b.Index))
	})
	all = all[:min(len(all), maxBulkIndices)]
	slices.SortFunc(all, func(a, b BulkIndex) int { return strings.Compare(a.Index, b.Index) })
	for i := range all {
		one, book := &all[i], books[all[i].Index]
		if book.Settled() {
			skew := book.Skew()
			one.Skew = &skew
		}
		copies, _ := v.snapshot.Lookup(one.Index)
		sick := p.sickShards(v, book, copies, now)
		for shard := range one.Shards {
			if sick.is(shard) {
				one.Avoided = append(one.Avoided, shard)
			}
		}
	}
	return all
}
