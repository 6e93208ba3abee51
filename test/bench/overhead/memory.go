package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"sidestep/test/harness"
)

const (
	// searchers is how many connections send searches at once while memory is measured.
	searchers = 1000
	// uploaders is how many connections have begun to send a body, and uploadSize what
	// they say it has, in bytes.
	uploaders  = 5000
	uploadSize = 1 << 20
	// allowed is how many connections nginx and haproxy allow for that, and openFiles how
	// many files they may then have open: each upload may take a connection to a node,
	// too.
	allowed   = uploaders + 1000
	openFiles = 2*allowed + 1000
)

// held is the memory that one peer takes.
type held struct {
	name   string
	idle   int64 // resident bytes before any load
	loaded int64 // the most resident bytes seen with searchers
	upload int64 // resident bytes for each of the uploaders that are open
	open   int64 // uploads that the peer did not end
	bulks  int64 // the most resident bytes seen with bulks on their way, less those before
}

// measureMemory starts all peers anew for each of both measurements: what the first
// leaves behind must not serve the second.
func measureMemory(ctx context.Context, o options) ([]held, error) {
	if err := raiseOpenFiles(); err != nil {
		return nil, err
	}
	var rows []held
	err := onStage(ctx, o, allowed, func(s *stage, peers []peer) error {
		rows = make([]held, len(peers[1:]))
		for i, p := range peers[1:] {
			fmt.Fprintf(os.Stderr, "%s: %d uploads\n", p.name, uploaders)
			rows[i].name = p.name
			if err := rows[i].upTo(ctx, s, p); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = onStage(ctx, o, allowed, func(_ *stage, peers []peer) error {
		for i, p := range peers[1:] {
			fmt.Fprintf(os.Stderr, "%s: %d connections with searches\n", p.name, searchers)
			if err := rows[i].load(ctx, p, o.window); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = onStage(ctx, o, allowed, func(_ *stage, peers []peer) error {
		for i, p := range peers[1:] {
			fmt.Fprintf(os.Stderr, "%s: %d bulks of %d MB\n", p.name, bulks, bulkSize/1_000_000)
			if err := rows[i].write(ctx, p); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
		}
		return nil
	})
	return rows, err
}

// raiseOpenFiles allows this process, and those that it starts, as many open files as
// it may have.
func raiseOpenFiles() error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	if limit.Max < openFiles {
		return fmt.Errorf("%d open files are needed, %d are allowed: raise the limit (ulimit -Hn)", openFiles, limit.Max)
	}
	limit.Cur = limit.Max
	return syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
}

// upTo measures what the uploads take: the head of each is complete, of its body one
// byte has come.
func (h *held) upTo(ctx context.Context, s *stage, p peer) error {
	if err := harness.Pause(ctx, rest); err != nil {
		return err
	}
	before, err := usageOf(p.pid)
	if err != nil {
		return err
	}
	h.idle = before.resident
	var open atomic.Int64
	request := strings.Join([]string{
		"POST " + searchPath(answerSizes()[0], p.preference) + " HTTP/1.1", "Host: " + p.addr, "Content-Type: application/json",
		fmt.Sprintf("Content-Length: %d", uploadSize), "", "{",
	}, "\r\n")
	for range uploaders {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", p.addr)
		if err != nil {
			return err
		}
		defer conn.Close() //nolint:gocritic // all stay open until all are measured
		if _, err := conn.Write([]byte(request)); err != nil {
			return err
		}
		open.Add(1)
		go func() {
			_, _ = conn.Read(make([]byte, 1)) // an early answer, or the end
			open.Add(-1)
		}()
	}
	if err := harness.Pause(ctx, rest); err != nil {
		return err
	}
	h.open = open.Load()
	after, err := usageOf(p.pid)
	if err != nil {
		return err
	}
	if h.open == 0 {
		return errors.New("it ended all uploads")
	}
	h.upload = (after.resident - before.resident) / h.open
	return s.awaitEnd(ctx, p)
}

// awaitEnd waits until p answers again after the connections were closed.
func (s *stage) awaitEnd(ctx context.Context, p peer) error {
	return eventually(ctx, p.name, func(ctx context.Context) error { return get(ctx, "http://"+p.addr+"/") })
}

// load measures what p takes while all searchers send searches as fast as they are
// answered.
func (h *held) load(ctx context.Context, p peer, window time.Duration) error {
	failed := make(chan error, 1)
	go func() {
		_, err := saturate(ctx, p, answerSizes()[0], searchers, window)
		failed <- err
	}()
	var err error
	h.loaded, err = mostResident(p, failed)
	return err
}

// mostResident returns the most that p took until something was sent, which is the
// error of what was done meanwhile.
func mostResident(p peer, ended <-chan error) (most int64, err error) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			return most, err
		case <-tick.C:
			u, err := usageOf(p.pid)
			if err != nil {
				return 0, errors.Join(err, <-ended)
			}
			most = max(most, u.resident)
		}
	}
}

// renderMemory writes the table.
func renderMemory(o options, rows []held, versions []string) string {
	var b strings.Builder
	header(&b, "What a proxy holds in memory", "bench-memory", versions)
	fmt.Fprintf(&b, "Resident memory of all processes of a proxy. \"Under load\" is the most that was seen in %v with %d client connections, each of which\n"+
		"sends its next search (answers of 1 KB) when the last is answered. \"Per upload\" is what %d connections take together, divided by\n"+
		"their number: each has sent the complete head of a search with a `Content-Length` of %d MiB, and one byte of the body. Idle is\n"+
		"before that, with room for so many connections. \"Bulks add\" is the most that was seen while %d bulks of %d MB each were on their way\n"+
		"at once, answers included, less what was resident after one small bulk; sidestep keeps each on one shard. Each proxy is started anew\n"+
		"for each measurement.\n\n", o.window, searchers, uploaders, uploadSize>>20, bulks, bulkSize/1_000_000)
	fmt.Fprintf(&b, "| | idle, MiB | under load, MiB | per upload, KiB | uploads kept open | bulks add, MiB |\n|---|---:|---:|---:|---:|---:|\n")
	for _, h := range rows {
		fmt.Fprintf(&b, "| %s | %.1f | %.1f | %.1f | %d | %.1f |\n",
			h.name, mebibytes(h.idle), mebibytes(h.loaded), float64(h.upload)/(1<<10), h.open, mebibytes(h.bulks))
	}
	return b.String()
}
