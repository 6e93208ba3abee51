package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var committed = time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC)

// Two builds of the same sources are equal, byte for byte. The build cache is shared here;
// make release-check uses one for each build, and builds for all platforms.
func TestTwoBuildsAreEqual(t *testing.T) {
	one := build(t, "one")
	two := build(t, "another folder")
	names := fileNames(t, one)
	name := fmt.Sprintf("sidestep-1.2.3-rc.1-%s-%s", runtime.GOOS, runtime.GOARCH)
	require.Equal(t, []string{"SHA256SUMS", name + ".cdx.json", name + ".tar.gz"}, names)
	require.Equal(t, names, fileNames(t, two))
	for _, name := range names {
		require.Equal(t, sha256.Sum256(read(t, one, name)), sha256.Sum256(read(t, two, name)), name)
	}

	var sums strings.Builder
	for _, name := range []string{names[2], names[1]} {
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(read(t, one, name)), name)
	}
	require.Equal(t, sums.String(), string(read(t, one, "SHA256SUMS")))

	files := unpack(t, filepath.Join(one, name+".tar.gz"), name)
	require.Subset(t, files, []string{"sidestep", "README.md", "CHANGELOG.md", "sidestep.yaml"})
	binary := filepath.Join(one, name, "sidestep")
	out, err := exec.CommandContext(t.Context(), binary, "version").Output()
	require.NoError(t, err)
	require.Regexp(t, `^sidestep 1\.2\.3-rc\.1 \(commit 0123456789abcdef, go\S+ \S+/\S+\)\n$`, string(out))
	requireBill(t, read(t, one, name+".cdx.json"), read(t, one, filepath.Join(name, "sidestep")))
}

// build builds a release of a copy of the sources, for this platform, and returns the
// folder of the results.
func build(t *testing.T, folder string) string {
	t.Helper()
	b := builder{
		root: filepath.Join(t.TempDir(), folder), out: t.TempDir(), version: "1.2.3-rc.1", commit: "0123456789abcdef",
		time: committed, platforms: []string{runtime.GOOS + "/" + runtime.GOARCH},
	}
	sources := os.DirFS(filepath.Join("..", ".."))
	for _, dir := range []string{"cmd", "internal", "deploy"} {
		part := filepath.Join("..", "..", dir)
		require.NoError(t, os.CopyFS(filepath.Join(b.root, dir), os.DirFS(part)))
	}
	for _, name := range []string{"go.mod", "go.sum", "README.md", "CHANGELOG.md"} {
		in, err := sources.Open(name)
		require.NoError(t, err)
		data, err := io.ReadAll(in)
		require.NoError(t, err)
		require.NoError(t, in.Close())
		require.NoError(t, os.WriteFile(filepath.Join(b.root, name), data, 0o600))
	}
	require.NoError(t, b.build(t.Context()))
	return b.out
}

func fileNames(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func read(t *testing.T, dir, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	require.NoError(t, err)
	return data
}

// unpack unpacks an archive beside itself and returns the names of the files in it.
func unpack(t *testing.T, archive, folder string) []string {
	t.Helper()
	in, err := os.Open(archive)
	require.NoError(t, err)
	defer in.Close()
	compressed, err := gzip.NewReader(in)
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(filepath.Join(filepath.Dir(archive), folder), 0o755))
	var names []string
	for archived := tar.NewReader(compressed); ; {
		header, err := archived.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		require.NoError(t, err)
		require.Equal(t, committed, header.ModTime.UTC(), header.Name)
		require.Empty(t, header.Uname)
		name, inside := strings.CutPrefix(header.Name, folder+"/")
		require.True(t, inside, header.Name)
		if header.Typeflag == tar.TypeDir {
			continue
		}
		names = append(names, name)
		data, err := io.ReadAll(archived)
		require.NoError(t, err)
		path := filepath.Join(filepath.Dir(archive), folder, name)
		require.NoError(t, os.WriteFile(path, data, header.FileInfo().Mode()))
	}
}

