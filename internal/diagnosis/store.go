package diagnosis

import (
	"context"
	"encoding/json"
	"log/slog"
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
	unsaved  chan struct{} // a hint that some record is not on disk

	mu   sync.Mutex
	kept []*kept // the oldest first
	held int64
	gone []string // ids of deleted records: run removes the files, as all that is shown needs mu
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
		complain: rate.Sometimes{Interval: complainEvery}, unsaved: make(chan struct{}, 1),
	}
	if o.Dir != "" {
		s.files = &files{dir: o.Dir}
	}
	return s
}

// run tells if there can be no files, loads those there are, and writes new records until ctx ends. Then it writes those that
// wait. What cannot be written is tried again with the next record, and at the end.
func (s *store) run(ctx context.Context) {
	if s.files == nil {
		return
	}
	if err := s.files.try(); err != nil {
		s.logger.Warn("diagnosis.dir cannot be written: records of spikes stay in memory until it can, and end with the process", "err", err)
	}
	s.load()
	s.removeGone()
	for {
		select {
		case <-s.unsaved:
			s.saveAll()
		case <-ctx.Done():
			s.saveAll()
			return
		}
	}
}

// saveAll writes all records that are not on disk, until one cannot be written.
func (s *store) saveAll() {
	defer s.removeGone()
	s.mu.Lock()
	unsaved := slices.DeleteFunc(slices.Clone(s.kept), func(k *kept) bool { return k.body == nil })
	s.mu.Unlock()
	for _, k := range unsaved {
		if !s.save(k) {
			return // the disk is full, say
		}
	}
}

// removeGone removes the files of records that are deleted.
func (s *store) removeGone() {
	s.mu.Lock()
	gone := s.gone
	s.gone = nil
	s.mu.Unlock()
	for _, id := range gone {
		s.files.remove(id)
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
	if s.files == nil {
		return
	}
	select {
	case s.unsaved <- struct{}{}:
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
	s.gone = slices.DeleteFunc(s.gone, func(id string) bool { return id == k.spike.ID })
	at, _ := slices.BinarySearchFunc(s.kept, k, func(a, b *kept) int { return a.spike.Began.Compare(b.spike.Began.Time) })
	s.kept = slices.Insert(s.kept, at, k)
	s.held += k.size
	for len(s.kept) > maxRecords || (s.held > s.maxBytes && len(s.kept) > 0) {
		oldest := s.kept[0]
		s.kept = slices.Delete(s.kept, 0, 1)
		s.held -= oldest.size
		if s.files != nil { // what is not on disk may be so as of while it lasted
			s.gone = append(s.gone, oldest.spike.ID)
		}
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
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.kept, k) { // it was deleted, or replaced, meanwhile
		s.gone = append(s.gone, k.spike.ID)
	}
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
		closeRecord(c.Record)
		s.add(&kept{spike: c.Record.Spike, size: int64(len(body))})
	}
}

func (s *store) find(id string) *kept {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.kept {
		if k.spike.ID == id {
			return k
		}
	}
	return nil
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
	k := s.find(id)
	if k == nil {
		return c, false
	}
	s.mu.Lock()
	body, ended := k.body, k.spike.Ended != nil
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
	if ended {
		closeRecord(c.Record)
	}
	return c, true
}

// closeRecord ends a record that was open when sidestep was killed, with what was last seen.
func closeRecord(r *Record) {
	if r.Ended != nil {
		return
	}
	end := r.Began
	if n := len(r.Samples.At); n > 0 {
		end = r.Samples.At[n-1]
	}
	r.Ended = &end
	if n := len(r.Bouts); n > 0 {
		r.Bouts[n-1].Ended = &end
	}
}
