package harness

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// WriteConfig writes a configuration file with keys of the section routing, for
// the flag --config. Values are written as they are: plain YAML scalars.
func WriteConfig(path string, routing map[string]string) error {
	var text strings.Builder
	text.WriteString("routing:\n")
	for _, key := range slices.Sorted(maps.Keys(routing)) {
		fmt.Fprintf(&text, "  %s: %s\n", key, routing[key])
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("configure sidestep: %w", err)
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
		return fmt.Errorf("configure sidestep: %w", err)
	}
	return nil
}

// CheckConfig has binary read a configuration file without starting anything. The error
// holds everything that is wrong with it.
func CheckConfig(ctx context.Context, binary, config string) error {
	cmd := exec.CommandContext(ctx, binary, "--config", config, "--config.check", "--upstream", "http://127.0.0.1:9200")
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("check %s: %w: %s", config, err, output)
	}
	return nil
}
