// Package client shows a running sidestep in a terminal: it asks the admin
// listener and lays out what is answered. It knows nothing of the inside, so that it
// can look at a sidestep of another version.
package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"
)

// maxAnswer bounds what is read of an answer: the record of a long spike, or a
// thousand nodes.
const maxAnswer = 64 << 20

// Options say where the admin listener is and how to be let in.
type Options struct {
	// Address is a URL, or host:port for plain HTTP.
	Address string
	// CAFile holds the authorities to trust in place of the system's, CertFile and
	// KeyFile our own certificate, in PEM form.
	CAFile, CertFile, KeyFile string
	// Timeout bounds one question.
	Timeout time.Duration
}

// Client asks the admin listener of one sidestep. Make it with [New].
type Client struct {
	base    *url.URL
	http    *http.Client
	timeout time.Duration
}

// New returns a client. The error says which option is wrong.
func New(o Options) (*Client, error) {
	address := o.Address
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	base, err := url.Parse(address)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, errors.New("--admin, or SIDESTEP_ADMIN, is no address such as http://127.0.0.1:9211") // it may hold a password
	}
	config, err := o.tls()
	if err != nil {
		return nil, err
	}
	return &Client{
		base: base, timeout: o.Timeout,
		http: &http.Client{Transport: &http.Transport{TLSClientConfig: config}},
	}, nil
}

func (o Options) tls() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.CAFile != "" {
		pem, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, fmt.Errorf("--ca-file: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--ca-file: %s holds no certificate in PEM form", o.CAFile)
		}
	}
	if o.CertFile == "" && o.KeyFile == "" {
		return c, nil
	}
	if o.CertFile == "" || o.KeyFile == "" {
		return nil, errors.New("--cert-file and --key-file go together")
	}
	pair, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("--cert-file, --key-file: %w", err)
	}
	c.Certificates = []tls.Certificate{pair}
	return c, nil
}

// Close gives the connections back.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// question is a request to the admin listener.
type question struct {
	method string // GET if empty
	path   string
	query  url.Values
	body   []byte
	token  string // empty: none
}

// ask asks, reads the answer into what is given, if anything is, and returns it as it
// came. Errors say what to do.
func (c *Client) ask(ctx context.Context, q question, into any) (json.RawMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	u := c.base.JoinPath(q.path)
	u.RawQuery = q.query.Encode()
	r, err := http.NewRequestWithContext(ctx, q.method, u.String(), bytes.NewReader(q.body))
	if err != nil {
		return nil, err
	}
	if q.token != "" {
		r.Header.Set("Authorization", "Bearer "+q.token)
	}
	r.Header.Set("Accept", "application/json")
	resp, err := c.http.Do(r)
	if err != nil {
		return nil, c.inWords(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, c.inWords(err)
	}
	if len(body) > maxAnswer {
		return nil, fmt.Errorf("the answer of %s is larger than %d MiB", c.base.Host, maxAnswer>>20)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, c.refused(q, resp.StatusCode, body)
	}
	if !json.Valid(body) {
		return nil, fmt.Errorf("what answers on %s is no admin listener of sidestep (--admin)", c.base.Host)
	}
	if into != nil {
		err = c.read(body, into)
	}
	return body, err
}

// notFound is what an admin listener says with its answer 404.
type notFound string

func (e notFound) Error() string { return string(e) }

func (c *Client) refused(q question, status int, body []byte) error {
	var told struct {
		Error string `json:"error"`
	}
	ours := json.Unmarshal(body, &told) == nil && told.Error != ""
	switch {
	case ours && status == http.StatusNotFound:
		return notFound(told.Error)
	case ours && status == http.StatusUnauthorized && q.token != "":
		return errors.New("the token in --token-file is not that of the admin listener: it must be the one in admin.token_file")
	case ours && status == http.StatusUnauthorized:
		return fmt.Errorf("%s: name its file with --token-file", told.Error)
	case ours:
		return errors.New(told.Error)
	case status == http.StatusNotFound:
		return fmt.Errorf("%s has no %s: it is no admin listener, or of an older sidestep (--admin)", c.base.Host, q.path)
	case status == http.StatusBadRequest && strings.Contains(string(body), "HTTPS server"):
		return fmt.Errorf("%s speaks TLS: begin the address with https:// (--admin)", c.base.Host)
	}
	return fmt.Errorf("%s answered %s with status %d %s: is it the admin listener of sidestep? (--admin)", c.base.Host, q.path, status, http.StatusText(status))
}

// inWords says what an error of the connection means and what to do.
func (c *Client) inWords(err error) error {
	host := c.base.Host
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	var dns *net.DNSError
	var op *net.OpError
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no answer from %s within %s (--timeout)", host, c.timeout)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("nothing listens on %s: is sidestep running there? (--admin)", host)
	case errors.As(err, &dns) && dns.IsNotFound:
		return fmt.Errorf("there is no host %s (--admin)", c.base.Hostname())
	case errors.As(err, &authority):
		return fmt.Errorf("the certificate of %s is signed by an authority that is not trusted (--ca-file)", host)
	case errors.As(err, &name):
		return fmt.Errorf("the certificate of %s is for another name: %w (--admin)", host, name)
	case errors.As(err, &op) && op.Op == "remote error": // how crypto/tls tells an alert
		return fmt.Errorf("%s refuses our certificate, or demands one: %w (--cert-file, --key-file)", host, op.Err)
	case errors.Is(err, http.ErrSchemeMismatch):
		return fmt.Errorf("%s speaks no TLS: begin the address with http:// (--admin)", host)
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	return fmt.Errorf("cannot ask %s: %w", host, err)
}

// read reads an answer.
func (c *Client) read(raw json.RawMessage, v any) error {
	if err := json.Unmarshal(raw, v); err != nil {
		return fmt.Errorf("the answer of %s is not understood: %w", c.base.Host, err)
	}
	return nil
}
