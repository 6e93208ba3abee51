// Command generate prints the Grafana dashboard of sidestep as JSON:
//
//	go run ./deploy/grafana/generate > deploy/grafana/sidestep.json
//
// The panels stand in the files named after their rows, model.go is the JSON.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
)

func main() {
	if err := write(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// write prints the dashboard.
func write(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false) // queries compare
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(newDashboard()); err != nil {
		return fmt.Errorf("write the dashboard: %w", err)
	}
	return nil
}
