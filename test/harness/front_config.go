package harness

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// withConfig has a configuration read from a file, which is gone when it returns.
func withConfig(text string, read func(file string) error) error {
	dir, err := os.MkdirTemp("", "sidestep-config-")
	if err != nil {
		return fmt.Errorf("configure sidestep: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "sidestep.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return fmt.Errorf("configure sidestep: %w", err)
	}
	return read(file)
}

// CheckConfig has binary read a configuration without starting anything. The error holds
// everything that is wrong with it.
func CheckConfig(ctx context.Context, binary, text string) error {
	return withConfig(text, func(file string) error {
		cmd := exec.CommandContext(ctx, binary, "--config", file, "--config.check", "--upstream", "http://127.0.0.1:9200")
		if output, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("check the configuration: %w: %s", err, output)
		}
		return nil
	})
}
