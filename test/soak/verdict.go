package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"sidestep/test/harness"
)

// state is what sidestep holds at a moment.
type state struct {
	goroutines, descriptors, resident float64
	connections                       int // of the proxies before the nodes, on both sides
}

// String implements fmt.Stringer.
func (s state) String() string {
	return fmt.Sprintf("%.1f MiB, %.0f goroutines, %.0f descriptors, %d connections at the nodes' proxies",
		s.resident/(1<<20), s.goroutines, s.descriptors, s.connections)
}

// look reads the state.
func (s *stage) look(ctx context.Context) (state, error) {
	var now state
	for _, m := range []struct {
		name  string
		value *float64
	}{
		{"go_goroutines", &now.goroutines}, {"process_open_fds", &now.descriptors}, {"process_resident_memory_bytes", &now.resident},
	} {
		var err error
		if *m.value, err = s.sidestep.Sum(ctx, m.name, nil); err != nil {
			return now, err
		}
		if *m.value == 0 {
			return now, errors.New("the metrics do not tell " + m.name)
		}
	}
	for _, f := range s.forwarders {
		now.connections += f.connections()
	}
	return now, nil
}

// slack is by how many goroutines, descriptors or connections the state afterwards may
// differ: each poll that is under way, and each connection that polls keep, has some.
const slack = 2 * nodes

// exceeds lists what there is more of than before.
func (s state) exceeds(before state) []string {
	var found []string
	for _, m := range []struct {
		what        string
		before, now float64
	}{
		{"goroutines", before.goroutines, s.goroutines},
		{"descriptors", before.descriptors, s.descriptors},
		{"connections at the nodes' proxies", float64(before.connections), float64(s.connections)},
	} {
		if m.now > m.before+slack {
			found = append(found, fmt.Sprintf("%s: %.0f, before the load %.0f", m.what, m.now, m.before))
		}
	}
	return found
}

// leases lists the nodes that still owe answers.
func (s *stage) leases(ctx context.Context) ([]string, error) {
	var all []struct {
		Name        string `json:"name"`
		Outstanding int64  `json:"outstanding"`
	}
	if err := s.sidestep.AdminJSON(ctx, "/nodes", &all); err != nil {
		return nil, err
	}
	var found []string
	if len(all) != nodes {
		found = append(found, fmt.Sprintf("nodes: %d are known, %d there are", len(all), nodes))
	}
	for _, n := range all {
		if n.Outstanding != 0 {
			found = append(found, fmt.Sprintf("leases: %s has %d outstanding searches", n.Name, n.Outstanding))
		}
	}
	return found, nil
}

// awaitCalm waits until nothing is left over, at most for as long as given, and returns
// what is.
func (s *stage) awaitCalm(ctx context.Context, before state, atMost time.Duration) (state, []string, error) {
	for end := time.Now().Add(atMost); ; {
		now, err := s.look(ctx)
		if err != nil {
			return now, nil, err
		}
		leases, err := s.leases(ctx)
		if err != nil {
			return now, nil, err
		}
		leftovers := append(now.exceeds(before), leases...)
		if len(leftovers) == 0 || time.Now().After(end) {
			return now, leftovers, nil
		}
		if err := harness.Pause(ctx, time.Second); err != nil {
			return now, nil, err
		}
	}
}

// sample is how much memory was resident at a moment of the load.
type sample struct {
	at       time.Duration
	resident float64 // bytes
}

const (
	// windows is into how many parts the last half of the load is divided: the least of
	// each is what remains between bursts, such as while a node stands still.
	windows = 10
	// A load shorter than shortest says nothing of memory: it has not settled.
	shortest = 2 * time.Minute
	// Memory is flat if it grows in the last half of the load by no more than flatBytes,
	// or flatShare of what is resident.
	flatBytes = 12 << 20
	flatShare = 0.1
)

// lows returns the least of each window of the last half of the samples.
func lows(samples []sample) []sample {
	half := samples[len(samples)/2:]
	if len(half) < 2*windows {
		return nil
	}
	out := make([]sample, windows)
	for i := range out {
		window := half[i*len(half)/windows : (i+1)*len(half)/windows]
		out[i] = slices.MinFunc(window, func(a, b sample) int { return cmp.Compare(a.resident, b.resident) })
	}
	return out
}

// growth returns by how much a line through the lows of the last half of the samples
// rises over that half, and their mean, in bytes; 0 if there are too few.
func growth(samples []sample) (rise, mean float64) {
	low := lows(samples)
	if len(low) == 0 {
		return 0, 0
	}
	var meanAt float64
	for _, s := range low {
		meanAt += s.at.Seconds() / float64(len(low))
		mean += s.resident / float64(len(low))
	}
	var product, square float64
	for _, s := range low {
		d := s.at.Seconds() - meanAt
		product += d * (s.resident - mean)
		square += d * d
	}
	lasts := samples[len(samples)-1].at - samples[len(samples)/2].at
	return product / square * lasts.Seconds(), mean
}

// checkMemory returns an error if memory is not flat.
func checkMemory(samples []sample) error {
	if len(samples) == 0 || samples[len(samples)-1].at < shortest-time.Second {
		fmt.Printf("resident memory is not judged: the load is shorter than %v\n", shortest)
		return nil
	}
	rise, mean := growth(samples)
	if limit := max(flatBytes, flatShare*mean); rise > limit {
		return fmt.Errorf("resident memory: its lows grew by %.1f MiB in the last half of the load, allowed are %.1f MiB", rise/(1<<20), limit/(1<<20))
	}
	return nil
}

// report is what came of a run.
type report struct {
	load      *load
	troubles  *troubles
	memory    []sample
	after     state
	leftovers []string
}

// conclude prints the summary and returns an error if anything is violated.
func (s *stage) conclude(ctx context.Context, r report) error {
	fmt.Printf("\nrequests: %s\n", r.load.progress())
	for _, text := range r.load.told {
		fmt.Println("  such as", strings.TrimSpace(text))
	}
	fmt.Printf("trouble: %s\n", r.troubles)
	if len(r.memory) > 0 {
		most := 0.0
		for _, m := range r.memory {
			most = max(most, m.resident)
		}
		rise, _ := growth(r.memory)
		fmt.Printf("resident memory, MiB: first %.1f, last %.1f, most %.1f, afterwards %.1f; its lows %+.1f in the last half of the load\n",
			r.memory[0].resident/(1<<20), r.memory[len(r.memory)-1].resident/(1<<20), most/(1<<20), r.after.resident/(1<<20), rise/(1<<20))
	}
	var errs []error
	for _, text := range r.leftovers {
		errs = append(errs, errors.New("left over: "+text))
	}
	if len(r.leftovers) > 0 {
		errs = append(errs, s.keepGoroutines(ctx))
	}
	errs = append(errs, checkMemory(r.memory), r.load.check())
	err := errors.Join(errs...)
	if err == nil {
		fmt.Println("nothing is left over")
	}
	return err
}

// keepGoroutines writes down what all goroutines of sidestep do.
func (s *stage) keepGoroutines(ctx context.Context) error {
	status, text, err := s.sidestep.Admin(ctx, http.MethodGet, "/debug/pprof/goroutine?debug=1", "")
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return fmt.Errorf("read the goroutines of sidestep: status %d: %.200s", status, text)
	}
	path := strings.TrimSuffix(s.sidestep.LogPath, ".log") + ".goroutines"
	fmt.Println("goroutines of sidestep:", path)
	return os.WriteFile(path, text, 0o600)
}
