package main

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sidestep/test/harness"
	"sidestep/test/machine"
)

// Columns of the CSV file. Times are in the units of their names, and medians of the load's
// turns but for "all" and the greatest; a share is that of all shard queries in the cluster;
// what cannot be told is empty.
var columns = []string{
	"scenario", "load", "sent", "p50_ms", "p90_ms", "p99_ms", "p99_all_ms", "max_ms", "failed", "partial", "searches_per_s",
	"p99_to_oracle", "p99_to_engine", "passes", "bad_share", "busiest", "avoid_s", "return_s", "attempts", "ejected", "others_cpu",
	"p50_to_engine", "searches_to_engine", "asked",
	"first_error", "date", "engine", "sidestep", "machine", "command",
}

// book is the results on disk. Scenarios that are not measured keep their rows, so
// that one can be measured again alone.
type book struct {
	options
	records []record
	fresh   []string        // scenarios measured in this run
	origin  record          // the columns of this run
	slowest strings.Builder // what is told of this run's slowest searches
}

func openBook(ctx context.Context, o options) (*book, error) {
	version, err := o.SidestepVersion(ctx)
	if err != nil {
		return nil, err
	}
	b := &book{options: o, origin: record{
		"date": time.Now().Format("2006-01-02 15:04"), "engine": o.Engine + " " + o.Version,
		"sidestep": version,
		"machine":  machine.Name(), "command": o.command,
	}}
	file, err := os.Open(b.path(".csv"))
	if errors.Is(err, fs.ErrNotExist) {
		return b, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the results: %w", err)
	}
	defer file.Close()
	lines, err := csv.NewReader(file).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("read the results: %w", err)
	}
	if len(lines) == 0 {
		return b, nil
	}
	for _, line := range lines[1:] {
		row := record{}
		for i, cell := range line {
			row[lines[0][i]] = cell // what an older form has not is empty
		}
		b.records = append(b.records, row)
	}
	return b, nil
}

func (b *book) path(suffix string) string { return filepath.Join(b.Out, "chaos-"+b.Engine+suffix) }

// add takes in what came of a scenario and writes all results.
func (b *book) add(sc scenario, o *outcome) error {
	b.fresh = append(b.fresh, sc.name)
	b.records = slices.DeleteFunc(b.records, func(r record) bool { return r["scenario"] == sc.name })
	for _, row := range rows(sc, o) {
		maps.Copy(row, b.origin)
		b.records = append(b.records, row)
	}
	order := scenarioNames()
	slices.SortStableFunc(b.records, func(x, y record) int {
		return slices.Index(order, x["scenario"]) - slices.Index(order, y["scenario"])
	})
	if err := os.MkdirAll(b.Out, 0o755); err != nil {
		return fmt.Errorf("write the results: %w", err)
	}
	if o.onset != nil && !o.onset.blind {
		if err := drawShares(b.plotPath(sc.name), sc.title, o); err != nil {
			return fmt.Errorf("plot %s: %w", sc.name, err)
		}
	}
	if err := b.writeCSV(); err != nil {
		return fmt.Errorf("write the results: %w", err)
	}
	if err := harness.WriteResult(b.path(".md"), b.markdown()); err != nil {
		return err
	}
	return b.addSlowest(sc, o)
}

func (b *book) plotPath(scenario string) string { return b.path("-" + scenario + ".svg") }

func (b *book) writeCSV() error {
	file, err := os.Create(b.path(".csv"))
	if err != nil {
		return err
	}
	lines := [][]string{columns}
	for _, row := range b.records {
		var line []string
		for _, column := range columns {
			line = append(line, row[column])
		}
		lines = append(lines, line)
	}
	return errors.Join(csv.NewWriter(file).WriteAll(lines), file.Close())
}
