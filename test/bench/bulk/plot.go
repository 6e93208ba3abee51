package main

import (
	"image/color"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"sidestep/test/plots"
)

// draw writes an SVG with what each arm has relative to direct, by case.
func (r *report) draw(path string) error {
	left, err := r.panel("documents/s relative to direct", perSecond)
	if err != nil {
		return err
	}
	right, err := r.panel("p99 relative to direct", p99)
	if err != nil {
		return err
	}
	right.Legend = plot.NewLegend()
	return plots.SideBySide(path, left, right)
}

// points are values with their intervals.
type points struct {
	plotter.XYs
	plotter.YErrors
}

// panel draws one value, with a column for each case.
func (r *report) panel(title string, of func(turn) float64) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text = title
	p.Title.TextStyle.Font.Size = 11
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, ticks()
	p.Legend.Top, p.Legend.Left = true, true
	p.Add(plotter.NewGrid())
	var names []string
	for _, o := range r.outcomes {
		names = append(names, o.scenario.name)
	}
	p.NominalX(names...)
	p.X.Tick.Label.Font.Size = vg.Points(8) // five names side by side
	p.X.Min, p.X.Max = -0.5, float64(len(names))-0.5
	one := plotter.NewFunction(func(float64) float64 { return 1 })
	one.Color = color.Gray{Y: 120}
	p.Add(one)
	low, high := 0.5, 2.0
	for i, arm := range []string{armEngine, armEven, armAware, armControl} {
		line := r.points(arm, of)
		if len(line.XYs) == 0 {
			continue
		}
		for at := range line.XYs {
			line.XYs[at].X += 0.15 * (float64(i) - 1.5)
			y, e := line.XYs[at].Y, line.YErrors[at]
			low, high = min(low, y+e.Low), max(high, y+e.High)
		}
		marks, err := plotter.NewScatter(line.XYs)
		if err != nil {
			return nil, err
		}
		bars, err := plotter.NewYErrorBars(line)
		if err != nil {
			return nil, err
		}
		marks.Color, marks.Shape, marks.Radius = plotutil.Color(i), draw.CircleGlyph{}, vg.Points(3)
		bars.Color = plotutil.Color(i)
		p.Add(bars, marks)
		p.Legend.Add(arm, marks)
	}
	p.Y.Min, p.Y.Max = 0.8*low, 1.25*high
	return p, nil
}

// ticks are where a logarithmic axis has its numbers; what is out of its range is left out.
func ticks() plot.ConstantTicks {
	var all plot.ConstantTicks
	for _, v := range []float64{0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 20, 50} {
		all = append(all, plot.Tick{Value: v, Label: strconv.FormatFloat(v, 'g', -1, 64)})
	}
	return all
}

// points returns what an arm has relative to direct in each case.
func (r *report) points(arm string, of func(turn) float64) points {
	var line points
	for at, o := range r.outcomes {
		t := o.of(arm)
		if t == nil {
			continue
		}
		e := t.to(o.of(armDirect), of)
		if e.Low <= 0 {
			continue // nothing that a logarithm shows
		}
		line.XYs = append(line.XYs, plotter.XY{X: float64(at), Y: e.Value})
		line.YErrors = append(line.YErrors, struct{ Low, High float64 }{e.Low - e.Value, e.High - e.Value})
	}
	return line
}
