package main

import (
	"image/color"
	"slices"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"sidestep/test/plots"
)

// smooth is how many buckets a point of the plot covers.
const smooth = 5

// drawShares writes an SVG with the share of searches that used each node, around
// the begin and the end of a fault.
func drawShares(path, title string, o *outcome) error {
	left, err := panel(o.onset, o.bad)
	if err != nil {
		return err
	}
	right, err := panel(o.recovery, o.bad)
	if err != nil {
		return err
	}
	left.Title.Text = title + ": begins at 0 s"
	right.Title.Text = "ends at 0 s"
	left.Y.Label.Text = "share of searches that use the node"
	right.Legend = plot.NewLegend()
	return plots.SideBySide(path, left, right)
}

func panel(s *shares, bad []string) (*plot.Plot, error) {
	p := plot.New()
	p.Title.TextStyle.Font.Size = 11
	p.X.Label.Text = "seconds"
	p.Y.Min, p.Y.Max = 0, 1
	p.Legend.Top, p.Legend.YOffs = true, -2*vg.Centimeter // most lines are at 1 or at 0
	p.Add(plotter.NewGrid())
	fine := 0
	for _, name := range s.names {
		line, err := plotter.NewLine(s.points(name))
		if err != nil {
			return nil, err
		}
		line.Width = vg.Points(1)
		if slices.Contains(bad, name) {
			line.Color = color.RGBA{R: 200, A: 255}
			line.Width = vg.Points(2)
			name += " (degraded)"
		} else {
			line.Color = color.RGBA{R: 70, G: uint8(90 + 30*fine), B: uint8(200 - 25*fine), A: 255}
			fine++
		}
		p.Add(line)
		p.Legend.Add(name, line)
	}
	return p, nil
}

func (s *shares) points(name string) plotter.XYs {
	var points plotter.XYs
	for b := 0; b+smooth <= len(s.total); b++ {
		if share, ok := s.share(name, b, smooth); ok {
			middle := s.from + bucketLength*(2*time.Duration(b)+smooth)/2
			points = append(points, plotter.XY{X: middle.Seconds(), Y: share})
		}
	}
	return points
}
