package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"strings"
)

// Override is a value that takes precedence over the file, such as one of a flag.
type Override struct {
	Path  string // of the key
	Flag  string // its name in problems: "--listen"
	Apply func(*Config)
}

// Load reads the file over the defaults, then the overrides over both, and validates the
// result. Without a file name there are the defaults. The error tells every problem, a line each.
func Load(file string, overrides ...Override) (Config, error) {
	var data []byte
	if file != "" {
		var err error
		if data, err = os.ReadFile(file); err != nil {
			return Config{}, Join(&Problem{Origin: file, Message: "cannot be read: " + reason(err), Cause: err})
		}
	}
	return Parse(file, data, overrides...)
}

// Parse is [Load] for the content of a file; name is the file's name in problems.
func Parse(name string, data []byte, overrides ...Override) (Config, error) {
	cfg := Default()
	decoded := decode(data, &cfg)
	flags := make(map[string]string, len(overrides))
	for _, override := range overrides {
		override.Apply(&cfg)
		flags[override.Path] = override.Flag
		maps.DeleteFunc(decoded.lines, func(path string, _ int) bool { return within(path, override.Path) })
	}
	problems := decoded.problems
	broken := make(map[string]bool)
	for _, p := range problems {
		p.Origin = fmt.Sprintf("%s:%d", name, p.line)
		broken[p.Path] = true
	}
	for _, p := range validate(cfg) {
		if broken[p.Path] || broken[""] {
			continue // the value it is about was not written like this
		}
		locate(p, name, decoded.lines, flags)
		problems = append(problems, p)
	}
	return cfg, Join(problems...)
}

// locate sets where the value of a problem was written: at the key itself, else at the
// nearest section around it.
func locate(p *Problem, file string, lines map[string]int, flags map[string]string) {
	for path := p.Path; path != ""; path = parent(path) {
		if flag, ok := flags[path]; ok {
			p.Origin = flag
			return
		}
		if line, ok := lines[path]; ok {
			p.Origin, p.line = fmt.Sprintf("%s:%d", file, line), line
			return
		}
	}
	p.Origin = file
}

// parent cuts the last element off a path: "a.b[0]" → "a.b" → "a" → "".
func parent(path string) string {
	return path[:max(strings.LastIndexAny(path, ".["), 0)]
}

// within reports whether path is the key itself or an element of it.
func within(path, key string) bool {
	return path == key || strings.HasPrefix(path, key+"[")
}

// ReadSecret reads a secret that stands alone in a file. Editors and shells add a line end,
// which belongs to no secret.
func ReadSecret(file string) (string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	secret := bytes.TrimSpace(data)
	if len(secret) == 0 {
		return "", fmt.Errorf("%s is empty", file)
	}
	if bytes.ContainsAny(secret, "\r\n") {
		return "", fmt.Errorf("%s holds more than one line", file)
	}
	return string(secret), nil
}

// reason returns why a file could not be used, without its name.
func reason(err error) string {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err.Error()
	}
	return err.Error()
}
