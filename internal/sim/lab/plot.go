package lab

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
)

// Size of the plots.
const (
	plotWidth  = 9 * vg.Inch
	plotHeight = 5 * vg.Inch
)

// plotScenario writes the percentile curves of a scenario, and for each policy
// the load of each node over time.
func plotScenario(dir string, sc *Scenario, rows []Row) error {
	if err := plotPercentiles(filepath.Join(dir, sc.Name+"-percentiles.svg"), sc, rows); err != nil {
		return err
	}
	for i := range rows {
		name := sc.Name + "-" + strings.ReplaceAll(rows[i].Policy, "/", "-") + "-load.svg"
		if err := plotLoad(filepath.Join(dir, name), sc, &rows[i]); err != nil {
			return err
		}
	}
	return nil
}

func newPlot(title, x, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Title.Padding = vg.Points(6)
	p.Legend.Top = true
	p.Legend.TextStyle.Font.Size = vg.Points(9)
	p.Legend.Padding = vg.Points(3)
	p.Add(plotter.NewGrid())
	return p
}

// plotPercentiles draws latency over the percentile, both logarithmic: each nine
// has the same width.
func plotPercentiles(path string, sc *Scenario, rows []Row) error {
	p := newPlot(sc.Name+": "+sc.About, "percentile", "ms")
	p.X.Max = 3.1
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	p.X.Tick.Marker = nines()
	p.Legend.Left = true
	for i, r := range rows {
		var points plotter.XYs
		for nine := 0.0; nine <= 3; nine += 0.05 {
			q := 100 * (1 - math.Pow(10, -nine))
			v := percentile(r.latency, r.failed, q)
			if math.IsInf(v, 1) {
				break
			}
			points = append(points, plotter.XY{X: nine, Y: math.Max(v, 0.1)})
		}
		if err := line(p, r.Policy, points, i); err != nil {
			return err
		}
	}
	return save(p, path)
}

func nines() plot.ConstantTicks {
	var ticks plot.ConstantTicks
	for _, percent := range []float64{50, 90, 99, 99.9} {
		ticks = append(ticks, plot.Tick{
			Value: -math.Log10(1 - percent/100),
			Label: "p" + strconv.FormatFloat(percent, 'g', -1, 64),
		})
	}
	return ticks
}

// manyNodes is how many lines a plot can hold; of larger clusters the bad nodes
// together and the others together are drawn.
const manyNodes = 12

// plotLoad draws shard queries a second for each node, of the first seed.
func plotLoad(path string, sc *Scenario, r *Row) error {
	p := newPlot(sc.Name+", "+r.Policy, "s", "shard queries/s")
	p.Y.Min = 0
	bad, _, _ := sc.bad()
	if sc.nodes > manyNodes {
		var others []int
		for n := range sc.nodes {
			if !slices.Contains(bad, n) {
				others = append(others, n)
			}
		}
		if err := line(p, "mean of the bad nodes", r.series(bad), 0); err != nil {
			return err
		}
		if err := line(p, "mean of the others", r.series(others), 1); err != nil {
			return err
		}
		return save(p, path)
	}
	for n := range sc.nodes {
		name := "node " + strconv.Itoa(n)
		if slices.Contains(bad, n) {
			name += " (bad)"
		}
		if err := line(p, name, r.series([]int{n}), n); err != nil {
			return err
		}
	}
	return save(p, path)
}

// series is the mean load of nodes, by half seconds.
func (r *Row) series(nodes []int) plotter.XYs {
	const every = int(500 * time.Millisecond / bucket)
	var points plotter.XYs
	for at := 0; at+every <= len(r.load[0]); at += every {
		var sum float64
		for _, n := range nodes {
			for _, v := range r.load[n][at : at+every] {
				sum += float64(v)
			}
		}
		points = append(points, plotter.XY{
			X: float64(at) * bucket.Seconds(),
			Y: sum / (500 * time.Millisecond).Seconds() / math.Max(1, float64(len(nodes))),
		})
	}
	return points
}

// line adds a line to p; every seven the colours repeat with other dashes.
func line(p *plot.Plot, name string, points plotter.XYs, i int) error {
	l, err := plotter.NewLine(points)
	if err != nil {
		return fmt.Errorf("plot %s: %w", name, err)
	}
	l.Color = plotutil.DarkColors[i%len(plotutil.DarkColors)]
	l.Dashes = plotutil.Dashes(i / len(plotutil.DarkColors))
	l.Width = vg.Points(1.2)
	p.Add(l)
	p.Legend.Add(name, l)
	return nil
}

func save(p *plot.Plot, path string) error {
	if err := p.Save(plotWidth, plotHeight, path); err != nil {
		return fmt.Errorf("save plot: %w", err)
	}
	return nil
}
