package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// builder builds one release.
type builder struct {
	root, out string // absolute
	version   string
	commit    string
	time      time.Time // of all files in the archives, and of the bills of materials
	platforms []string  // such as linux/amd64
}

// build writes the archives, the bills of materials and SHA256SUMS.
func (b builder) build(ctx context.Context) error {
	if err := os.MkdirAll(b.out, 0o755); err != nil {
		return fmt.Errorf("make the folder of the release: %w", err)
	}
	traces, err := b.traces(ctx)
	if err != nil {
		return err
	}
	var sums strings.Builder
	for _, platform := range b.platforms {
		files, err := b.buildFor(ctx, platform)
		if err != nil {
			return fmt.Errorf("build for %s: %w", platform, err)
		}
		for _, file := range files {
			if err := traces.check(file); err != nil {
				return fmt.Errorf("build for %s: %w", platform, err)
			}
			if err := os.WriteFile(filepath.Join(b.out, file.name), file.data, 0o644); err != nil {
				return fmt.Errorf("build for %s: %w", platform, err)
			}
			fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(file.data), file.name)
		}
	}
	if err := os.WriteFile(filepath.Join(b.out, "SHA256SUMS"), []byte(sums.String()), 0o644); err != nil {
		return fmt.Errorf("write the checksums: %w", err)
	}
	return nil
}

// file is a result, or a file in an archive.
type file struct {
	name string
	mode fs.FileMode
	data []byte
	// parts are what an archive holds.
	parts []file
}

// buildFor returns the archive and the bill of materials of one platform.
func (b builder) buildFor(ctx context.Context, platform string) ([]file, error) {
	system, arch, ok := strings.Cut(platform, "/")
	if !ok {
		return nil, errors.New("a platform has the form linux/amd64")
	}
	binary, err := b.compile(ctx, system, arch)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("sidestep-%s-%s-%s", b.version, system, arch)
	bill, err := b.bill(binary, platform)
	if err != nil {
		return nil, err
	}
	parts := []file{{name: "sidestep", mode: 0o755, data: binary}}
	accompanying := []string{"README.md", "CHANGELOG.md", "deploy/sidestep.yaml"}
	if system == "linux" {
		accompanying = append(accompanying, "deploy/sidestep.service", "deploy/sidestep.socket")
	}
	if _, err := os.Stat(filepath.Join(b.root, "LICENSE")); err == nil {
		accompanying = append(accompanying, "LICENSE")
	}
	for _, path := range accompanying {
		data, err := os.ReadFile(filepath.Join(b.root, path))
		if err != nil {
			return nil, err
		}
		parts = append(parts, file{name: filepath.Base(path), mode: 0o644, data: data})
	}
	archive, err := pack(name, b.time, parts)
	if err != nil {
		return nil, err
	}
	return []file{
		{name: name + ".tar.gz", data: archive, parts: parts},
		{name: name + ".cdx.json", data: bill},
	}, nil
}

// compile returns the binary for a platform.
func (b builder) compile(ctx context.Context, system, arch string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "sidestep-release-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary := filepath.Join(dir, "sidestep")
	// What version control tells the compiler depends on the tags a clone has: version
	// and commit are told instead.
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-tags", "grpcnotrace",
		"-ldflags", fmt.Sprintf("-s -w -X main.version=%s -X main.commit=%s", b.version, b.commit),
		"-o", binary, "./cmd/sidestep")
	cmd.Dir = b.root
	// Everything that changes what the compiler makes of the sources is set here.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+arch,
		"GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=", "GOFIPS140=off", "GOFLAGS=-mod=readonly", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, bytes.TrimSpace(out))
	}
	return os.ReadFile(binary)
}
