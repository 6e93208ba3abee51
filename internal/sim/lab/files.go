package lab

import (
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// prepare makes the directory for results.
func prepare(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make the directory for results: %w", err)
	}
	return nil
}

// writeCSV writes runs.csv, one line per seed, and summary.csv, three lines (min,
// median, max) per scenario and policy.
func writeCSV(dir string, rows []Row) error {
	header := []string{"scenario", "policy", "run"}
	for _, f := range figures {
		header = append(header, f.name)
	}
	runs, summary := [][]string{header}, [][]string{header}
	for i := range rows {
		r := &rows[i]
		for seed := range r.Runs {
			runs = append(runs, record(r, "seed "+strconv.Itoa(seed+1), &r.Runs[seed]))
		}
		summary = append(summary,
			record(r, "min", &r.Min), record(r, "median", &r.Median), record(r, "max", &r.Max))
	}
	if err := writeTable(filepath.Join(dir, "runs.csv"), runs); err != nil {
		return err
	}
	return writeTable(filepath.Join(dir, "summary.csv"), summary)
}

func record(r *Row, run string, n *Numbers) []string {
	out := []string{r.Scenario, r.Policy, run}
	for _, f := range figures {
		out = append(out, strconv.FormatFloat(*f.of(n), 'g', 6, 64))
	}
	return out
}

func writeTable(path string, lines [][]string) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	defer func() {
		if cerr := f.Close(); err == nil && cerr != nil {
			err = fmt.Errorf("write results: %w", cerr)
		}
	}()
	if err := csv.NewWriter(f).WriteAll(lines); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
