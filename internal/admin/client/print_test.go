package client

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// answering returns a client of a server that answers each question in turn; the
// last answer is repeated.
func answering(t *testing.T, bodies ...string) (client *Client, asked *[]url.URL) {
	t.Helper()
	asked = new([]url.URL)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*asked = append(*asked, *r.URL)
		_, _ = io.WriteString(w, bodies[min(len(*asked), len(bodies))-1])
	}))
	t.Cleanup(server.Close)
	client, err := New(Options{Address: server.URL, Timeout: time.Minute})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client, asked
}

const steered = `{"target":"logs-*","routing":"x","mode":"route","steered":true,"reason":"ranked",
 "summary":"es-3 is left out: slow","preference":"preference=_only_nodes%3Aaaa%2Cbbb","nodes":["es-1","es-2"],"coordinator":"es-1","exact":true,
 "shards":[
  {"index":"logs-1","shard":0,"copies":[
    {"node":"es-1","state":"fine","rank":4.2,"parts":{"response_time_ms":4.1,"service_time_ms":3.9,"queue":0.1,"outstanding":1,"silence_ms":0,"penalty_ms":0},"listed":true},
    {"node":"es-3","state":"slow","rank":310.5,"parts":{"response_time_ms":310,"service_time_ms":3.9},"listed":false,"excluded":"slow"}]},
  {"index":"logs-1","shard":1,"copies":[
    {"node":"es-2","state":"fine","rank":null,"parts":{},"listed":true,"excluded":"needed"}],
   "not_serving":[{"node":"es-1","state":"INITIALIZING","why":"being copied"},{"state":"UNASSIGNED","why":"on no node"}]}]}`

func TestExplain(t *testing.T) {
	left := strings.NewReplacer(`"steered":true`, `"steered":false`, `"ranked"`, `"no_outlier"`, `"excluded":"slow"`, `"excluded":""`).Replace(steered)
	observed := strings.NewReplacer(`"steered":true`, `"steered":false`, `"mode":"route"`, `"mode":"observe"`).Replace(steered)
	for name, body := range map[string]string{
		"explain-steered": steered, "explain-left": left, "explain-observed": observed,
		"explain-admission": `{"target":"a","mode":"route","reason":"no_outlier","exact":true,
			"admission":{"mode":"auto","class":"vip","summary":"It would be sent at once."}}`,
		"explain-passed": `{"target":"a","mode":"route","steered":false,"reason":"empty_target","exact":false}`,
	} {
		t.Run(name, func(t *testing.T) {
			client, asked := answering(t, body)
			var out strings.Builder
			require.NoError(t, Explain(t.Context(), client, &out, Table, Question{Target: "logs-*", Routing: "x"}))
			golden(t, name, out.String())
			require.Equal(t, "/explain?routing=x&target=logs-%2A", (*asked)[0].RequestURI())
		})
	}
}

// What no list is made for is shown alike, whyever it is.
func TestExplainWhereTheEngineChooses(t *testing.T) {
	want, err := os.ReadFile("testdata/explain-left.txt")
	require.NoError(t, err)
	for reason, verdict := range map[string]string{
		"no_gain": "is left to the engine", "overloaded": "passes as the client wrote it", "operation_off": "passes as the client wrote it",
		"preference_forbidden": "passes as the client wrote it",
	} {
		left := strings.NewReplacer(`"steered":true`, `"steered":false`, `"ranked"`, `"`+reason+`"`, `"excluded":"slow"`, `"excluded":""`).Replace(steered)
		client, _ := answering(t, left)
		var out strings.Builder
		require.NoError(t, Explain(t.Context(), client, &out, Table, Question{Target: "logs-*", Routing: "x"}))
		require.Equal(t, strings.ReplaceAll(string(want), "is left to the engine (no_outlier)", verdict+" ("+reason+")"), out.String())
	}
}

func TestExplainInModeOff(t *testing.T) {
	client, _ := answering(t, strings.NewReplacer(`"steered":true`, `"steered":false`, `"mode":"route"`, `"mode":"off"`).Replace(steered))
	var out strings.Builder
	require.NoError(t, Explain(t.Context(), client, &out, Table, Question{Target: "logs-*", Routing: "x"}))
	require.Contains(t, out.String(), "a search on logs-* with routing x would be steered, but for mode off (ranked)\n")
}

