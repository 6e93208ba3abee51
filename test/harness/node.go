package harness

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"sidestep/test/machine"
)

// Node is one node of a running cluster: a process of its own.
type Node struct {
	Name string // "node-1", …
	// ID is the engine's node id. It survives restarts.
	ID string
	// HTTPURL is the address clients use, through the proxy if there is one.
	HTTPURL string
	// DirectURL is the address past the proxy, for looking at a node whatever was
	// done to its connections.
	DirectURL string

	dir                     string
	httpPort, transportPort int
	http, transport         *fault    // nil without proxies
	standIn                 *standIn  // answers clients in its place; nil: none
	limit                   *cpuLimit // nil: none
	launch                  launcher

	mu      sync.Mutex
	process *Process // its latest life
}

func newNode(name string, launch launcher) (*Node, error) {
	n := &Node{Name: name, dir: filepath.Join(launch.options.Dir, name), launch: launch}
	var err error
	if n.httpPort, err = freePort(); err != nil {
		return nil, err
	}
	if n.transportPort, err = freePort(); err != nil {
		return nil, err
	}
	n.DirectURL = launch.scheme() + "://" + loopback(n.httpPort)
	n.HTTPURL = n.DirectURL
	if !launch.options.Proxied {
		return n, nil
	}
	if n.http, err = newFault(name+"-http", n.httpPort); err != nil {
		return nil, err
	}
	n.HTTPURL = launch.scheme() + "://" + loopback(n.http.port)
	if n.transport, err = newFault(name+"-transport", n.transportPort); err != nil {
		return nil, err
	}
	return n, nil
}

func (n *Node) publishedHTTP() int {
	if n.http != nil {
		return n.http.port
	}
	return n.httpPort
}

func (n *Node) publishedTransport() int {
	if n.transport != nil {
		return n.transport.port
	}
	return n.transportPort
}

func (n *Node) configure(all []*Node) error { return n.launch.writeConfig(n, all) }

// LogDir is the folder with the node's logs; "stdout" in it is what the process printed.
func (n *Node) LogDir() string { return filepath.Join(n.dir, "logs") }

// start starts the process; it does not wait until the node answers. Its proxies
// do as the kernel would: other nodes find it at once, clients are refused until
// it answers.
func (n *Node) start() error {
	if n.transport != nil {
		if err := n.transport.open(); err != nil {
			return err
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	output, err := os.OpenFile(filepath.Join(n.LogDir(), "stdout"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("start %s: %w", n.Name, err)
	}
	defer func() { _ = output.Close() }()
	script := filepath.Join(n.launch.home, "bin", n.launch.release.distribution)
	// No context: a node lives until Stop or Kill, or as long as we do.
	cmd := exec.Command(script) //nolint:noctx // see above
	cmd.Dir = n.dir
	cmd.Env = n.launch.environment(n)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = ProcessAttributes(n.launch.owner)
	if n.process, err = StartProcess(cmd); err != nil {
		return fmt.Errorf("start %s: %w", n.Name, err)
	}
	return nil
}

func (n *Node) current() *Process {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.process
}

// PID is the process id of the node, 0 while it does not run. It leads a process
// group of its own.
func (n *Node) PID() int {
	p := n.current()
	if p == nil || p.ended() {
		return 0
	}
	return p.PID
}

// signal sends a signal to the node's process group.
func (n *Node) signal(signal syscall.Signal) error {
	p := n.current()
	if p == nil {
		return fmt.Errorf("send %s to %s: it does not run", signal, n.Name)
	}
	if err := p.signal(signal); err != nil {
		return fmt.Errorf("send %s to %s: %w", signal, n.Name, err)
	}
	return nil
}

// Pause stops the process (SIGSTOP): the node keeps its connections and says nothing.
func (n *Node) Pause() error { return n.signal(syscall.SIGSTOP) }

// Resume lets a paused process run again.
func (n *Node) Resume() error { return n.signal(syscall.SIGCONT) }

// Kill kills the node (kill -9) and returns when it is gone. Its proxies refuse
// connections from then on, as the kernel does when nobody listens.
func (n *Node) Kill() error {
	if err := n.end(); err != nil {
		return err
	}
	n.closeProxies()
	return nil
}

// kill is Kill for a node that may not run.
func (n *Node) kill() { _ = n.end() }

// end kills the processes of the node. A JVM that an agent was loaded into leaves a socket that has its number.
func (n *Node) end() error {
	var processes []machine.Process
	if p := n.current(); p != nil {
		processes, _ = processGroup(p.PID) // without them the sockets stay
	}
	if err := n.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-n.current().gone
	for _, p := range processes {
		_ = os.Remove(fmt.Sprintf("/tmp/.java_pid%d", p.PID)) // most have none
	}
	return nil
}

// Terminate ends the node as an operator would (SIGTERM) and returns when it is
// gone; it is killed when ctx ends before. Its proxies refuse connections from
// then on.
func (n *Node) Terminate(ctx context.Context) error {
	if err := n.signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-n.current().gone:
		n.closeProxies()
		return nil
	case <-ctx.Done():
		n.kill()
		n.closeProxies()
		return fmt.Errorf("%s did not end on SIGTERM: %w", n.Name, ctx.Err())
	}
}

// Restart starts a killed node again with its data and returns when it answers
// and is back in the cluster. It waits for that for [Patience] at most.
func (n *Node) Restart(ctx context.Context) error {
	if n.PID() != 0 {
		return fmt.Errorf("restart %s: it is running", n.Name)
	}
	ctx, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	for !portFree(n.httpPort) || !portFree(n.transportPort) {
		if err := Pause(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("restart %s: its ports stay busy: %w", n.Name, err)
		}
	}
	if err := n.start(); err != nil {
		return err
	}
	return n.waitJoined(ctx, 0)
}

func (n *Node) closeProxies() {
	for _, f := range []*fault{n.http, n.transport} {
		if f != nil {
			f.close()
		}
	}
}

// Await tries something until it succeeds, so far apart. If ctx ends before, the error has that of the last try.
func Await(ctx context.Context, apart time.Duration, try func() error) error {
	for {
		err := try()
		if err == nil {
			return nil
		}
		if over := Pause(ctx, apart); over != nil {
			return fmt.Errorf("%w: %w", over, err)
		}
	}
}

// Pause waits, or returns the context's error.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
