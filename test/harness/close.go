package harness

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Close stops sidestep and the cluster, either of which may be nil. After a failure the logs
// stay, and are named. It is a failure, too, if sidestep does not stop as it should, or has logged
// a panic.
func Close(sidestep *Front, cluster *Cluster, failed bool) error {
	var errs []error
	if sidestep != nil {
		errs = append(errs, sidestep.Stop(), sidestep.Panicked())
		if failed = failed || errors.Join(errs...) != nil; failed {
			fmt.Println("log of sidestep:", sidestep.LogPath)
		} else {
			errs = append(errs, os.Remove(sidestep.LogPath))
		}
	}
	switch {
	case cluster == nil:
	case failed:
		fmt.Println("logs of the nodes:", cluster.Dir)
		errs = append(errs, cluster.StopKeepingLogs())
	default:
		errs = append(errs, cluster.Stop())
	}
	return errors.Join(errs...)
}

// MoveLog moves the log of a sidestep that has stopped.
func (f *Front) MoveLog(path string) error {
	log, err := os.ReadFile(f.LogPath)
	if err == nil {
		err = errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, log, 0o644))
	}
	if err == nil {
		err = os.Remove(f.LogPath)
	}
	return err
}

// Panicked returns an error if sidestep logged a panic: its server recovers from those of handlers.
func (f *Front) Panicked() error {
	log, err := os.ReadFile(f.LogPath)
	if err != nil {
		return fmt.Errorf("look for panics: %w", err)
	}
	for line := range bytes.Lines(log) {
		if bytes.Contains(line, []byte("panic")) {
			return fmt.Errorf("log of sidestep: %s", bytes.TrimSpace(line))
		}
	}
	return nil
}
