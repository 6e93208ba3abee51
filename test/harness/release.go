package harness

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// release is one version of one distribution.
type release struct {
	distribution string
	version      string
	major        int
}

func parseRelease(distribution, version string) (release, error) {
	if distribution != OpenSearch && distribution != Elasticsearch {
		return release{}, fmt.Errorf("unknown distribution %q: want %q or %q", distribution, OpenSearch, Elasticsearch)
	}
	head, _, _ := strings.Cut(version, ".")
	major, err := strconv.Atoi(head)
	if err != nil || strings.ContainsAny(version, "/\\: ") {
		return release{}, fmt.Errorf("%q is not a version of %s", version, distribution)
	}
	return release{distribution: distribution, version: version, major: major}, nil
}

// name is the folder the archive unpacks to.
func (r release) name() string { return r.distribution + "-" + r.version }

// fetch returns the folder of the unpacked distribution. It downloads with Maven
// into the local Maven repository and unpacks once; several processes may do so
// at the same time.
func (r release) fetch(ctx context.Context, logf func(string, ...any)) (string, error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	home := filepath.Join(cache, r.name())
	if _, err := os.Stat(home); err == nil {
		return home, nil
	}
	archive, err := r.download(ctx, logf)
	if err != nil {
		return "", err
	}
	logf("%s %s: unpacking to %s", r.distribution, r.version, cache)
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", fmt.Errorf("make the cache of distributions: %w", err)
	}
	fresh, err := os.MkdirTemp(cache, "unpack-")
	if err != nil {
		return "", fmt.Errorf("make the cache of distributions: %w", err)
	}
	defer func() { _ = os.RemoveAll(fresh) }()
	if err := unzip(archive, fresh); err != nil {
		return "", fmt.Errorf("unpack %s: %w", archive, err)
	}
	err = os.Rename(filepath.Join(fresh, r.name()), home)
	if _, statErr := os.Stat(home); statErr != nil {
		return "", fmt.Errorf("unpack %s: %w", archive, err)
	}
	return home, nil
}

// download returns the path of the archive in the local Maven repository.
func (r release) download(ctx context.Context, logf func(string, ...any)) (string, error) {
	userHome, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find the local Maven repository: %w", err)
	}
	repository := filepath.Join(userHome, ".m2", "repository")
	archive := filepath.Join(repository, "org", r.distribution, "distribution", "integ-test-zip",
		r.distribution, r.version, r.name()+".zip")
	if _, err := os.Stat(archive); err == nil {
		return archive, nil
	}
	maven, err := exec.LookPath("mvn")
	if err != nil {
		return "", fmt.Errorf("maven is needed to fetch %s %s: install it (Debian: apt-get install maven)", r.distribution, r.version)
	}
	artifact := fmt.Sprintf("org.%s.distribution.integ-test-zip:%s:%s:zip", r.distribution, r.distribution, r.version)
	logf("%s %s: fetching %s with Maven", r.distribution, r.version, artifact)
	cmd := exec.CommandContext(ctx, maven, "-q", "-B", "dependency:get", "-Dtransitive=false",
		"-Dartifact="+artifact, "-Dmaven.repo.local="+repository)
	if output, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("fetch %s with Maven: %w: %s", artifact, err, lastLine(output))
	}
	if _, err := os.Stat(archive); err != nil {
		return "", fmt.Errorf("fetch %s with Maven: %w", artifact, err)
	}
	return archive, nil
}

func lastLine(output []byte) string {
	lines := strings.Split(strings.TrimSpace(string(output)), "\n")
	return lines[len(lines)-1]
}

// cacheDir is where distributions are unpacked. Root's own cache is closed to
// the user the nodes then run as, so root uses the system's.
func cacheDir() (string, error) {
	if os.Geteuid() == 0 {
		return "/var/cache/sidestep", nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache of distributions: %w", err)
	}
	return filepath.Join(dir, "sidestep"), nil
}

func unzip(archive, dir string) error {
	reader, err := zip.OpenReader(archive)
	if err != nil {
		return err
	}
	defer func() { _ = reader.Close() }()
	for _, file := range reader.File {
		if !filepath.IsLocal(file.Name) {
			return fmt.Errorf("%s leads out of the archive", file.Name)
		}
		if err := unzipOne(file, filepath.Join(dir, file.Name)); err != nil {
			return err
		}
	}
	return nil
}

func unzipOne(file *zip.File, path string) error {
	if file.FileInfo().IsDir() {
		return os.MkdirAll(path, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	in, err := file.Open()
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	// Everybody may read: the nodes may run as another user than we do.
	out, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, file.Mode().Perm()|0o444)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
