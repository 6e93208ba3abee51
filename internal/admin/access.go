package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/time/rate"
)

// Access says what clients of the listener may do. With the zero value nothing may be
// changed, and the listener has no name but localhost.
type Access struct {
	// Hosts are the names, besides localhost, of the listener in requests over plain
	// HTTP; "*" stands for all.
	Hosts []string
	// Token returns the bearer token that changes need; nil: there is none.
	Token func() string
	// Open allows changes without a token while there is none.
	Open bool
	// SnapshotToken returns the bearer token that Snapshots needs; nil: it needs none.
	SnapshotToken func() string
	// Profiles says whether profiles are served.
	Profiles bool
}

// knows reports whether r names this listener as its host. A page of another site can
// have its own name resolve to this address (DNS rebinding); its browser then sends
// requests here as if to that site. Requests are safe if they name an address, as that is
// no such name; over TLS, as the certificate is not for such a name; and without a name,
// as browsers always send one.
func (a Access) knows(r *http.Request) bool {
	if r.TLS != nil || r.Host == "" {
		return true
	}
	name := strings.TrimSuffix((&url.URL{Host: r.Host}).Hostname(), ".")
	if _, err := netip.ParseAddr(name); err == nil || strings.EqualFold(name, "localhost") {
		return true
	}
	return slices.ContainsFunc(a.Hosts, func(known string) bool {
		return known == "*" || strings.EqualFold(strings.TrimSuffix(known, "."), name)
	})
}

// forAll reports whether a path is served under any name: health, as balancers use all
// sorts of names, and what a token guards.
func (a Access) forAll(path string) bool {
	switch path {
	case "/-/healthy", "/-/serving", "/-/ready":
		return true
	case "/snapshot", "/snapshot/target", "/snapshot/uses":
		return a.SnapshotToken != nil
	}
	return false
}

// hasToken reports whether r has the bearer token.
func hasToken(r *http.Request, token string) bool {
	scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	// Sums have the same length, so the time of the comparison reveals nothing of the
	// token.
	is, must := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(token))
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(is[:], must[:]) == 1
}

// named serves requests that name this listener as their host.
func (h *handler) named(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a := h.access(); !a.knows(r) && !a.forAll(r.URL.Path) {
			h.refuse(&h.refusals, w, r, http.StatusMisdirectedRequest, fmt.Sprintf(
				"the host %q is not one of this listener: use its address, or add the name to admin.allowed_hosts", r.Host))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// changing serves requests that change something.
func (h *handler) changing(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch a := h.access(); {
		case a.Token == nil && !a.Open:
			h.refuse(&h.refusals, w, r, http.StatusForbidden,
				"nothing can be changed here, as admin.listen is not on loopback and there is no token: set admin.token_file")
		case a.Token != nil && !hasToken(r, a.Token()):
			h.challenge(&h.refusals, w, r, "admin", "admin.token_file")
		default:
			next(w, r)
		}
	}
}

// guarded serves the snapshot.
func (h *handler) guarded(snapshots http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if token := h.access().SnapshotToken; token != nil && !hasToken(r, token()) {
			h.challenge(&h.strangers, w, r, "snapshot", "admin.snapshot_token_file")
			return
		}
		snapshots.ServeHTTP(w, r)
	}
}

// challenge asks for the token in the file of a key, and logs that at times.
func (h *handler) challenge(times *rate.Sometimes, w http.ResponseWriter, r *http.Request, realm, key string) {
	w.Header().Set("WWW-Authenticate", `Bearer realm="`+realm+`"`)
	h.refuse(times, w, r, http.StatusUnauthorized, "this needs the token in "+key+" (Authorization: Bearer TOKEN)")
}

// maxProfile bounds the seconds of a profile.
const maxProfile = 60

// profile serves profiles, one at a time.
func (h *handler) profile(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !h.access().Profiles {
			h.refuse(&h.refusals, w, r, http.StatusForbidden, "profiles are switched off: set admin.profiles")
			return
		}
		r.Body = http.NoBody // net/http/pprof looks for a form in it
		if text := r.FormValue("seconds"); text != "" {
			if s, err := strconv.ParseFloat(text, 64); err != nil || !(s >= 0 && s <= maxProfile) {
				h.json(w, http.StatusBadRequest, refusal{Error: fmt.Sprintf("seconds must be a number up to %d, not %q", maxProfile, text)})
				return
			}
		}
		if !h.profiling.TryLock() {
			w.Header().Set("Retry-After", strconv.Itoa(maxProfile))
			h.json(w, http.StatusServiceUnavailable, refusal{Error: "another profile is being taken"})
			return
		}
		defer h.profiling.Unlock()
		next(w, r)
	}
}

// refuse answers with an error, and logs that at times.
func (h *handler) refuse(times *rate.Sometimes, w http.ResponseWriter, r *http.Request, status int, why string) {
	times.Do(func() {
		h.logger.Warn("admin request refused; logged at most once a minute", "method", r.Method, "path", r.URL.Path, "by", r.RemoteAddr, "why", why)
	})
	h.json(w, status, refusal{Error: why})
}
