package client

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"
)

// TopOptions configures [Top].
type TopOptions struct {
	// Interval is how often sidestep is asked.
	Interval time.Duration
	// Input and Output are the terminal.
	Input, Output *os.File
}

// TopOnce prints the table of nodes once. Rates are those of one interval.
func TopOnce(ctx context.Context, c *Client, out io.Writer, interval time.Duration) error {
	var seen trail
	for range 2 {
		if len(seen) > 0 {
			select {
			case <-time.After(interval):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		s, err := c.status(ctx)
		if err != nil {
			return err
		}
		seen = seen.add(s)
	}
	_, err := fmt.Fprintln(out, strings.Join(view{trail: seen, sort: columnState}.render(), "\n"))
	return err
}

// Status prints the status as the admin listener tells it.
func Status(ctx context.Context, c *Client, out io.Writer) error {
	raw, err := c.ask(ctx, question{path: "status"}, nil)
	if err != nil {
		return err
	}
	return indented(out, raw)
}

// Top shows the nodes until the user quits or ctx ends. Whatever ends it, the
// terminal is left as it was.
func Top(ctx context.Context, c *Client, o TopOptions) error {
	first, err := c.status(ctx)
	if err != nil {
		return err
	}
	m := model{ctx: ctx, client: c, interval: o.Interval, view: view{trail: trail{}.add(first), sort: columnState, style: styles()}}
	// Signals end ctx. The library's own handler of them would wait for ever for a
	// program that has ended already.
	p := tea.NewProgram(m, tea.WithoutSignalHandler(), tea.WithInput(o.Input), tea.WithOutput(o.Output))
	defer context.AfterFunc(ctx, p.Quit)()
	_, err = p.Run()
	return err
}

// status asks for the status.
func (c *Client) status(ctx context.Context) (status, error) {
	var s status
	_, err := c.ask(ctx, question{path: "status"}, &s)
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.NotPolled && n.State == "unknown" {
			n.State = notPolled
		}
	}
	return s, err
}

// styles returns how looks are shown. The library leaves colours out where the
// terminal has none or NO_COLOR is set.
func styles() func(look, string) string {
	by := map[look]lipgloss.Style{
		strong:   lipgloss.NewStyle().Bold(true),
		good:     lipgloss.NewStyle().Foreground(lipgloss.Green),
		middling: lipgloss.NewStyle().Foreground(lipgloss.Yellow),
		bad:      lipgloss.NewStyle().Bold(true).Foreground(lipgloss.Red),
	}
	return func(l look, text string) string {
		if l == plain {
			return text
		}
		return by[l].Render(text)
	}
}

// model is top as the terminal library runs it.
type model struct {
	ctx      context.Context //nolint:containedctx // of the questions asked, which the library starts
	client   *Client
	interval time.Duration
	view     view
}

// news is an answer, or why there is none.
type news struct {
	status status
	err    error
}

// Init implements tea.Model.
func (m model) Init() tea.Cmd { return m.next() }

// next asks after an interval.
func (m model) next() tea.Cmd {
	return tea.Tick(m.interval, func(time.Time) tea.Msg {
		s, err := m.client.status(m.ctx)
		return news{s, err}
	})
}

// Update implements tea.Model.
func (m model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.view.width, m.view.height = msg.Width, msg.Height
	case news:
		m.view = m.view.told(msg)
		return m, m.next()
	case tea.KeyPressMsg:
		if quits(msg.String()) {
			return m, tea.Quit
		}
		m.view = m.view.pressed(msg.String())
	}
	return m, nil
}

// View implements tea.Model.
func (m model) View() tea.View {
	lines := m.view.render()
	if m.view.height > 0 {
		for len(lines) < m.view.height-1 {
			lines = append(lines, "")
		}
		lines = append(lines[:max(0, min(len(lines), m.view.height-1))], m.view.keys())
	}
	v := tea.NewView(strings.Join(lines, "\n"))
	v.AltScreen = true
	v.WindowTitle = "sidestep top"
	return v
}

// told takes in an answer. While paused the picture stays.
func (v view) told(n news) view {
	switch {
	case v.paused:
	case n.err != nil:
		v.problem = n.err.Error()
	default:
		v.problem = ""
		v.trail = v.trail.add(n.status)
	}
	return v
}

func quits(key string) bool { return key == "q" || key == "esc" || key == "ctrl+c" }

// pressed does what a key asks for.
func (v view) pressed(key string) view {
	const page = 10
	last := len(columns()) - 1
	switch key {
	case "right", "s":
		v.sort = (v.sort + 1) % (last + 1)
	case "left", "S":
		v.sort = (v.sort + last) % (last + 1)
	case "r":
		v.reverse = !v.reverse
	case "p", "space":
		v.paused = !v.paused
	case "down", "j":
		v.offset++
	case "up", "k":
		v.offset--
	case "pgdown":
		v.offset += page
	case "pgup":
		v.offset -= page
	case "home":
		v.offset = 0
	}
	lines := len(v.table(v.trail.latest(), v.trail.rates()))
	v.offset = max(0, min(v.offset, lines-v.room(lines)))
	return v
}
