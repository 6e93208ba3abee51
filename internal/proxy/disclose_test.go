package proxy

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// Who is told what was decided, and for which answers.
func TestWhoIsToldWhatWasDecided(t *testing.T) {
	const all = `{"took":1,"_shards":{"total":3,"successful":3,"skipped":0,"failed":0},"hits":{"hits":[]}}`
	const fewer = `{"took":1,"_shards":{"total":2,"successful":2,"skipped":0,"failed":0},"hits":{"hits":[]}}`
	const credentials = "ApiKey x"
	for name, c := range map[string]struct {
		explain     Explain
		open        bool
		credentials string
		method, uri string
		status      int
		body        string
		told        bool
	}{
		"off":                           {ExplainOff, true, credentials, "POST", "/idx/_search", 200, all, false},
		"on":                            {ExplainOn, false, "", "POST", "/idx/_search", 401, `{}`, true},
		"no security":                   {ExplainAuthenticated, true, "", "POST", "/idx/_search", 200, all, true},
		"no security, no such index":    {ExplainAuthenticated, true, "", "POST", "/other/_search", 404, `{}`, true},
		"authenticated":                 {ExplainAuthenticated, false, credentials, "POST", "/idx/_search", 200, all, true},
		"anonymous":                     {ExplainAuthenticated, false, "", "POST", "/idx/_search", 200, all, false},
		"anonymous, refused":            {ExplainAuthenticated, false, "", "POST", "/idx/_search", 401, `{}`, false},
		"refused":                       {ExplainAuthenticated, false, credentials, "POST", "/idx/_search", 403, `{}`, false},
		"no such index":                 {ExplainAuthenticated, false, credentials, "POST", "/other/_search", 404, `{}`, false},
		"not known yet":                 {ExplainAuthenticated, false, credentials, "POST", "/other/_search", 200, all, false},
		"fewer shards than there are":   {ExplainAuthenticated, false, credentials, "POST", "/logs-*/_search", 200, fewer, false},
		"shards not shown":              {ExplainAuthenticated, false, credentials, "POST", "/idx/_search?filter_path=hits", 200, `{"hits":{}}`, false},
		"one copy only":                 {ExplainAuthenticated, false, credentials, "POST", "/lone/_search", 200, `{"_shards":{"total":1,"failed":0}}`, true},
		"one copy only, refused":        {ExplainAuthenticated, false, credentials, "POST", "/lone/_search", 403, `{}`, false},
		"a document":                    {ExplainAuthenticated, false, credentials, "GET", "/idx/_doc/1", 200, `{}`, true},
		"no document":                   {ExplainAuthenticated, false, credentials, "GET", "/idx/_doc/1", 404, `{}`, false},
		"documents with own errors":     {ExplainAuthenticated, false, credentials, "POST", "/idx/_mget", 200, `{"docs":[]}`, false},
		"searches with own errors":      {ExplainAuthenticated, false, credentials, "POST", "/idx/_msearch", 200, `{"responses":[]}`, false},
		"nothing that is looked up":     {ExplainAuthenticated, false, credentials, "GET", "/_cat/nodes", 200, `{}`, true},
		"nothing looked up, no account": {ExplainAuthenticated, false, "", "GET", "/_cat/nodes", 200, `{}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			h := start(t, 3, func(o *Options) {
				o.Explain = c.explain
				o.Open = func() bool { return c.open }
			})
			h.answer = respond(c.status, c.body)
			body := map[string]string{"/idx/_mget": `{"ids":["1"]}`, "/idx/_msearch": "{}\n{}\n"}[c.uri]
			headers := []string{explainHeader, "1"}
			if c.credentials != "" {
				headers = append(headers, "Authorization", c.credentials)
			}
			resp, _ := h.do(c.method, c.uri, body, headers...)
			require.Equal(t, c.told, resp.Header.Get(decisionHeader) != "", resp.Header)
		})
	}
}

// Errors of sidestep's own name no node, address or index.
func TestOwnErrorsNameNothing(t *testing.T) {
	h := start(t, 2, func(o *Options) { o.Explain = ExplainAuthenticated })
	h.answer = func(string, http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	nothing := func(body string) {
		t.Helper()
		for _, secret := range []string{"127.0.0.1", "send to", "idx", `"a"`, "id-a"} {
			require.NotContains(t, body, secret)
		}
	}
	resp, body := h.do("POST", "/idx/_doc", "{}", explainHeader, "1")
	require.Equal(t, http.StatusBadGateway, resp.StatusCode)
	require.Empty(t, resp.Header.Get(decisionHeader))
	nothing(body)
	h.end(0, 1)
	resp, body = h.do("POST", "/idx/_search", "{}", explainHeader, "1")
	require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	nothing(body)
}
