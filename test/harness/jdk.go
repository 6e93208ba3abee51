package harness

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// jdk is an installed Java runtime.
type jdk struct {
	Home  string
	Major int
}

// javaRange returns the Java versions a release runs on; newest 0 means no
// upper bound. OpenSearch 2 and Elasticsearch 7 install a security manager,
// which Java 24 removed.
func (r release) javaRange() (oldest, newest int) {
	switch {
	case r.distribution == OpenSearch && r.major >= 3:
		return 21, 0
	case r.distribution == Elasticsearch && r.major >= 9:
		return 21, 0
	case r.distribution == Elasticsearch && r.major == 8:
		return 17, 0
	default:
		return 17, 23
	}
}

// findJDK returns the newest installed JDK the release runs on, or an error that
// says in one line which one to install.
func (r release) findJDK() (jdk, error) { return pickJDK(r, installedJDKs()) }

func pickJDK(r release, installed []jdk) (jdk, error) {
	oldest, newest := r.javaRange()
	var best jdk
	var seen []string
	for _, candidate := range installed {
		seen = append(seen, fmt.Sprintf("%d in %s", candidate.Major, candidate.Home))
		if candidate.Major < oldest || newest > 0 && candidate.Major > newest || candidate.Major <= best.Major {
			continue
		}
		best = candidate
	}
	if best.Major > 0 {
		return best, nil
	}
	want := fmt.Sprintf("a JDK %d or newer", oldest)
	if newest > 0 {
		want = fmt.Sprintf("a JDK from %d to %d", oldest, newest)
	}
	found := "none is installed"
	if len(seen) > 0 {
		found = "found only " + strings.Join(seen, ", ")
	}
	return jdk{}, fmt.Errorf("%s %s needs %s and %s: install one (Debian package openjdk-%d-jre-headless or a Temurin JDK) or point JAVA_HOME at it",
		r.distribution, r.version, want, found, oldest)
}

// installedJDKs looks at JAVA_HOME, java in PATH and the usual folders.
func installedJDKs() []jdk {
	homes := []string{os.Getenv("JAVA_HOME")}
	if java, err := exec.LookPath("java"); err == nil {
		if real, err := filepath.EvalSymlinks(java); err == nil {
			homes = append(homes, filepath.Dir(filepath.Dir(real)))
		}
	}
	patterns := []string{"/usr/lib/jvm/*", "/opt/java/*", "/opt/jdk*", "/Library/Java/JavaVirtualMachines/*/Contents/Home"}
	if home, err := os.UserHomeDir(); err == nil {
		patterns = append(patterns, filepath.Join(home, ".sdkman/candidates/java/*"), filepath.Join(home, ".jdks/*"))
	}
	for _, pattern := range patterns {
		matches, err := filepath.Glob(pattern)
		if err != nil {
			continue // only a malformed pattern; ours are constants
		}
		homes = append(homes, matches...)
	}
	var found []jdk
	known := make(map[string]bool)
	for _, home := range homes {
		real, err := filepath.EvalSymlinks(home)
		if home == "" || err != nil || known[real] {
			continue
		}
		known[real] = true
		if major := javaMajor(real); major > 0 {
			found = append(found, jdk{Home: real, Major: major})
		}
	}
	return found
}

// javaMajor reads the major version from the file "release" every JDK has; 0 if
// home is not a JDK.
func javaMajor(home string) int {
	if _, err := os.Stat(filepath.Join(home, "bin", "java")); err != nil {
		return 0
	}
	file, err := os.Open(filepath.Join(home, "release"))
	if err != nil {
		return 0
	}
	defer func() { _ = file.Close() }()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		value, ok := strings.CutPrefix(lines.Text(), "JAVA_VERSION=")
		if !ok {
			continue
		}
		version := strings.TrimPrefix(strings.Trim(value, `"`), "1.") // 1.8.0 is Java 8
		digits := strings.FieldsFunc(version, func(r rune) bool { return r < '0' || r > '9' })
		if len(digits) == 0 {
			return 0
		}
		major, err := strconv.Atoi(digits[0])
		if err != nil {
			return 0
		}
		return major
	}
	return 0
}