const sickBulk = `{"index":"logs-1","mode":"route","planned":true,"reason":"one_shard","summary":"One of 0 is chosen; avoided: 1.","choice":"avoided",
 "skew":1.25,"max_skew":1.5,"shards":[
  {"shard":0,"routing":"2","documents":500,"through":"es-1","outstanding":1,"level":1.25,"full":true,"chance":1,"per_document_ms":0.0321,"copies":[{"node":"es-1"},{}]},
  {"shard":1,"routing":"0","documents":300,"level":0.75,"chance":0,"per_document_ms":null,"avoided":["es-2 is slow","the write pool of es-3 has more to do than it can"],"copies":[{"node":"es-2"},{"node":"es-3"}]}]}`

func TestExplainABulk(t *testing.T) {
	for name, body := range map[string]string{
		"explain-bulk":          sickBulk,
		"explain-bulk-observed": strings.NewReplacer(`"planned":true`, `"planned":false`, `"one_shard"`, `"observe"`, `"mode":"route"`, `"mode":"observe"`).Replace(sickBulk),
		"explain-bulk-passed":   `{"index":"logs-1","mode":"route","reason":"alias","summary":"It is an alias."}`,
	} {
		t.Run(name, func(t *testing.T) {
			client, asked := answering(t, `{"reason":"unknown"}`, body)
			var out strings.Builder
			require.NoError(t, Explain(t.Context(), client, &out, Table, Question{Target: "logs-1", Bulk: true}))
			golden(t, name, out.String())
			require.Len(t, *asked, 2, "an index that is new is looked up")
			require.Equal(t, "/explain?bulk=logs-1", (*asked)[0].RequestURI())
		})
	}
}

// A target that is new is looked up: asked again it is known.
func TestExplainWaitsUntilTheTargetIsLearned(t *testing.T) {
	client, asked := answering(t, `{"reason":"unknown_target"}`, `{"reason":"ranked","exact":false,"shards":[{"index":"a"}]}`, steered)
	var out strings.Builder
	require.NoError(t, Explain(t.Context(), client, &out, Table, Question{Target: "logs-*", Routing: "x"}))
	require.Len(t, *asked, 3)
	require.Contains(t, out.String(), "is steered (ranked)")
}

func TestJSONIsPassedOn(t *testing.T) {
	client, _ := answering(t, `{"target":"a","more":{"than":"we know"}}`)
	var out strings.Builder
	require.NoError(t, Explain(t.Context(), client, &out, JSON, Question{Target: "a"}))
	require.Equal(t, "{\n  \"target\": \"a\",\n  \"more\": {\n    \"than\": \"we know\"\n  }\n}\n", out.String())
}

func TestCheck(t *testing.T) {
	body := `{"took_ms":12.7,"level":"problem","findings":[
	 {"level":"ok","topic":"cluster","text":"it answers","advice":"not shown"},
	 {"level":"note","topic":"settings","text":"adaptive selection is off","advice":"switch it on"},
	 {"level":"problem","topic":"account","text":"lacks read","advice":"grant it"}]}`
	client, _ := answering(t, body)
	var out strings.Builder
	problem, err := Check(t.Context(), client, &out, Table)
	require.NoError(t, err)
	require.True(t, problem)
	golden(t, "check", out.String())

	client, _ = answering(t, strings.Replace(body, `"level":"problem","findings"`, `"level":"note","findings"`, 1))
	problem, err = Check(t.Context(), client, io.Discard, JSON)
	require.NoError(t, err)
	require.False(t, problem)
}

func TestSpikes(t *testing.T) {
	client, _ := answering(t, `{"spikes":[
	 {"id":"2","node":"es-3","began":"2026-11-21T12:00:00.000Z","ended":null,"state":"slow","why":"w","cause":"gc_pause","summary":"collects garbage"},
	 {"id":"1","node":"es-1","began":"2026-11-21T11:00:00.000Z","ended":"2026-11-21T11:01:15.000Z","state":"unresponsive","why":"w","cause":"pause","summary":"stood still"}]}`)
	var out strings.Builder
	require.NoError(t, Spikes(t.Context(), client, &out, Table))
	golden(t, "spikes", out.String())
}

