package main_test

import (
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/hinshun/vt10x"
	"github.com/stretchr/testify/require"

	simcluster "sidestep/internal/sim/cluster"
	"sidestep/internal/testkit"
)

// screen is a terminal in which top runs.
type screen struct {
	t     *testing.T
	cmd   *exec.Cmd
	tty   *os.File // the terminal's side
	term  vt10x.Terminal
	raw   *testkit.Log
	ended chan struct{} // closed when all output was read
}

// topIn starts top in a terminal of the size given.
func topIn(t *testing.T, s *stage, size pty.Winsize, env ...string) *screen {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, "top", "--interval", "50ms", "--admin", s.AdminAddr().String())
	cmd.Env = append(append(os.Environ(), "TERM=xterm-256color", "COLORTERM=", "NO_COLOR="), env...)
	tty, err := pty.StartWithSize(cmd, &size)
	require.NoError(t, err)
	c := &screen{
		t: t, cmd: cmd, tty: tty, raw: &testkit.Log{}, ended: make(chan struct{}),
		term: vt10x.New(vt10x.WithSize(int(size.Cols), int(size.Rows))),
	}
	t.Cleanup(func() { _ = tty.Close() })
	go func() {
		defer close(c.ended)
		_, _ = io.Copy(io.MultiWriter(c.term, c.raw), tty) // ends with an error when the process does
	}()
	return c
}

// await waits until the screen matches.
func (c *screen) await(pattern string) {
	c.t.Helper()
	re := regexp.MustCompile(pattern)
	deadline := time.Now().Add(patience)
	for !re.MatchString(c.term.String()) {
		if time.Now().After(deadline) {
			require.Fail(c.t, "not seen: "+pattern, c.term.String())
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (c *screen) press(keys string) {
	c.t.Helper()
	_, err := c.tty.WriteString(keys)
	require.NoError(c.t, err)
}

// end waits for the end of the process and requires that the terminal was left as it
// was found.
func (c *screen) end(code int) {
	c.t.Helper()
	err := c.cmd.Wait()
	var exit *exec.ExitError
	if code != 0 {
		require.ErrorAs(c.t, err, &exit)
	}
	require.Equal(c.t, code, c.cmd.ProcessState.ExitCode())
	<-c.ended
	out := c.raw.String()
	require.Contains(c.t, out, "\x1b[?1049h", "a screen of its own")
	require.Greater(c.t, strings.LastIndex(out, "\x1b[?1049l"), strings.LastIndex(out, "\x1b[?1049h"), "the screen is given back")
	require.Greater(c.t, strings.LastIndex(out, "\x1b[?25h"), strings.LastIndex(out, "\x1b[?25l"), "the cursor is back")
}

func TestTopIsLive(t *testing.T) {
	s := newStage(t)
	c := topIn(t, s, pty.Winsize{Rows: 24, Cols: 80})
	c.await(`sidestep 1\.2\.3 · opensearch 3\.6\.0 · mode route`)
	c.await(`ready · nodes: 3 fine`)
	c.await(`node-3 +fine`)
	c.await(`q quit · ←→ sort: STATE`)

	c.press("\x1b[C") // right
	c.await(`sort: RANK`)
	c.press("\x1b[D\x1b[D") // left, twice
	c.await(`sort: NODE`)
	c.await(`(?s)node-1.*node-2.*node-3`)
	c.press("r")
	c.await(`sort: NODE reversed`)
	c.await(`(?s)node-3.*node-2.*node-1`)

	s.cluster.Nodes()[1].SetFault(simcluster.Fault{Refuse: true})
	c.await(`node-2 +unreachable`)
	c.await(`nodes: 1 unreachable, 2 fine`)

	c.press("p")
	c.await(`· paused`)
	s.cluster.Nodes()[1].SetFault(simcluster.Fault{})
	c.press("p")
	c.await(`node-2 +(fine|ramping)`)

	require.NoError(t, pty.Setsize(c.tty, &pty.Winsize{Rows: 12, Cols: 50}))
	c.term.Resize(50, 12)
	c.await(`(?m)^sidestep 1\.2\.3 · opensearch 3\.6\.0 · mode route · …`)

	c.press("q")
	c.end(0)
}

func TestTopWithoutColour(t *testing.T) {
	s := newStage(t)
	s.cluster.Nodes()[1].SetFault(simcluster.Fault{Refuse: true})
	colour := regexp.MustCompile(`\x1b\[[0-9;]*\b(3[0-7]|9[0-7]|38)\b[0-9;]*m`)
	for _, c := range []struct {
		env    string
		colour bool
	}{{"NO_COLOR=1", false}, {"NO_COLOR=", true}} {
		shown := topIn(t, s, pty.Winsize{Rows: 24, Cols: 80}, c.env)
		shown.await(`node-2 +unreachable`)
		shown.press("\x03")
		shown.end(0)
		require.Equal(t, c.colour, colour.MatchString(shown.raw.String()), c.env)
	}
}

func TestTopEndsOnSignals(t *testing.T) {
	s := newStage(t)
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		c := topIn(t, s, pty.Winsize{Rows: 24, Cols: 80})
		c.await(`node-1 +fine`)
		require.NoError(t, c.cmd.Process.Signal(signal))
		c.end(0)
	}
}

// Top outlives sidestep: it says since when there is nothing new.
func TestTopLosesSidestep(t *testing.T) {
	s := newStage(t)
	c := topIn(t, s, pty.Winsize{Rows: 24, Cols: 160})
	c.await(`node-1 +fine`)
	require.NoError(t, s.Stop(t.Context()))
	c.await(`nothing new since \d\d:\d\d:\d\d: nothing listens on`)
	c.await(`node-1 +fine`)
	c.press("q")
	c.end(0)
}

func TestTopBeforeItShowsAnything(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), binary, "top", "--admin", "127.0.0.1:1")
	tty, err := pty.Start(cmd)
	require.NoError(t, err)
	defer tty.Close()
	out, err := io.ReadAll(tty)
	if err != nil {
		require.ErrorIs(t, err, syscall.EIO) // how a pseudo terminal ends
	}
	require.Error(t, cmd.Wait())
	require.Equal(t, 1, cmd.ProcessState.ExitCode())
	require.Equal(t, "sidestep top: nothing listens on 127.0.0.1:1: is sidestep running there? (--admin)\r\n", string(out))
}
