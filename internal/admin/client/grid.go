package client

import (
	"fmt"
	"io"
	"strings"

	"charm.land/lipgloss/v2"
)

// grid prints a table with columns that are as wide as they must be on a terminal.
type grid struct {
	out  io.Writer
	rows [][]string
}

func newGrid(out io.Writer, titles ...string) *grid {
	g := &grid{out: out}
	g.row(titles...)
	return g
}

// row adds one line.
func (g *grid) row(cells ...string) {
	for i, cell := range cells {
		cells[i] = Printable(cell)
	}
	g.rows = append(g.rows, cells)
}

// flush prints the lines.
func (g *grid) flush() {
	widths := make([]int, len(g.rows[0]))
	for _, cells := range g.rows {
		for i, cell := range cells {
			widths[i] = max(widths[i], lipgloss.Width(cell))
		}
	}
	var b strings.Builder
	for _, cells := range g.rows {
		line := ""
		for i, cell := range cells {
			line += pad(cell, widths[i], true) + "  "
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	_, _ = io.WriteString(g.out, b.String())
}

// printf prints one line. Arguments that are text are made printable, the format is not.
func printf(out io.Writer, format string, args ...any) {
	for i, arg := range args {
		if text, ok := arg.(string); ok {
			args[i] = Printable(text)
		}
	}
	fmt.Fprintf(out, format+"\n", args...)
}
