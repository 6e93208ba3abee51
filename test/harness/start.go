package harness

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Patience is how long a cluster may take to start, or a node to come back: a minute on a fast
// machine that does nothing else, and many on a slow one that runs other tests beside.
const Patience = 10 * time.Minute

// silence is how long a node that was started may live without a line in its log. A node
// writes its first one after five seconds of CPU time; on two cores that start a dozen of
// them this takes a minute.
const silence = 2 * time.Minute

// waitNodes waits until every node sees all the others, and fails at once if one
// ends. It fills in the nodes' ids.
func (c *Cluster) waitNodes(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var all sync.WaitGroup
	var once sync.Once
	var first error // which tells what is wrong; the others were cut off
	for _, node := range c.Nodes {
		all.Go(func() {
			if err := node.waitJoined(ctx, len(c.Nodes)); err != nil {
				once.Do(func() { first = err })
				cancel()
				return
			}
			c.options.Logf("%s is up at %s", node.Name, node.HTTPURL)
		})
	}
	all.Wait()
	return first
}

// waitJoined waits until the node answers and sees count nodes (0: any number,
// with an elected cluster manager), and opens it to clients. A node that stays silent, and does nothing, is
// started once more: where it gets little of the CPU, others do not get more by that.
func (n *Node) waitJoined(ctx context.Context, count int) error {
	p, started, again := n.current(), time.Now(), false
	used := time.Duration(0) // of CPU time until then
	for {
		if p.ended() {
			return fmt.Errorf("%s ended (%w): see %s", n.Name, p.err, n.LogDir())
		}
		if n.joined(ctx, count) {
			if n.http != nil {
				return n.http.open()
			}
			return nil
		}
		if !again && count > 0 && time.Since(started) > n.launch.silence && !n.speaks() {
			if now := p.used(); now-used > n.launch.silence/100 {
				started, used = time.Now(), now
				continue
			}
			n.launch.options.Logf("%s is started again: it wrote no line for %s; %s", n.Name, n.launch.silence, n.effort(p))
			n.kill()
			if err := n.start(); err != nil {
				return err
			}
			p, again = n.current(), true
		}
		if err := Pause(ctx, 200*time.Millisecond); err != nil {
			return fmt.Errorf("wait for %s: %w: %s: see %s", n.Name, err, n.effort(p), n.LogDir())
		}
	}
}

// speaks reports whether the node has written a line of its own: one that names it.
func (n *Node) speaks() bool {
	log, err := os.ReadFile(filepath.Join(n.LogDir(), "stdout"))
	return err == nil && bytes.Contains(log, []byte("["+n.Name))
}

// used is the CPU time that the node has used.
func (p *Process) used() time.Duration {
	processes, _ := processGroup(p.PID) // without them it tells of none
	return cpuUsed(processes)
}

// effort tells what became of a start: a node that used little CPU time did not get more, or
// waits for something; what it said at last may tell for what.
func (n *Node) effort(p *Process) string {
	processes, _ := processGroup(p.PID) // without them it tells of none
	log, _ := os.ReadFile(filepath.Join(n.LogDir(), "stdout"))
	load, _ := os.ReadFile("/proc/loadavg")
	return fmt.Sprintf("its %d processes used %.0f s of CPU time, the load is %.15q, its last line is %.300q", len(processes), cpuUsed(processes).Seconds(), load, lastLine(log))
}
