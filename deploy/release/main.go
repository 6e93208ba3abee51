// Command release builds what a release consists of: an archive for each platform, a
// software bill of materials (SBOM) of each binary, and checksums.
//
//	go run ./deploy/release -version 1.2.3 -out dist
//
// The same commit and the same version of Go give the same bytes, in whatever folder and
// whenever it is built. The work tree must hold nothing that is not committed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const platforms = "linux/amd64,linux/arm64,darwin/arm64"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	version := flags.String("version", "", "the version of the release, such as 1.2.3 or 1.2.3-rc.1")
	root := flags.String("root", ".", "the folder of the repository")
	out := flags.String("out", "dist", "the folder of the results")
	targets := flags.String("platforms", platforms, "what to build for")
	if err := flags.Parse(args); err != nil {
		return err
	}
	b := builder{version: strings.TrimPrefix(*version, "v"), platforms: strings.Split(*targets, ",")}
	if !semantic.MatchString(b.version) {
		return fmt.Errorf("-version %q is not a version such as 1.2.3 or 1.2.3-rc.1", *version)
	}
	var err error
	if b.root, err = filepath.Abs(*root); err != nil {
		return err
	}
	if b.out, err = filepath.Abs(*out); err != nil {
		return err
	}
	if b.commit, b.time, err = head(ctx, b.root); err != nil {
		return err
	}
	return b.build(ctx)
}

// semantic matches a version as semver.org defines it, without metadata of the build.
var semantic = regexp.MustCompile(`^(0|[1-9]\d*)(\.(0|[1-9]\d*)){2}(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$`)

// head returns the commit that is checked out in root, and its time. It is an error if
// the work tree holds anything else.
func head(ctx context.Context, root string) (commit string, at time.Time, err error) {
	changed, err := output(ctx, root, "git", "status", "--porcelain")
	if err != nil {
		return "", time.Time{}, err
	}
	if changed != "" {
		return "", time.Time{}, fmt.Errorf("a release is built from a commit, and these files are not committed:\n%s", changed)
	}
	line, err := output(ctx, root, "git", "log", "-1", "--format=%H %ct")
	if err != nil {
		return "", time.Time{}, err
	}
	commit, committed, _ := strings.Cut(line, " ")
	seconds, err := strconv.ParseInt(committed, 10, 64)
	if err != nil {
		return "", time.Time{}, fmt.Errorf("read the time of commit %s: %w", commit, err)
	}
	return commit, time.Unix(seconds, 0).UTC(), nil
}

// output returns what a command prints, without white space around it.
func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, args[0], err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(string(out)), nil
}
