package admin

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"path"
	"strings"
	"time"
)

//go:embed ui
var uiFiles embed.FS

// contentPolicy lets the pages load only what this listener serves, and turn no strings
// into markup.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"

// contentTypes by extension: what the system has registered may differ.
var contentTypes = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
	".txt":  "text/plain; charset=utf-8",
}

// uiFile serves the files below /ui/.
func uiFile(w http.ResponseWriter, r *http.Request) { serveFile(w, r, r.PathValue("file")) }

// uiPage returns a handler that serves one file.
func uiPage(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { serveFile(w, r, name) }
}

func serveFile(w http.ResponseWriter, r *http.Request, name string) {
	body, err := uiFiles.ReadFile("ui/" + name)
	contentType, ok := contentTypes[path.Ext(name)]
	if err != nil || !ok {
		http.NotFound(w, r)
		return
	}
	sum := sha256.Sum256(body)
	header := w.Header()
	header.Set("Content-Type", contentType)
	header.Set("Content-Security-Policy", contentPolicy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cache-Control", "no-cache") // revalidate each time: another version may run now
	header.Set("ETag", `"`+hex.EncodeToString(sum[:8])+`"`)
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(body))
}

// pageOrData serves the page to browsers, and JSON to all other clients and to browsers that
// ask for format=json.
func pageOrData(page, data http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Vary", "Accept")
		if strings.Contains(r.Header.Get("Accept"), "text/html") && r.URL.Query().Get("format") != "json" {
			page(w, r)
			return
		}
		data(w, r)
	}
}
