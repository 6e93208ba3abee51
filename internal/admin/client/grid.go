package client

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// grid prints a table whose columns are as wide as they must be.
type grid struct{ *tabwriter.Writer }

func newGrid(out io.Writer, titles ...string) grid {
	g := grid{tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)}
	g.row(titles...)
	return g
}

// row prints one line.
func (g grid) row(cells ...string) {
	for i, cell := range cells {
		cells[i] = Printable(cell)
	}
	fmt.Fprintln(g, strings.TrimRight(strings.Join(cells, "\t"), "\t"))
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
