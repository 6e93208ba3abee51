package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"sidestep/test/bench/sensitivity/outcome"
)

// Names of what is measured beside the changes.
const (
	unchanged  = "unchanged"
	otherSeeds = "unchanged, other seeds"
)

// measured is what one build brought. It is a line of the state.
type measured struct {
	Change  change          `json:"change"`
	Flags   string          `json:"flags"`             // with which it was measured, and of which commit
	Refused string          `json:"refused,omitempty"` // why it does not build
	Outcome outcome.Outcome `json:"outcome"`
}

// playing says how a build is played.
type playing struct {
	skip  int  // seeds of the catalogue that are left out before the first
	alone bool // random scenarios without the engine
}

// bench builds the player with changes and plays it.
type bench struct {
	options options
	temp    string
	state   *os.File
	known   []measured
}

// newBench makes room for what is built, and reads what is known if that is to be kept.
func newBench(o options) (*bench, error) {
	b := &bench{options: o}
	flags := os.O_CREATE | os.O_RDWR | os.O_APPEND
	if !o.goOn {
		flags |= os.O_TRUNC
	}
	if err := os.MkdirAll(filepath.Dir(o.state), 0o755); err != nil {
		return nil, fmt.Errorf("make the folder of the state: %w", err)
	}
	var err error
	if b.state, err = os.OpenFile(o.state, flags, 0o644); err != nil {
		return nil, fmt.Errorf("open the state: %w", err)
	}
	for d := json.NewDecoder(b.state); ; {
		var m measured
		if err := d.Decode(&m); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("read %s: %w", o.state, err)
		}
		b.known = append(b.known, m)
	}
	if b.temp, err = os.MkdirTemp("", "sensitivity"); err != nil {
		return nil, fmt.Errorf("make room for builds: %w", err)
	}
	return b, nil
}

func (b *bench) close() {
	_ = b.state.Close()
	_ = os.RemoveAll(b.temp)
}

// measure builds and plays a change, unless that is known already.
func (b *bench) measure(ctx context.Context, c change, p playing) (measured, error) {
	flags := fmt.Sprintf("rows=%s seeds=%d random=%d seed=%d commit=%s", b.options.rows, b.options.seeds, b.options.random, b.options.seed, b.options.commit)
	for i := range b.known {
		if b.known[i].Change == c && b.known[i].Flags == flags {
			return b.known[i], nil
		}
	}
	m := measured{Change: c, Flags: flags}
	player, refused, err := b.build(ctx, c)
	if err != nil {
		return m, err
	}
	if m.Refused = refused; refused == "" {
		if m.Outcome, err = b.play(ctx, player, p); err != nil {
			return m, fmt.Errorf("%s: %w", c, err)
		}
	}
	if err := json.NewEncoder(b.state).Encode(m); err != nil {
		return m, fmt.Errorf("write the state: %w", err)
	}
	return m, nil
}

// build builds the player with a change, or tells why that does not build.
func (b *bench) build(ctx context.Context, c change) (player, refused string, err error) {
	player = filepath.Join(b.temp, "player")
	arguments := []string{"build", "-trimpath", "-ldflags", "-s -w", "-o", player}
	if c.File != "" {
		overlay, err := b.overlay(c)
		if err != nil {
			return "", "", err
		}
		arguments = append(arguments, "-overlay", overlay)
	}
	build := exec.CommandContext(ctx, "go", append(arguments, "./test/bench/sensitivity/play")...) //nolint:gosec // our own player
	text, err := build.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return "", "", ctx.Err()
	case errors.As(err, &exit) && c.File != "":
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		return "", lines[len(lines)-1], nil
	case err != nil:
		return "", "", fmt.Errorf("build the player: %w\n%s", err, text)
	}
	return player, "", nil
}

// overlay writes the changed file, and the list that names it.
func (b *bench) overlay(c change) (string, error) {
	source, err := filepath.Abs(c.File)
	if err != nil {
		return "", fmt.Errorf("find %s: %w", c.File, err)
	}
	text, err := os.ReadFile(source)
	if err != nil {
		return "", fmt.Errorf("read what is to be changed: %w", err)
	}
	changed, err := c.apply(string(text))
	if err != nil {
		return "", err
	}
	file, list := filepath.Join(b.temp, filepath.Base(source)), filepath.Join(b.temp, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {source: file}})
	if err != nil {
		return "", fmt.Errorf("write the overlay: %w", err)
	}
	if err := errors.Join(os.WriteFile(file, []byte(changed), 0o600), os.WriteFile(list, replace, 0o600)); err != nil {
		return "", fmt.Errorf("write the overlay: %w", err)
	}
	return list, nil
}

// play plays what was built.
func (b *bench) play(ctx context.Context, player string, p playing) (out outcome.Outcome, err error) {
	seed := b.options.seed
	if p.skip > 0 {
		seed++
	}
	run := exec.CommandContext(ctx, player, "-rows", b.options.rows, "-seeds", strconv.Itoa(b.options.seeds), "-skip", strconv.Itoa(p.skip), //nolint:gosec // what was just built
		"-random", strconv.Itoa(b.options.random), "-seed", strconv.FormatUint(seed, 10), fmt.Sprintf("-alone=%t", p.alone))
	var stderr bytes.Buffer
	run.Stderr = &stderr
	text, err := run.Output()
	if ctx.Err() != nil {
		return out, ctx.Err()
	}
	if err != nil {
		return out, fmt.Errorf("play: %w\n%s", err, stderr.String())
	}
	if err := json.Unmarshal(text, &out); err != nil {
		return out, fmt.Errorf("read what was played: %w", err)
	}
	return out, nil
}

// dirty ends the name of a tree with changes that are not committed.
const dirty = "-dirty"

// commit names the tree that is measured.
func commit(ctx context.Context) (string, error) {
	text, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty="+dirty).Output()
	if err != nil {
		return "", fmt.Errorf("name the commit: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}
