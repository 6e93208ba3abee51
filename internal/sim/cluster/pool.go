package simcluster

import (
	"container/list"
	"context"
	"errors"
	"sync"
)

var errRejected = errors.New("search queue is full")

// pool is a search thread pool: a fixed number of threads and a bounded queue
// served in order of arrival.
type pool struct {
	threads, bound int

	mu                  sync.Mutex
	active              int
	waiting             list.List // of chan struct{}, closed when a thread is handed over
	rejected, completed int64
	largest             int
}

type poolStats struct {
	Threads   int   `json:"threads"`
	Queue     int   `json:"queue"`
	Active    int   `json:"active"`
	Rejected  int64 `json:"rejected"`
	Largest   int   `json:"largest"`
	Completed int64 `json:"completed"`
}

// run executes work on a thread, waiting for one in the queue. It returns
// errRejected at once if the queue is full, and leaves the queue when ctx ends.
func (p *pool) run(ctx context.Context, work func(context.Context) error) error {
	if err := p.acquire(ctx); err != nil {
		return err
	}
	defer p.release()
	return work(ctx)
}

func (p *pool) acquire(ctx context.Context) error {
	p.mu.Lock()
	if p.active < p.threads {
		p.active++
		p.largest = max(p.largest, p.active)
		p.mu.Unlock()
		return nil
	}
	if p.waiting.Len() >= p.bound {
		p.rejected++
		p.mu.Unlock()
		return errRejected
	}
	ready := make(chan struct{})
	place := p.waiting.PushBack(ready)
	p.mu.Unlock()

	select {
	case <-ready:
		return nil
	case <-ctx.Done():
		return p.abandon(place, ready, ctx.Err())
	}
}

// abandon leaves the queue; a thread handed over in the meantime is given back.
func (p *pool) abandon(place *list.Element, ready chan struct{}, err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-ready:
		p.handOver()
	default:
		p.waiting.Remove(place)
	}
	return err
}

func (p *pool) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.completed++
	p.handOver()
}

func (p *pool) handOver() {
	first := p.waiting.Front()
	if first == nil {
		p.active--
		return
	}
	close(p.waiting.Remove(first).(chan struct{}))
}

// reject counts a rejection that a fault caused.
func (p *pool) reject() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rejected++
}

func (p *pool) stats() poolStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return poolStats{
		Threads: p.threads, Queue: p.waiting.Len(), Active: p.active,
		Rejected: p.rejected, Largest: p.largest, Completed: p.completed,
	}
}
