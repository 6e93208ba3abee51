package diagnosis

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	"golang.org/x/time/rate"
)

const (
	// maxRecords bounds how many records are kept, whatever their size.
	maxRecords = 500
	// maxFolded bounds the folded stacks of a record, in bytes: whole lines, the most frequent first.
	maxFolded = 256 << 10
)

// store keeps closed records: in files if there is a folder for them, else in memory.
// Beyond the bounds the oldest are deleted.
type store struct {
	files    *files // nil: memory
	maxBytes int64
	metrics  *metrics
	logger   *slog.Logger
	complain rate.Sometimes
	changed  chan struct{}   // a hint that the folder differs from what is kept
	written  map[string]bool // ids of the records in it; only run looks at them

	mu   sync.Mutex
	kept []*kept // the oldest first
	held int64
}

// kept is a closed record.
type kept struct {
	spike Spike
	size  int64
	body  []byte // the file's content; nil if it is on disk
}

// content is what a record looks like in its file.
type content struct {
	Record *Record `json:"record"`
	Folded string  `json:"folded"`
}

func newStore(o Options, m *metrics) *store {
	s := &store{
		maxBytes: o.MaxSize, metrics: m, logger: o.Logger,
		complain: rate.Sometimes{Interval: complainEvery}, changed: make(chan struct{}, 1), written: map[string]bool{},
	}
	if o.Dir != "" {
		s.files = &files{dir: o.Dir}
	}
	return s
}

// run tells if there can be no files, loads those there are, and makes the folder what is kept until ctx ends, and once more
// then. What cannot be written is tried again with the next record, and at the end.
func (s *store) run(ctx context.Context) {
	if s.files == nil {
		return
	}
	if err := s.files.try(); err != nil {
		s.logger.Warn("diagnosis.dir cannot be written: records of spikes stay in memory until it can, and end with the process", "err", err)
	}
	s.load()
	for {
		s.saveAll()
		select {
		case <-s.changed:
		case <-ctx.Done():
			s.saveAll()
			return
		}
	}
}

// saveAll removes the files of records that are not kept any more, which makes room, and writes those that are not on disk,
// until one cannot be written.
func (s *store) saveAll() {
	gone := maps.Clone(s.written)
	s.mu.Lock()
	unsaved := slices.DeleteFunc(slices.Clone(s.kept), func(k *kept) bool {
		delete(gone, k.spike.ID)
		return k.body == nil
	})
	s.mu.Unlock()
	for id := range gone {
		if s.files.remove(id) == nil {
			delete(s.written, id)
		}
	}
	for _, k := range unsaved {
		if !s.save(k) {
			return // the disk is full, say
		}
	}
}

// put adds a record, in place of what was put of it while it lasted. It does no I/O.
func (s *store) put(record Record, folded string) {
	body, err := json.Marshal(content{&record, folded[:strings.LastIndexByte(folded[:min(len(folded), maxFolded)], '\n')+1]})
	if err != nil {
		s.logger.Error("cannot encode the record of a spike", "err", err) // cannot happen: its types are our own
		return
	}
	s.add(&kept{spike: record.Spike, size: int64(len(body)), body: body})
	select {
	case s.changed <- struct{}{}:
	default: // it was hinted already
	}
}

// add inserts a record in the order of their beginnings, and deletes the oldest beyond
// the bounds.
func (s *store) add(k *kept) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := slices.IndexFunc(s.kept, func(before *kept) bool { return before.spike.ID == k.spike.ID }); at >= 0 {
		s.held -= s.kept[at].size
		s.kept = slices.Delete(s.kept, at, at+1)
	}
	at, _ := slices.BinarySearchFunc(s.kept, k, func(a, b *kept) int { return a.spike.Began.Compare(b.spike.Began.Time) })
	s.kept = slices.Insert(s.kept, at, k)
	s.held += k.size
	for len(s.kept) > maxRecords || (s.held > s.maxBytes && len(s.kept) > 0) {
		s.held -= s.kept[0].size
		s.kept = slices.Delete(s.kept, 0, 1)
	}
	s.metrics.records.Set(float64(len(s.kept)))
	s.metrics.bytes.Set(float64(s.held))
}

// save writes a record to its file. If that fails it stays in memory, and save reports false.
func (s *store) save(k *kept) bool {
	if err := s.files.write(k.spike.ID, k.body); err != nil {
		s.failed(err)
		return false
	}
	s.written[k.spike.ID] = true
	s.mu.Lock()
	defer s.mu.Unlock()
	k.body = nil
	return true
}

// failed counts a record that could not be written, and logs that at most once in
// complainEvery.
func (s *store) failed(err error) {
	s.metrics.writeFailures.Inc()
	s.complain.Do(func() {
		s.logger.Warn("cannot write the record of a spike to diagnosis.dir, it stays in memory", "err", err)
	})
}

// load adds the records of earlier runs.
func (s *store) load() {
	ids, err := s.files.list()
	if err != nil {
		s.failed(err)
		return
	}
	for _, id := range ids {
		body, err := s.files.read(id, s.maxBytes)
		var c content
		if err == nil {
			err = json.Unmarshal(body, &c)
		}
		if err != nil || c.Record == nil || c.Record.ID != id {
			s.logger.Warn("a file in diagnosis.dir is not the record of a spike", "file", id+suffix, "err", err)
			continue
		}
		s.written[id] = true
		if c.Record.Ended == nil { // sidestep was killed meanwhile
			closeRecord(c.Record)
			s.put(*c.Record, c.Folded)
			continue
		}
		s.add(&kept{spike: c.Record.Spike, size: int64(len(body))})
	}
}

// spikes lists the records, the oldest first.
func (s *store) spikes() []Spike {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Spike, len(s.kept))
	for i, k := range s.kept {
		all[i] = k.spike
	}
	return all
}

// get reads a record; false if there is none, or if its file cannot be read.
func (s *store) get(id string) (c content, ok bool) {
	s.mu.Lock()
	at := slices.IndexFunc(s.kept, func(k *kept) bool { return k.spike.ID == id })
	if at < 0 {
		s.mu.Unlock()
		return c, false
	}
	body := s.kept[at].body
	s.mu.Unlock()
	if body == nil {
		var err error
		if body, err = s.files.read(id, s.maxBytes); err != nil {
			s.logger.Warn("cannot read the record of a spike", "err", err)
			return c, false
		}
	}
	if err := json.Unmarshal(body, &c); err != nil || c.Record == nil {
		s.logger.Warn("cannot read the record of a spike", "id", id, "err", err)
		return c, false
	}
	return c, true
}

// closeRecord ends a record that was open when sidestep was killed, with what was last seen.
func closeRecord(r *Record) {
	end := r.Began
	if n := len(r.Samples.At); n > 0 {
		end = r.Samples.At[n-1]
	}
	r.ends(end.Time)
}
