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
	Avoid  bool        `json:"avoid"` // whether shards in trouble are avoided
	// Ignored are the troubles of nodes that do not count now, as no shard would be left.
	Ignored []string `json:"ignored,omitempty"`
	// Skew is what the fullest shard got since sidestep first wrote to the index,
	// relative to the mean, and MaxSkew its bound.
	Skew    float64     `json:"skew,omitempty"`
	MaxSkew float64     `json:"max_skew"`
	Shards  []BulkShard `json:"shards,omitempty"`
	// Routed is about operations that have a routing of the client's; null where
	// bulk.routing_size does not name the index.
	Routed *RoutedExplanation `json:"routed,omitempty"`
}

// RoutedExplanation says what would be done with operations that have a routing and no id.
type RoutedExplanation struct {
	Size    int         `json:"size"`   // of the slots, in shards
	Writes  bool        `json:"writes"` // bulks are written to one slot, as far as configured
	Planned bool        `json:"planned"`
	Reason  string      `json:"reason"` // why (not)
	Choice  bulk.Choice `json:"choice,omitempty"`
	Slots   []BulkSlot  `json:"slots,omitempty"`
}

// BulkSlot is a slot that a bulk may be written to: the shards from First on.
type BulkSlot struct {
	Slot      int     `json:"slot"`
	First     int     `json:"first_shard"`
	Documents int64   `json:"documents"` // since sidestep first wrote to the slot
	Level     float64 `json:"level"`
	Chance    float64 `json:"chance"` // of being chosen, 0 to 1
	Avoided   bool    `json:"avoided,omitempty"`
	Through   string  `json:"through,omitempty"` // as of a [BulkShard]
}

// BulkShard is a shard that a bulk may be written to.
type BulkShard struct {
	Shard   int    `json:"shard"`
	Routing string `json:"routing"` // a value that leads to it
	// Documents is what it got since sidestep first wrote to the index, Level the same
	// relative to the mean, in documents or bytes and with the bulks on their way, and
	// Full that it is to get no more before the others have.
	Documents   int64   `json:"documents"`
	Outstanding int     `json:"outstanding"` // bulks in flight
	Level       float64 `json:"level"`
	Full        bool    `json:"full,omitempty"`
	Chance      float64 `json:"chance"` // of being chosen, 0 to 1
	// PerDocument is the time that bulks take for each document; null if none has ended.
	PerDocument *float64 `json:"per_document_ms"`
	// Avoided says why the shard is sick, empty if it is not.
	Avoided []string `json:"avoided,omitempty"`
	// Through is the node with the primary copy, if a bulk is sent through that; else it goes through one of all nodes, in
	// turn, or to the addresses given.
	Through string     `json:"through,omitempty"`
	Copies  []BulkCopy `json:"copies"`
}

// BulkCopy is a copy of a shard: a write waits for all copies.
type BulkCopy struct {
	Node    string `json:"node,omitempty"` // empty: on none
	NodeID  string `json:"node_id,omitempty"`
	Primary bool   `json:"primary"`
	State   string `json:"state"` // of the copy
	// Trouble is the state of a node that is better not written to, not_known, or
	// writes_queue; else empty.
	Trouble string `json:"trouble,omitempty"`
	Leaving bool   `json:"leaving,omitempty"` // the node is about to leave
}

// ExplainBulk returns what would be done with a bulk whose operations are for an index
// and have neither an id nor a routing. An unknown index is looked up in the background:
// call again.
func (p *Proxy) ExplainBulk(name string) BulkExplanation {
	o, v := &p.o.Bulk, p.view.Load()
	e := BulkExplanation{Index: name, Mode: p.BulkMode(), Avoid: o.Avoid, MaxSkew: o.MaxSkew}
	_, index, why := p.slotsFor(v, bulk.Part{Index: name})
	e.Selected, e.WriteIndex = why != bulk.ReasonNotSelected, index.WriteIndex
	e.Reason, e.Planned = e.decide(why, reasonOneShard)
	if why == "" {
		p.explainShardsOf(&e, v, index)
	}
	e.Summary = e.summarize()
	p.explainSlots(&e, v)
	e.Summary += e.through(v)
	return e
}

// decide returns whether operations are given a routing, if nothing but why speaks against it, and the reason.
func (e *BulkExplanation) decide(why bulk.Reason, planned string) (reason string, yes bool) {
	switch {
	case e.Mode == ModeOff:
		return reasonOff, false
	case why != "":
		return string(why), false
	case e.Mode == ModeObserve:
		return string(bulk.ReasonObserve), false
	}
	return planned, true
}

// through says in words through which node a bulk goes.
func (e *BulkExplanation) through(v *view) string {
	unnamed := v.throughAny()
	if unnamed.Why == viaAny && (e.Planned || e.Routed != nil && e.Routed.Planned) {
		return " It would be sent through the first node with a primary copy of its shards that is neither in trouble nor about to leave, or, if there is none, through one of all nodes, in turn."
	}
	return unnamed.text()
}

