package admin_test

import (
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sidestep/internal/cluster"
	"sidestep/internal/diagnosis"
	"sidestep/internal/selection"
)

func TestPageIsServedWithAStrictPolicy(t *testing.T) {
	h := newHandler(&fake{})
	files := []string{"/"}
	require.NoError(t, filepath.WalkDir("ui", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files = append(files, "/"+filepath.ToSlash(path))
		}
		return err
	}))
	require.Greater(t, len(files), 15)
	for _, file := range files {
		w := do(t, h, "GET "+file, "")
		require.Equal(t, http.StatusOK, w.Code, file)
		policy := w.Header().Get("Content-Security-Policy")
		require.Contains(t, policy, "default-src 'none'; script-src 'self'; style-src 'self';", file)
		require.NotContains(t, policy, "unsafe", file)
		require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"), file)
		require.NotEmpty(t, w.Header().Get("Content-Type"), file)
		again := do(t, h, "GET "+file, "", "If-None-Match", w.Header().Get("ETag"))
		require.Equal(t, http.StatusNotModified, again.Code, file)
	}
	for _, file := range []string{"/ui/", "/ui/none.js", "/ui/vendor", "/ui/%2e%2e/ui.go", "/ui/../admin.go"} {
		require.NotEqual(t, http.StatusOK, do(t, h, "GET "+file, "").Code, file)
	}
}

// What the policy forbids, and what would reach for another host, must not be there at
// all.
func TestPageNeedsNothingFromElsewhere(t *testing.T) {
	forbidden := regexp.MustCompile(`(?i)https?://|innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|<script>|\sstyle="|\son[a-z]+="`)
	require.NoError(t, filepath.WalkDir("ui", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Base(filepath.Dir(path)) == "vendor" {
			return err
		}
		body, err := os.ReadFile(path)
		require.NoError(t, err)
		text := strings.ReplaceAll(string(body), "http://www.w3.org/2000/svg", "")
		require.Empty(t, forbidden.FindString(text), path)
		require.LessOrEqual(t, strings.Count(text, "\n"), 500, path)
		return nil
	}))
}

// Text enters the page in one place, where it is made printable.
func TestTextEntersThePageInOnePlace(t *testing.T) {
	elsewhere := regexp.MustCompile(`textContent =|innerText|createTextNode|insertAdjacentText|setAttribute|document\.title = [^p]|\.title = [^p]`)
	scripts, err := filepath.Glob("ui/*.js")
	require.NoError(t, err)
	require.Greater(t, len(scripts), 10)
	for _, script := range scripts {
		body, err := os.ReadFile(script)
		require.NoError(t, err)
		if filepath.Base(script) == "dom.js" {
			require.Contains(t, string(body), "printable")
			continue
		}
		require.Empty(t, elsewhere.FindString(string(body)), script)
	}
}

func TestPageHasWordsForEveryReason(t *testing.T) {
	words, err := os.ReadFile("ui/words.js")
	require.NoError(t, err)
	documented, err := os.ReadFile("../../docs/metrics.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(documented), "**`reason`**")
	require.True(t, found)
	table, _, _ = strings.Cut(table, "**`outcome`**")
	reasons := regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| (steered|passed|sent)?").FindAllStringSubmatch(table, -1)
	require.Greater(t, len(reasons), 30)
	for _, reason := range reasons {
		group := map[string]string{"steered": "steered", "sent": "engine"}[reason[2]]
		if group == "" {
			group = "passed"
		}
		require.Contains(t, string(words), "\n  "+reason[1]+`: ["`+group+`", "`, "docs/metrics.md has it so")
	}
}

func TestPageHasWordsForEveryDeparture(t *testing.T) {
	words, err := os.ReadFile("ui/words.js")
	require.NoError(t, err)
	for _, how := range cluster.Departures() {
		if how != cluster.Stays {
			require.Contains(t, string(words), "\n  "+string(how)+": \"")
		}
	}
	require.Contains(t, string(words), "\n  "+selection.Drained+": \"")
}

func TestPageHasWordsForEveryStateAndCause(t *testing.T) {
	words, err := os.ReadFile("ui/words.js")
	require.NoError(t, err)
	for _, state := range selection.States() {
		require.Contains(t, string(words), "\n  "+state.String()+": { kind: \"")
	}
	for _, cause := range diagnosis.Causes() {
		require.Contains(t, string(words), "\n  "+string(cause)+": { word: \"")
	}
}
