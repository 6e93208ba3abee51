package diagnosis

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	suffix = ".json"
	// unfinished is the suffix of files that are being written. What is left of them is deleted, so it
	// is one that no other program uses, which may have files in the folder, too.
	unfinished = ".sidestep-tmp"
)

// files are records in a folder, each in a file named by its id.
type files struct{ dir string }

func (f *files) path(id string) string { return filepath.Join(f.dir, id+suffix) }

// write writes a file completely or not at all.
func (f *files) write(id string, body []byte) error {
	if err := os.MkdirAll(f.dir, 0o750); err != nil {
		return err
	}
	temporary := f.path(id) + unfinished
	err := writeSynced(temporary, body)
	if err == nil {
		err = os.Rename(temporary, f.path(id))
	}
	if err != nil {
		return errors.Join(err, removed(temporary))
	}
	return nil
}

// try reports whether files can be written.
func (f *files) try() error {
	if err := os.MkdirAll(f.dir, 0o750); err != nil {
		return err
	}
	temporary := f.path("try") + unfinished
	return errors.Join(writeSynced(temporary, nil), removed(temporary))
}

func writeSynced(path string, body []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o640)
	if err != nil {
		return err
	}
	_, err = file.Write(body)
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// read reads the file of a record, so much of it at most: other programs may have files of any size there.
func (f *files) read(id string, most int64) ([]byte, error) {
	file, err := os.Open(f.path(id))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, most))
}

// remove deletes the file of a record.
func (f *files) remove(id string) error { return removed(f.path(id)) }

func removed(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// list returns the ids of the records, the oldest first, and deletes unfinished files.
func (f *files) list() ([]string, error) {
	entries, err := os.ReadDir(f.dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list diagnosis.dir: %w", err)
	}
	var ids []string
	for _, e := range entries {
		name := e.Name()
		if strings.HasSuffix(name, suffix+unfinished) {
			_ = removed(filepath.Join(f.dir, name))
		}
		if id, ok := strings.CutSuffix(name, suffix); ok && e.Type().IsRegular() {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids, nil
}
