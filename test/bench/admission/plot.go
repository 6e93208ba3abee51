package main

import (
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"

	"sidestep/test/plots"
)

// draw writes an SVG with goodput and p99 of each arm by load.
func (r *report) draw(path string) error {
	left, err := r.panel("goodput / capacity", func(t turn) float64 { return t.goodput() / r.capacity })
	if err != nil {
		return err
	}
	right, err := r.panel("p99 of complete answers, ms", p99)
	if err != nil {
		return err
	}
	left.Legend = plot.NewLegend()
	return plots.SideBySide(path, left, right)
}

// panel draws one value.
func (r *report) panel(title string, of func(turn) float64) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text = title
	p.Title.TextStyle.Font.Size = 11
	p.X.Label.Text = "offered load / capacity"
	p.Y.Min = 0
	p.Legend.Top, p.Legend.Left = true, true
	p.Add(plotter.NewGrid())
	for i := range r.loads[0].arms {
		var points plotter.XYs
		for _, l := range r.loads {
			points = append(points, plotter.XY{X: l.load, Y: l.arms[i].median(of)})
		}
		line, marks, err := plotter.NewLinePoints(points)
		if err != nil {
			return nil, err
		}
		line.Color, marks.Color = plotutil.Color(i), plotutil.Color(i)
		marks.Radius = vg.Points(2.5)
		p.Add(line, marks)
		p.Legend.Add(r.loads[0].arms[i].arm, line, marks)
	}
	return p, nil
}
