package proxy

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	"sidestep/internal/attempt"
	"sidestep/internal/es"
	"sidestep/internal/leg"
	"sidestep/internal/record"
)

// upgrades reports whether the client asks for another protocol on its connection. The
// engines know none, but a proxy in front of them may. Offers of HTTP/2 without TLS, and of TLS
// (RFC 2817), which some clients make with each request, may be ignored, and are.
func (x *exchange) upgrades() bool {
	protocol := strings.ToLower(joined(x.r.Header["Upgrade"]))
	return protocol != "" && x.r.ContentLength == 0 && !strings.Contains(protocol, "h2c") && !strings.Contains(protocol, "tls/") &&
		strings.Contains(strings.ToLower(joined(x.r.Header["Connection"])), "upgrade")
}

// upgrade passes a request for another protocol, and then the bytes of both directions.
func (x *exchange) upgrade() {
	if x.Reason == "" {
		x.Reason = string(es.PassNotSteerable)
	}
	defer func() {
		if !x.complete && x.Status != 0 && !x.gone() {
			x.Outcome = string(outcomeCutOff)
			x.CutOff(io.ErrUnexpectedEOF)
		}
	}()
	x.p.reverse.ServeHTTP(x.w, x.r.WithContext(withExchange(x.r.Context(), x)))
	if x.complete = true; x.Outcome == "" {
		x.Outcome = string(outcomeOf(x.Status))
	}
}

// newUpgrader returns the proxy for upgrades.
func (p *Proxy) newUpgrader() *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite: func(pr *httputil.ProxyRequest) {
			pr.Out.URL.RawQuery = pr.In.URL.RawQuery
			pr.Out.Header.Del(explainHeader)
			for _, name := range [...]string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
				if values := pr.In.Header[name]; values != nil { // which ReverseProxy has taken out
					pr.Out.Header[name] = values
				}
			}
			pr.Out.Host = "" // the node's own, as a client would send
		},
		Transport: roundTripper(func(r *http.Request) (*http.Response, error) { return exchangeOf(r).sendUpgrade(r) }),
		ModifyResponse: func(resp *http.Response) error {
			x := exchangeOf(resp.Request)
			x.headAt, x.Status = time.Now(), resp.StatusCode
			return nil
		},
		ErrorHandler: func(_ http.ResponseWriter, r *http.Request, _ error) {
			x := exchangeOf(r)
			if x.gone() {
				panic(http.ErrAbortHandler)
			}
			x.answerUnreachable()
		},
		ErrorLog:      slog.NewLogLogger(p.o.Logger.Handler(), slog.LevelDebug),
		FlushInterval: -1,
	}
}

// roundTripper makes a function an [http.RoundTripper].
type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// transportTo returns a transport for one request to u. Its connection is made as the leg's are, so that its errors tell
// what was sent.
func transportTo(u *url.URL, o Options) *http.Transport {
	to, t := legOptions(u, o), o.Transport.Clone()
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return leg.Dial(ctx, to) }
	t.DialContext, t.DialTLSContext, t.DisableKeepAlives = dial, dial, true
	return t
}

// sendUpgrade sends the request to a node and, if it was not sent, to another one.
func (x *exchange) sendUpgrade(r *http.Request) (*http.Response, error) {
	for {
		t := newTry(x)
		t.query = x.r.URL.RawQuery
		now := time.Now()
		if !x.pick(t, now) {
			t.release()
			return nil, errNoUpstream
		}
		x.sent(t, record.Failover, now)
		target := *r.URL
		target.Scheme, target.Host = t.upstream.url.Scheme, t.upstream.url.Host
		out := r.WithContext(r.Context())
		out.URL = &target
		if x.Span != nil {
			out.Header = r.Header.Clone()
			for _, key := range []string{"Traceparent", "Tracestate"} {
				out.Header.Del(key)
				for _, value := range t.header[key] {
					out.Header.Add(key, value)
				}
			}
		}
		resp, err := transportTo(t.upstream.url, x.p.o).RoundTrip(out)
		ended := time.Now()
		t.unlease()
		x.Upstream += ended.Sub(now)
		if err == nil {
			x.Ended(t.number, record.Answered, resp.StatusCode, nil, ended)
			x.Answered = t.number
			return resp, nil
		}
		t.err, t.cause = err, causeOf(err)
		x.Ended(t.number, string(t.cause), 0, err, ended)
		if t.cause == attempt.Transport {
			return nil, err
		}
	}
}
