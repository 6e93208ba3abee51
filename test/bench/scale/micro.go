package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
)

// micro holds the fastest run of each microbenchmark by its name without Benchmark:
// the processor's time where the benchmark tells it, else the clock's.
type micro map[string]time.Duration

// benchLine matches a line of go test -bench.
var benchLine = regexp.MustCompile(`^Benchmark(\S+?)(?:-\d+)?\s+\d+\s+([0-9.]+) ns/op(?:.*\s([0-9.]+) cpu-ns/op)?`)

// runBenches runs the microbenchmarks of placement and resolution. Of several runs
// the fastest is the one that other programs disturbed least.
func runBenches(ctx context.Context, count int) (micro, error) {
	all := micro{}
	for _, run := range []struct{ pkg, pattern, time, gc string }{
		{"./internal/cluster", "^Benchmark(Resolve|ResolveWide|AnyServed)$", "50ms", "100"},
		// What a collection of garbage costs depends on all that the process holds, and
		// whether one falls into a run on chance: it would hide the cost of the change.
		{"./internal/cluster", "^Benchmark(Apply|Rebuild)$", "20ms", "off"},
		{"./internal/cluster/poll", "^BenchmarkFirstTable$", "1x", "100"},
		{"./internal/proxy", "^BenchmarkWide$", "50ms", "100"},
	} {
		cmd := exec.CommandContext(ctx, "go", "test", "-run=^$", "-timeout=30m", "-bench="+run.pattern, //nolint:gosec // the arguments are ours
			"-benchtime="+run.time, "-count="+strconv.Itoa(count), run.pkg)
		cmd.Stderr = os.Stderr
		cmd.Env = append(os.Environ(), "GOGC="+run.gc)
		output, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("benchmarks of %s: %w", run.pkg, err)
		}
		if err := all.read(output); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (m micro) read(output []byte) error {
	for lines := bufio.NewScanner(bytes.NewReader(output)); lines.Scan(); {
		found := benchLine.FindStringSubmatch(lines.Text())
		if found == nil {
			continue
		}
		text := found[2]
		if found[3] != "" {
			text = found[3]
		}
		ns, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return fmt.Errorf("benchmark %s: %w", found[1], err)
		}
		took := time.Duration(ns)
		if before, ok := m[found[1]]; !ok || took < before {
			m[found[1]] = took
		}
	}
	return nil
}

// sizes of clusters, in shards.
var sizes = []int{100, 5000, 50_000, 500_000}

// plotChanges draws what a change and a rebuild cost over the size of the cluster.
func plotChanges(path string, m micro) error {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = "one change of placement", "shards of the cluster", "µs"
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.LogTicks{Prec: -1}, plot.LogTicks{Prec: -1}
	p.Legend.Top, p.Legend.Left = true, true
	p.Add(plotter.NewGrid())
	for i, curve := range []struct{ name, bench string }{
		{"create an index", "Apply/shards=%d/change=create"}, {"delete an index", "Apply/shards=%d/change=delete"},
		{"relocate copies", "Apply/shards=%d/change=relocate"}, {"make the table anew", "Rebuild/shards=%d"},
	} {
		var points plotter.XYs
		for _, shards := range sizes {
			took, ok := m[fmt.Sprintf(curve.bench, shards)]
			if !ok {
				return fmt.Errorf("no benchmark "+curve.bench, shards)
			}
			points = append(points, plotter.XY{X: float64(shards), Y: float64(took) / float64(time.Microsecond)})
		}
		line, dots, err := plotter.NewLinePoints(points)
		if err != nil {
			return err
		}
		line.Color, dots.Color = plotutil.Color(i), plotutil.Color(i)
		p.Add(line, dots)
		p.Legend.Add(curve.name, line, dots)
	}
	return p.Save(8*vg.Inch, 5*vg.Inch, path)
}
