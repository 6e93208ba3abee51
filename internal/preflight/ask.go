package preflight

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// maxBody bounds what is read of an answer: a thousand nodes describe themselves in
// less.
const maxBody = 8 << 20

// asker puts questions to one address.
type asker struct {
	client  *http.Client
	timeout time.Duration
}

// refusal is an answer with another status than 200.
type refusal struct {
	status int
	body   string
}

func (r *refusal) Error() string {
	return fmt.Sprintf("status %d %s", r.status, http.StatusText(r.status))
}

// forbidden reports whether the account is known and may not.
func (r *refusal) forbidden() bool { return r.status == http.StatusForbidden }

// unauthorized reports whether the account is not known.
func (r *refusal) unauthorized() bool { return r.status == http.StatusUnauthorized }

// indexGone reports whether the index that was asked about is there no longer.
func (r *refusal) indexGone() bool {
	return r.status == http.StatusNotFound && strings.Contains(r.body, "index_not_found_exception")
}

// get asks for what is at path, and decodes it into v unless that is nil.
func (a asker) get(ctx context.Context, base *url.URL, path string, v any) error {
	return a.send(ctx, base, question{path: path}, v)
}

// question is a GET, or a POST if it has a body.
type question struct{ path, body string }

func (a asker) send(ctx context.Context, base *url.URL, q question, v any) error {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	address, method := strings.TrimSuffix(base.String(), "/")+"/"+q.path, http.MethodGet
	if q.body != "" {
		method = http.MethodPost
	}
	r, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(q.body))
	if err != nil {
		return err
	}
	r.Header.Set("Accept", "application/json")
	if q.body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := a.client.Do(r)
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err // the caller names the address
		}
		return a.inWords(err)
	}
	defer resp.Body.Close()
	read, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	switch {
	case err != nil:
		return a.inWords(err)
	case resp.StatusCode != http.StatusOK:
		return &refusal{status: resp.StatusCode, body: string(read)}
	case v == nil:
		return nil
	}
	if err := json.Unmarshal(read, v); err != nil {
		return fmt.Errorf("the answer does not decode: %w", err)
	}
	return nil
}

// inWords says what an error of the connection means.
func (a asker) inWords(err error) error {
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("no answer within %s", a.timeout)
	case errors.Is(err, syscall.ECONNREFUSED):
		return errors.New("connection refused")
	case errors.As(err, &authority):
		return errors.New("its certificate is signed by an authority that is not trusted (upstream.tls.ca_file)")
	case errors.As(err, &name):
		return fmt.Errorf("its certificate is for another name (upstream.tls.server_name): %w", err)
	case errors.Is(err, http.ErrSchemeMismatch), errors.As(err, new(tls.RecordHeaderError)):
		return errors.New("it speaks no TLS: the address must begin with http://, or is another one")
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return errors.New("it closed the connection: if it speaks TLS the address must begin with https://")
	}
	return err
}

// action finds what the engines name as not permitted: "no permissions for [A]" on
// OpenSearch, "action [A] is unauthorized" on Elasticsearch.
var action = regexp.MustCompile(`no permissions for \[([^\]]*)\]|action \[([^\]]*)\] is unauthorized`)

// actionOf returns what the engine says is not permitted; empty if it does not say.
func actionOf(body string) string {
	found := action.FindStringSubmatch(body)
	if found == nil {
		return ""
	}
	return found[1] + found[2]
}
