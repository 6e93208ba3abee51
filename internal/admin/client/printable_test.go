package client

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"
)

// nasty is a name as nobody gives it to a node by mistake: markup, commands to the
// terminal in both forms, line ends, directions of writing, a tag nobody sees, and bytes
// that are no character.
const nasty = "<img src=x onerror=alert(1)>\x1b[2J\x1b]0;owned\x07\u009b31m\r\n\t\u202egnp.exe\u2066\u200b\u2028\U000e0041\x9b\xff"

func TestPrintable(t *testing.T) {
	require.Equal(t, "<img src=x onerror=alert(1)>�[2J�]0;owned��31m����gnp.exe������", Printable(nasty))
	for _, text := range []string{"", "es-1", "Knoten (größer) 日本 שלום مرحبا 🎉", "a\u00a0b"} {
		require.Equal(t, text, Printable(text))
	}
}

// requirePrintable asserts that nothing but line ends reaches a terminal.
func requirePrintable(t *testing.T, text string) {
	t.Helper()
	for _, r := range text {
		require.True(t, r == '\n' || unicode.IsGraphic(r), "%U in %q", r, text)
	}
}

// poison appends a nasty text to every string of an answer that is no time.
func poison(t *testing.T, answer string) string {
	t.Helper()
	var in any
	require.NoError(t, json.Unmarshal([]byte(answer), &in))
	var walk func(v any) any
	walk = func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			for key := range v {
				v[key] = walk(v[key])
			}
		case []any:
			for i := range v {
				v[i] = walk(v[i])
			}
		case string:
			if _, err := time.Parse(time.RFC3339, v); err != nil {
				return v + nasty
			}
		}
		return v
	}
	out, err := json.Marshal(walk(in))
	require.NoError(t, err)
	// The encoder replaces what is no character: as another program may write it.
	return strings.ReplaceAll(string(out), `\u001b[2J`, "\\u001b[2J\x9b\u009b\u202e")
}

const statusAnswer = `{"at":"2026-11-21T12:00:00Z","version":"1.2.3","mode":"route","ready":{"ok":false,"missing":"es-1"},
 "engine":{"name":"opensearch","version":"3"},"nodes":[{"id":"a","name":"es-1","state":"slow","why":"is late","since":"2026-11-21T11:59:00Z","rank":1},{"id":"b","name":"","state":"fine"}],
 "spikes":[{"id":"1","node":"es-1","began":"2026-11-21T11:00:00Z","state":"slow","why":"w","cause":"c","summary":"s"}]}`

func TestNothingFromTheClusterReachesTheTerminal(t *testing.T) {
	check := `{"level":"problem","findings":[{"level":"problem","topic":"nodes","text":"es-1","advice":"a"}]}`
	spikes := `{"spikes":[` + spikeRecord + `]}`
	question := Question{Target: "a", Routing: "b"}
	for name, c := range map[string]struct {
		answer string
		run    func(c *Client, out io.Writer, f Format) error
	}{
		"explain": {steered, func(c *Client, out io.Writer, f Format) error { return Explain(t.Context(), c, out, f, question) }},
		"check": {check, func(c *Client, out io.Writer, f Format) error {
			_, err := Check(t.Context(), c, out, f)
			return err
		}},
		"spikes": {spikes, func(c *Client, out io.Writer, f Format) error { return Spikes(t.Context(), c, out, f) }},
		"spike":  {spikeRecord, func(c *Client, out io.Writer, f Format) error { return Spike(t.Context(), c, out, f, "1") }},
		"top": {statusAnswer, func(c *Client, out io.Writer, f Format) error {
			if f == JSON {
				return Status(t.Context(), c, out)
			}
			return TopOnce(t.Context(), c, out, time.Millisecond)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			answer := poison(t, c.answer)
			client, _ := answering(t, answer)
			var table, text strings.Builder
			require.NoError(t, c.run(client, &table, Table))
			requirePrintable(t, table.String())
			require.Contains(t, table.String(), "�[2J", "it can be seen")

			require.NoError(t, c.run(client, &text, JSON))
			requirePrintable(t, text.String())
			require.Contains(t, text.String(), `\u202e`)
			require.JSONEq(t, strings.ToValidUTF8(answer, "\ufffd"), text.String(), "it holds the same")
		})
	}
}

func TestScreenOfNastyNames(t *testing.T) {
	s := sample(0)
	s.Version, s.Engine.Name, s.Mode, s.Ready.Missing = nasty, nasty, nasty, nasty
	s.Nodes[2].Name, s.Nodes[2].Why, s.Spikes[0].Node, s.Spikes[0].Summary = nasty, nasty, nasty, nasty
	for _, width := range []int{0, 40, 80, 200} {
		m := model{view: view{trail: trail{}.add(s), sort: columnState, width: width, height: 24}}
		requirePrintable(t, m.View().Content)
		m.view = m.view.told(news{err: errors.New(nasty)})
		requirePrintable(t, m.View().Content)
		require.Contains(t, m.View().Content, "nothing new since")
	}
}

func TestJSONBeyondTheBasicPlane(t *testing.T) {
	const text = "{\n  \"a\": \"\U000e0041🎉\\u001b\"\n}"
	require.Equal(t, "{\n  \"a\": \"\\udb40\\udc41🎉\\u001b\"\n}", printableJSON([]byte(text)))
}

func TestRefusalsSayWhatIsWrong(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusMisdirectedRequest)
		_, _ = io.WriteString(w, `{"error":"the host \"x\" is not one of this listener: use its address, or add the name to admin.allowed_hosts"}`)
	}))
	defer server.Close()
	client, err := New(Options{Address: server.URL, Timeout: time.Minute})
	require.NoError(t, err)
	defer client.Close()
	err = Spikes(t.Context(), client, io.Discard, Table)
	require.EqualError(t, err, `the host "x" is not one of this listener: use its address, or add the name to admin.allowed_hosts`)
}