// throughPrimary returns the name of the node with the primary copy of a shard, if a bulk for the shard is sent through it.
func (p *Proxy) throughPrimary(v *view, index string, shard int) string {
	copies, _ := v.snapshot.Lookup(index)
	now := time.Now()
	if u := p.named(v, p.near(v, copies, shard, now), now); u != nil {
		return u.node.Name
	}
	return ""
}

// preview tells of the slots of an index, of so many shards each, how the next bulk is given one.
func (p *Proxy) preview(v *view, name string, index bulk.Index, size int) (*bulk.Book, *sickness, []bulk.Standing, bulk.Choice) {
	book := p.o.Bulk.Books.Look(index, size, p.o.Bulk.MaxSkew)
	p.count(book, name)
	copies, _ := v.snapshot.Lookup(index.WriteIndex)
	sick := p.sickSlots(v, book, copies, time.Now())
	standings, how := book.Preview(sick.fit)
	return book, sick, standings, how
}

// explainSlots adds what would be done with operations that have a routing.
func (p *Proxy) explainSlots(e *BulkExplanation, v *view) {
	entry, ok := p.o.Bulk.logicalOf(e.Index)
	if !ok {
		return
	}
	r := &RoutedExplanation{Size: entry.Size, Writes: entry.Writes}
	e.Routed = r
	slots, index, why := p.slotsFor(v, bulk.Part{Index: e.Index, Routed: true})
	if r.Reason, r.Planned = e.decide(why, reasonOneSlot); r.Planned {
		e.Summary += fmt.Sprintf(" Operations with a routing and without an id go to one of %d slots of %d shards; searches by routing visit all slots.", slots.Slots(), entry.Size)
	} else {
		e.Summary += " Operations with a routing stay, too, whatever bulk.routing_size says. " + cmp.Or(bulkTexts[r.Reason], "The entry has writes: false.")
	}
	if why != "" {
		return
	}
	_, sick, standings, how := p.preview(v, e.Index, index, entry.Size)
	r.Choice = how
	for slot, s := range standings {
		one := BulkSlot{
			Slot: slot, First: slot * entry.Size, Documents: s.Documents, Level: s.Level, Chance: s.Chance, Avoided: sick.is(slot),
		}
		if r.Planned {
			one.Through = p.throughPrimary(v, index.WriteIndex, one.First)
		}
		r.Slots = append(r.Slots, one)
	}
}

// explainShardsOf adds the state of the shards.
func (p *Proxy) explainShardsOf(e *BulkExplanation, v *view, index bulk.Index) {
	book, sick, standings, how := p.preview(v, e.Index, index, 1)
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
		if e.Planned {
			one.Through = p.throughPrimary(v, index.WriteIndex, shard)
		}
		for _, c := range sick.copies(shard) {
			one.Copies = append(one.Copies, p.explainCopy(v, c))
		}
		if sick.is(shard) {
			one.Avoided = sick.evidenceAgainst(shard, one.Copies)
		}
		e.Shards = append(e.Shards, one)
	}
}

// explainCopy describes a copy and its node.
func (p *Proxy) explainCopy(v *view, c cluster.Copy) BulkCopy {
	one := BulkCopy{NodeID: c.Node, Primary: c.Kind == 'p', State: string(c.State), Trouble: p.troubleAt(v, c)}
	if at, ok := v.snapshot.Position(c.Node); ok {
		one.Node, one.Leaving = v.nodes[at].Name, p.o.Selector.Leaves(v.nodes[at], time.Now())
	}
	return one
}

// evidenceAgainst says why a shard is avoided, in words.
func (s *sickness) evidenceAgainst(shard int, copies []BulkCopy) (why []string) {
	if s.down(shard) {
		why = append(why, "no primary copy takes writes")
	}
	switch s.slowness(shard) {
	case bulk.SlowPace:
		why = append(why, "bulks take longer than on the other shards")
	case bulk.SlowSilent:
		why = append(why, "bulks are in flight and none has ended for long")
	}
	for _, c := range copies {
		switch {
		case c.Trouble == "" || slices.Contains(s.ignored, c.Trouble):
		case c.Trouble == troubleWrites:
			why = append(why, "the write pool of "+c.Node+" is overloaded")
		case c.Trouble == troubleUnknown:
			why = append(why, "node "+c.NodeID+" is not known")
		default:
			why = append(why, c.Node+" is "+c.Trouble)
		}
	}
	return why
}