// requireBill requires that the bill of materials names what is in the binary, and nothing
// that only tests or the lab use.
func requireBill(t *testing.T, text, binary []byte) {
	t.Helper()
	var bill billOfMaterials
	require.NoError(t, json.Unmarshal(text, &bill))
	require.Equal(t, "CycloneDX", bill.Format)
	require.Equal(t, "2026-01-02T03:04:06Z", bill.Metadata.Timestamp)
	program := bill.Metadata.Component
	require.Equal(t, "pkg:golang/sidestep@1.2.3-rc.1", program.PURL)
	require.Equal(t, []hash{{"SHA-256", fmt.Sprintf("%x", sha256.Sum256(binary))}}, program.Hashes)
	versions := make(map[string]string)
	for _, part := range bill.Components {
		require.NotContains(t, versions, part.Name)
		require.Equal(t, part.PURL, part.Ref)
		require.Contains(t, bill.Dependencies[0].DependsOn, part.Ref)
		versions[part.Name] = part.Version
	}
	require.Equal(t, strings.TrimPrefix(runtime.Version(), "go"), versions["stdlib"])
	require.Regexp(t, `^v1\.`, versions["github.com/prometheus/client_golang"])
	require.NotContains(t, versions, "github.com/stretchr/testify")
	require.NotContains(t, versions, "gonum.org/v1/plot")
}

func TestTracesAreFound(t *testing.T) {
	t.Setenv("GOPROXY", "https://modules.example/path|https://other.example,direct")
	root := t.TempDir()
	found, err := builder{root: root, out: "/c/"}.traces(t.Context())
	require.NoError(t, err)
	require.Subset(t, found, []string{root + "/", "/c/", "modules.example", "other.example"})
	require.NotContains(t, found, "direct")

	here := traces{"/a/b/", "modules.example"}
	require.NoError(t, here.check(file{name: "x", data: []byte("sidestep/internal/app/app.go /a/bc")}))
	require.EqualError(t, here.check(file{name: "x", data: []byte("\x00/a/b/internal/app/app.go")}),
		`x tells of the machine it was built on: it contains "/a/b/"`)
	packed := file{name: "x.tar.gz", parts: []file{{name: "y", data: []byte("from modules.example")}}}
	require.EqualError(t, here.check(packed), `x.tar.gz: y tells of the machine it was built on: it contains "modules.example"`)
}

func TestVersionsOfReleases(t *testing.T) {
	for _, good := range []string{"1.2.3", "0.1.0", "10.0.0-rc.1", "1.0.0-alpha-2"} {
		require.Regexp(t, semantic, good)
	}
	for _, bad := range []string{"", "1.2", "01.2.3", "1.2.3-", "1.2.3/../x", "1.2.3 ", "a1b2c3d-dirty", "1.2.3+build"} {
		require.NotRegexp(t, semantic, bad)
		require.ErrorContains(t, run(t.Context(), []string{"-version", bad}), "is not a version such as")
	}
}

// A release is built from what is committed, and has the commit's time.
func TestReleaseOfACommit(t *testing.T) {
	dir := t.TempDir()
	git := func(args ...string) {
		cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "git", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
			"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org",
			"GIT_COMMITTER_DATE="+committed.Format(time.RFC3339))
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
	}
	git("init", "-q")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a"), nil, 0o600))
	git("add", "a")
	git("commit", "-q", "-m", "a")
	commit, at, err := head(t.Context(), dir)
	require.NoError(t, err)
	require.Len(t, commit, 40)
	require.Equal(t, committed, at)

	require.NoError(t, os.WriteFile(filepath.Join(dir, "b"), nil, 0o600))
	_, _, err = head(t.Context(), dir)
	require.EqualError(t, err, "a release is built from a commit, and these files are not committed:\n?? b")
}