const spikeRecord = `{"id":"1","node":"es-3","began":"2026-11-21T12:00:00.000Z","ended":"2026-11-21T12:01:15.000Z","state":"slow","why":"response time 310 ms, limit 42 ms",
 "cause":"gc_pause","summary":"es-3 collected garbage for 1.2 s",
 "evidence":[{"text":"garbage collection took","value":1200,"unit":"ms"}],
 "causes":[{"cause":"gc_pause","score":0.9,"evidence":[]},{"cause":"merge_burst","score":0.3,"evidence":[{"text":"merges","value":2,"unit":""}]},{"cause":"pause","score":0}],
 "samples":{"interval_s":1,"at":["2026-11-21T11:59:59Z","2026-11-21T12:00:00Z","2026-11-21T12:00:01Z"],
  "nodes":[{"response_ms":[4,300,null],"share":[0.2,0.1,0],"queue":[0,5,7],"active":[1,4,4],"poll_ms":[2,1000,null],"state":["fine","slow",null]},
           {"response_ms":[4,4,5],"queue":[0,0,0]}]},
 "hot_threads":[{"at":"2026-11-21T12:00:01Z","threads":[{"name":"es[es-3][search][T#1]","cpu_percent":98.5},{"name":"es[es-3][merge][T#1]","cpu_percent":5}]}]}`

func TestSpike(t *testing.T) {
	client, asked := answering(t, spikeRecord)
	var out strings.Builder
	require.NoError(t, Spike(t.Context(), client, &out, Table, "1/x"))
	golden(t, "spike", out.String())
	require.Equal(t, "/spikes/1%2Fx", (*asked)[0].EscapedPath())

	client, _ = answering(t, `{"id":"1","node":"es-3","began":"2026-11-21T12:00:00.000Z","ended":null,"state":"slow","why":"w","cause":"unknown"}`)
	out.Reset()
	require.NoError(t, Spike(t.Context(), client, &out, Table, "1"))
	require.Equal(t, "spike 1: es-3, began 2026-11-21 12:00:00 UTC, lasts\nseen as slow: w\n\ncause: unknown\n", out.String())

	client, _ = answering(t, `{"id":"1","node":"es-3","began":"2026-11-21T12:00:00.000Z","ended":null,"state":"slow","why":"w","cause":"cpu_starvation",
	 "evidence":[{"text":"the quota","value":0.05,"unit":"CPUs"}],
	 "captures":[{"took_ms":null,"notes":["not asked: too many nodes"]},{"took_ms":3,"error":"HTTP status 429","notes":["tasks: HTTP status 429"]},{"notes":["not asked: too many nodes"]}]}`)
	out.Reset()
	require.NoError(t, Spike(t.Context(), client, &out, Table, "1"))
	require.Contains(t, out.String(), "  the quota: 0.05 CPUs\n")
	require.True(t, strings.HasSuffix(out.String(), "\nnot captured:\n  not asked: too many nodes (2 times)\n  HTTP status 429\n  tasks: HTTP status 429\n"), out.String())
}

func TestSpikeThatIsNotThere(t *testing.T) {
	for body, want := range map[string]string{
		`{"error":"there is no such record"}`: "there is no spike 9: sidestep spikes lists those on record",
		"404 page not found\n":                " has no spikes/9: it is no admin listener, or of an older sidestep (--admin)",
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, body)
		}))
		t.Cleanup(server.Close)
		client, err := New(Options{Address: server.URL, Timeout: time.Minute})
		require.NoError(t, err)
		require.ErrorContains(t, Spike(t.Context(), client, io.Discard, Table, "9"), want)
	}
}

// A name may be there although it cannot be looked up at the moment.
func TestNamesThatCannotBeLookedUp(t *testing.T) {
	client, err := New(Options{Address: "sidestep.example:9211"})
	require.NoError(t, err)
	require.EqualError(t, client.inWords(&net.DNSError{Err: "no such host", Name: "sidestep.example", IsNotFound: true}), "there is no host sidestep.example (--admin)")
	require.EqualError(t, client.inWords(&net.DNSError{Err: "server misbehaving", Name: "sidestep.example"}), "cannot ask sidestep.example:9211: lookup sidestep.example: server misbehaving")
}