// bulkTexts say why the operations of a bulk stay unchanged.
var bulkTexts = map[string]string{
	reasonOff:                          "The mode of bulks is off.",
	string(bulk.ReasonObserve):         "The mode of bulks is observe: what would be done is counted, but nothing is changed.",
	string(bulk.ReasonNotSelected):     "bulk.single_shard does not name the index.",
	string(bulk.ReasonUnknown):         "Nothing is known of the index yet: it is being looked up in the background. Ask again.",
	string(bulk.ReasonAlias):           "The name is an alias, whose index may change at any moment.",
	string(bulk.ReasonClosed):          "The index is closed.",
	string(bulk.ReasonOneShard):        "The index has one shard: there is nothing to choose.",
	string(bulk.ReasonPartitioned):     "The index has a routing_partition_size: one routing value stands for several shards.",
	string(bulk.ReasonRoutedByFields):  "Fields of the documents determine their shards.",
	string(bulk.ReasonRoutingRequired): "The index requires a routing: the engine's error must reach the client.",
	string(bulk.ReasonJoinField):       "The index has a join field: children belong to the shard of their parent.",
	string(bulk.ReasonPipeline):        "The index has a pipeline, which may set id, routing or index.",
	string(bulk.ReasonNoCustomRouting): "The name is a data stream, or an alias of one: the engines refuse a routing, or demand one of every document.",
	string(bulk.ReasonUnreadable):      "The metadata of the index does not say how its documents are spread, or they are spread over virtual shards.",
	string(bulk.ReasonUndivided):       "The number of shards is not a multiple of the routing size, or is equal to it.",
	string(bulk.ReasonRoutedAlias):     "An alias of the index has a routing of its own.",
	string(bulk.ReasonResized):         "The index was split, shrunk or cloned from another one.",
}

// summarize says in words what would be done, and why.
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
		text += which + " may be chosen, more often one below the mean"
	case bulk.ChoiceAvoided:
		text += "One of " + strings.Join(drawn, ", ") + " is chosen; avoided: " + strings.Join(sick, ", ")
	case bulk.ChoiceBound:
		text += "The shards that are not in trouble have as much as bulk.max_skew allows, so that those in trouble get more: one of " + strings.Join(drawn, ", ") + " is chosen"
	case bulk.ChoiceAllSick:
		text += "All shards are in trouble, so only those that take no writes are avoided"
	}
	switch len(e.Ignored) {
	case 0:
	case len(loadTroubles):
		text += ". Busy nodes and overloaded write pools do not count, as no shard would be left"
	default:
		text += ". Nodes in trouble do not count, as no shard would be left"
	}
	return text + "."
}

// BulkSkew returns the name and skew of the index with the largest skew, among those
// written to in the last hour; 0 if there is none.
func (p *Proxy) BulkSkew() (index string, skew float64) {
	skews := p.o.Bulk.Books.Skews(time.Now().Add(-skewAge))
	for _, name := range slices.Sorted(maps.Keys(skews)) {
		if skews[name] > skew {
			index, skew = name, skews[name]
		}
	}
	return index, skew
}

// BulkIndex is the state of an index that bulks are written to.
type BulkIndex struct {
	Index string `json:"index"`
	// SlotSize is the number of shards in each slot, if bulks were written to slots; then
	// Shards and Avoided count slots. It is 0 if they were written to shards.
	SlotSize int `json:"slot_size,omitempty"`
	// Bulks counts those that were stored, and of which operations were kept on one of
	// its Shards; Avoided are the shards that are avoided now.
	Bulks   int64 `json:"bulks"`
	Shards  int   `json:"shards"`
	Avoided []int `json:"avoided"`
	// Skew is the level of the fullest shard; null before there were eight bulks a shard.
	Skew *float64 `json:"skew"`
}

// maxBulkIndices bounds the indices that are shown.
const maxBulkIndices = 20

// BulkIndices returns the indices that bulks were written to in the last hour, those with
// the most bulks, by name.
func (p *Proxy) BulkIndices() []BulkIndex {
	all := []BulkIndex{}
	v := p.view.Load()
	if v.snapshot == nil {
		return all
	}
	now := time.Now()
	books := p.o.Bulk.Books.Used(now.Add(-skewAge))
	slices.SortFunc(books, func(a, b bulk.IndexBook) int {
		return cmp.Or(cmp.Compare(b.Bulks.Load(), a.Bulks.Load()), strings.Compare(a.Index, b.Index))
	})
	books = books[:min(len(books), maxBulkIndices)]
	slices.SortFunc(books, func(a, b bulk.IndexBook) int {
		return cmp.Or(strings.Compare(a.Index, b.Index), cmp.Compare(a.Size(), b.Size()))
	})
	for _, book := range books {
		all = append(all, p.bulkIndexOf(v, book, now))
	}
	return all
}

// bulkIndexOf returns the state of an index.
func (p *Proxy) bulkIndexOf(v *view, book bulk.IndexBook, now time.Time) BulkIndex {
	one := BulkIndex{Index: book.Index, Bulks: book.Bulks.Load(), Shards: book.Parts(), Avoided: []int{}}
	if book.Size() > 1 {
		one.SlotSize = book.Size()
	}
	if book.Settled() {
		skew := book.Skew()
		one.Skew = &skew
	}
	copies, _ := v.snapshot.Lookup(one.Index)
	sick := p.sickSlots(v, book.Book, copies, now)
	for shard := range one.Shards {
		if sick.is(shard) {
			one.Avoided = append(one.Avoided, shard)
		}
	}
	return one
}
