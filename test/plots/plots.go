// Package plots draws what measurements found.
package plots

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// SideBySide writes an SVG of two plots whose axes are aligned.
func SideBySide(path string, left, right *plot.Plot) error {
	canvas := vgsvg.New(26*vg.Centimeter, 9*vg.Centimeter)
	tiles := draw.Tiles{Rows: 1, Cols: 2, PadX: vg.Centimeter, PadTop: 2, PadBottom: 2, PadLeft: 2, PadRight: 6}
	plots := [][]*plot.Plot{{left, right}}
	for i, c := range plot.Align(plots, tiles, draw.New(canvas))[0] {
		plots[0][i].Draw(c)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	if _, err := canvas.WriteTo(file); err != nil {
		return fmt.Errorf("write %s: %w", path, errors.Join(err, file.Close()))
	}
	return file.Close()
}
