package bulk

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

// place gives the routing "7" to all indices but those of which the name says otherwise, and leaves what has one.
func place(p Part) (Slot, Reason) {
	switch {
	case p.Routed:
		return Slot{}, ReasonOwnRouting
	case strings.HasPrefix(p.Index, "refused"):
		return Slot{}, ReasonJoinField
	default:
		return slotOf("7"), ""
	}
}

// slotOf returns a slot of one shard, to which a routing value leads.
func slotOf(value string) Slot {
	return Slot{Logical: Logical{size: 1, routingShards: 1, values: []string{value}}}
}

func rewrite(t *testing.T, body, index string) (string, Tally) {
	t.Helper()
	r := NewRewriter(strings.NewReader(body), Options{DefaultIndex: index, Place: place})
	out, err := io.ReadAll(r)
	require.NoError(t, err)
	return string(out), r.Tally()
}

func TestRewriterPlans(t *testing.T) {
	for _, tc := range []struct{ name, body, want string }{
		{"bare", "{\"index\":{}}\n{\"a\":1}\n", "{\"index\":{\"routing\":\"7\"}}\n{\"a\":1}\n"},
		{"create", "{\"create\":{\"_index\":\"logs\"}}\n{}\n", "{\"create\":{\"routing\":\"7\",\"_index\":\"logs\"}}\n{}\n"},
		{"white space", " { \"index\" : { } } \n{}\n", " { \"index\" : {\"routing\":\"7\" } } \n{}\n"},
		{"white space before a field", "{\"index\":{ \"_index\":\"x\"}}\n{}\n", "{\"index\":{\"routing\":\"7\", \"_index\":\"x\"}}\n{}\n"},
		{"carriage returns", "{\"index\":{}}\r\n{\"a\":1}\r\n", "{\"index\":{\"routing\":\"7\"}}\r\n{\"a\":1}\r\n"},
		{"empty lines between operations", "\n{\"index\":{}}\n{}\n\r\n \t\n{\"index\":{}}\n{}\n", "\n{\"index\":{\"routing\":\"7\"}}\n{}\n\r\n \t\n{\"index\":{\"routing\":\"7\"}}\n{}\n"},
		{"an empty line is a source", "{\"index\":{}}\n\n{\"index\":{}}\n{}\n", "{\"index\":{\"routing\":\"7\"}}\n\n{\"index\":{\"routing\":\"7\"}}\n{}\n"},
		{"a source looks like an action", "{\"index\":{}}\n{\"index\":{}}\n{\"index\":{}}\n{\"index\":{}}\n", "{\"index\":{\"routing\":\"7\"}}\n{\"index\":{}}\n{\"index\":{\"routing\":\"7\"}}\n{\"index\":{}}\n"},
		{"a delete has no source", "{\"delete\":{\"_id\":\"1\"}}\n{\"index\":{}}\n{}\n", "{\"delete\":{\"_id\":\"1\"}}\n{\"index\":{\"routing\":\"7\"}}\n{}\n"},
		{"an update has one", "{\"update\":{\"_id\":\"1\"}}\n{\"index\":{}}\n{\"index\":{}}\n{}\n", "{\"update\":{\"_id\":\"1\"}}\n{\"index\":{}}\n{\"index\":{\"routing\":\"7\"}}\n{}\n"},
		{"a source that ends early", "{\"index\":{}}\n{\"a\"", "{\"index\":{\"routing\":\"7\"}}\n{\"a\""},
		{"what ends early", "{\"index\":{}}\n{}\n{\"index\":{}}", "{\"index\":{\"routing\":\"7\"}}\n{}\n{\"index\":{}}"},
		{"what comes after an error", "{\"index\":{}}\n{}\n{\"what\":{}}\n{}\n{\"index\":{}}\n{}\n", "{\"index\":{\"routing\":\"7\"}}\n{}\n{\"what\":{}}\n{}\n{\"index\":{}}\n{}\n"},
		{"nothing", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, _ := rewrite(t, tc.body, "x")
			require.Equal(t, tc.want, got)
		})
	}
}

func TestRewriterTellsWhyOperationsPass(t *testing.T) {
	for _, tc := range []struct {
		action string
		why    Reason
	}{
		{`{"index":{"_id":"1","routing":"x"}}`, ReasonExplicitID},
		{`{"create":{"_id":null}}`, ReasonExplicitID},
		{`{"index":{"routing":"x","_index":"a"}}`, ReasonOwnRouting},
		{`{"index":{"_routing":"x"}}`, ReasonOwnRouting},
		{`{"index":{"pipeline":"_none"}}`, ReasonPipeline},
		{`{"index":{"require_alias":false}}`, ReasonOtherField},
		{`{"index":{"_index":"a","_index":"a"}}`, ReasonOtherField},
		{`{"index":{"_index":null}}`, ReasonOtherField},
		{`{"update":{"_id":"1"}}`, ReasonUpdate},
		{`{"delete":{"_id":"1"}}`, ReasonDelete},
		{`{"index":{}}`, ReasonNoIndex},
		{`{"index":{"_index":""}}`, ReasonNoIndex},
		{`{"index":{"_index":"refused"}}`, ReasonJoinField},
		{`{"index":{}} x`, ReasonMalformed},
		{`{"index":{"_index":"` + strings.Repeat("x", maxAction) + `"}}`, ReasonMalformed},
	} {
		got, tally := rewrite(t, tc.action+"\n", "")
		require.Equal(t, tc.action+"\n", got)
		require.Equal(t, map[Reason]int{tc.why: 1}, tally.Passed, tc.action)
		require.Equal(t, 1, tally.Operations)
		require.Zero(t, tally.Planned)
		require.Contains(t, Reasons(), tc.why)
	}
}

func TestRewriterTallies(t *testing.T) {
	asked := map[string]int{}
	body := strings.Repeat("{\"index\":{\"_index\":\"a\"}}\n{\"n\":1}\n", 3) + "{\"index\":{}}\n{}\n{\"delete\":{\"_id\":\"1\"}}\n{\"index\":{\"_index\":\"refused\"}}\n{}\n"
	r := NewRewriter(strings.NewReader(body), Options{DefaultIndex: "b", Place: func(p Part) (Slot, Reason) {
		asked[p.Index]++
		return place(p)
	}})
	_, err := io.Copy(io.Discard, r)
	require.NoError(t, err)
	require.Equal(t, map[string]int{"a": 1, "b": 1, "refused": 1}, asked)
	require.Equal(t, Tally{
		Operations: 6, Planned: 4, BytesRead: int64(len(body)),
		Passed: map[Reason]int{ReasonDelete: 1, ReasonJoinField: 1},
		Placed: []Placed{{Part: Part{Index: "a"}, Operations: 3, Shards: 1, Bytes: 24}, {Part: Part{Index: "b"}, Operations: 1, Shards: 1, Bytes: 3}},
	}, r.Tally())
}

func TestRewriterLooksAtSoManyIndices(t *testing.T) {
	var body strings.Builder
	for i := range maxParts + 5 {
		fmt.Fprintf(&body, "{\"index\":{\"_index\":\"i%d\"}}\n{}\n", i)
	}
	body.WriteString("{\"index\":{\"_index\":\"i0\"}}\n{}\n")
	_, tally := rewrite(t, body.String(), "")
	require.Equal(t, map[Reason]int{ReasonManyIndices: 5}, tally.Passed)
	require.Equal(t, maxParts+1, tally.Planned)
}

// Nothing is kept of a name that no index can have.
func TestRewriterKeepsNoLongNames(t *testing.T) {
	name := strings.Repeat("a", maxName)
	body := "{\"index\":{\"_index\":\"" + name + "\"}}\n{}\n{\"index\":{\"_index\":\"" + name + "a\"}}\n{}\n"
	var asked []string
	r := NewRewriter(strings.NewReader(body), Options{Place: func(p Part) (Slot, Reason) {
		asked = append(asked, p.Index)
		return place(p)
	}})
	_, err := io.Copy(io.Discard, r)
	require.NoError(t, err)
	require.Equal(t, []string{name}, asked)
	require.Equal(t, map[Reason]int{ReasonUnknown: 1}, r.Tally().Passed)
}

// No body becomes longer than it may be: what comes later stays as it is.
func TestRewriterKeepsTheLongestBody(t *testing.T) {
	body := strings.Repeat("{\"index\":{}}\n{}\n", 100)
	grows := len(`"routing":"7"`)
	for _, c := range []struct{ length, longest, planned int }{
		{len(body), 0, 100},
		{len(body), len(body), 0},
		{2 * len(body), len(body), 0},
		{len(body), len(body) + mostGrowth, 1},
		{len(body), len(body) + mostGrowth + 9*grows, 10},
		{len(body), len(body) + mostGrowth + 99*grows, 100},
		{-1, len(body), 0},
		{-1, len(body) + mostGrowth + 9*grows, 10},
	} {
		r := NewRewriter(strings.NewReader(body), Options{DefaultIndex: "x", Place: place, Length: int64(c.length), Longest: int64(c.longest)})
		out, err := io.ReadAll(r)
		require.NoError(t, err)
		require.Equal(t, c.planned, r.Tally().Planned, c)
		require.Equal(t, 100-c.planned, r.Tally().Passed[ReasonTooLong])
		require.Equal(t, body, strings.ReplaceAll(string(out), `"routing":"7"`, ""))
		if c.longest > 0 {
			require.LessOrEqual(t, len(out), max(c.longest, len(body)))
		}
	}
}

// What gets ids has room for being sent again, when an index becomes a create.
func TestRewriterLeavesRoomForARepetition(t *testing.T) {
	body := strings.Repeat("{\"index\":{}}\n{}\n", 500)
	id := func() string { return "0123456789" }
	longest := len(body) + mostGrowth + 100*len(`"_id":"0123456789","routing":"7"`)
	rewritten := func(o Options) (string, Tally) {
		o.DefaultIndex, o.Place, o.ID = "x", place, id
		r := NewRewriter(strings.NewReader(body), o)
		out, err := io.ReadAll(r)
		require.NoError(t, err)
		return string(out), r.Tally()
	}
	first, sent := rewritten(Options{Longest: int64(longest), Length: int64(len(body))})
	require.Positive(t, sent.Passed[ReasonTooLong])
	second, _ := rewritten(Options{Create: true})
	require.Equal(t, len(first)-len(body)+sent.Planned, sent.Planned*(len(second)-len(body))/500, "each operation grows by one more byte")
	require.LessOrEqual(t, len(first)+sent.Planned, longest)
}

// The longest action line is the same however the body arrives.
func TestRewriterLongLines(t *testing.T) {
	action := `{"index":{"_index":"a"`
	action += strings.Repeat(" ", maxAction-len(action)-2) + "}}"
	source := `{"a":"` + strings.Repeat("x", 3*maxAction) + `"}`
	for _, tc := range []struct {
		action  string
		planned int
	}{{action, 2}, {action + " ", 0}} {
		body := tc.action + "\n" + source + "\n{\"index\":{}}\n{}\n"
		for _, src := range []io.Reader{strings.NewReader(body), iotest.HalfReader(strings.NewReader(body)), &pieceReader{data: []byte(body), size: func() int { return 1000 }}} {
			r := NewRewriter(src, Options{DefaultIndex: "x", Place: place})
			held := 0
			out, err := io.ReadAll(readerFunc(func(p []byte) (int, error) {
				n, err := r.Read(p)
				held = max(held, cap(r.buf))
				return n, err
			}))
			require.NoError(t, err)
			require.Equal(t, tc.planned, r.Tally().Planned)
			require.LessOrEqual(t, held, maxAction+readSize)
			require.Positive(t, held)
			require.Equal(t, body, strings.ReplaceAll(strings.ReplaceAll(string(out), `"routing":"7",`, ``), `"routing":"7"`, ``))
		}
	}
}

func TestRewriterQuotesTheRouting(t *testing.T) {
	r := NewRewriter(strings.NewReader("{\"index\":{}}\n{}\n"), Options{DefaultIndex: "x", Place: func(Part) (Slot, Reason) { return slotOf("a\"\\\n"), "" }})
	out, err := io.ReadAll(r)
	require.NoError(t, err)
	require.Equal(t, "{\"index\":{\"routing\":\"a\\\"\\\\\\n\"}}\n{}\n", string(out))
}

func TestRewriterPassesErrorsOfTheBody(t *testing.T) {
	broken := errors.New("broken")
	body := "{\"index\":{}}\n{\"a\":1}\n{\"ind"
	for _, src := range []io.Reader{
		io.MultiReader(strings.NewReader(body), iotest.ErrReader(broken)),
		iotest.DataErrReader(io.MultiReader(strings.NewReader(body), iotest.ErrReader(broken))),
		iotest.OneByteReader(io.MultiReader(strings.NewReader(body), iotest.ErrReader(broken))),
	} {
		r := NewRewriter(src, Options{DefaultIndex: "x", Place: place})
		out, err := io.ReadAll(r)
		require.Same(t, broken, err)
		require.Equal(t, "{\"index\":{\"routing\":\"7\"}}\n{\"a\":1}\n{\"ind", string(out))
		_, err = r.Read(make([]byte, 1))
		require.Equal(t, broken, err)
	}
}

// A body that was read is kept for as long as its answer takes, by what needs it.
func TestRewriterLetsGoOfWhatItHasRead(t *testing.T) {
	r := NewRewriter(strings.NewReader("{\"index\":{}}\n{}\n"), Options{DefaultIndex: "x", Place: place})
	_, err := io.ReadAll(r)
	require.NoError(t, err)
	require.Nil(t, r.src)
	require.Nil(t, r.buf)
	require.Nil(t, r.action)
	n, err := r.Read(make([]byte, 1))
	require.Zero(t, n)
	require.Equal(t, io.EOF, err)
	require.Equal(t, 1, r.Tally().Planned)
}

// What has been read is told before more is asked for: a client may wait for the
// answer to what it has sent.
func TestRewriterDoesNotHoldBack(t *testing.T) {
	pr, pw := io.Pipe()
	defer pr.Close()
	go io.WriteString(pw, "{\"index\":{}}\n{\"a\"") //nolint:errcheck // the test reads it
	r := NewRewriter(pr, Options{DefaultIndex: "x", Place: place})
	n, err := r.Read(make([]byte, 1000))
	require.NoError(t, err)
	require.Equal(t, len("{\"index\":{\"routing\":\"7\"}}\n{\"a\""), n)
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// pieceReader gives its data in pieces, and sometimes nothing.
type pieceReader struct {
	data []byte
	size func() int
}

func (r *pieceReader) Read(p []byte) (int, error) {
	if len(r.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p, r.data[:min(len(r.data), r.size())])
	r.data = r.data[n:]
	return n, nil
}

// reference rewrites a body that is at hand as a whole, with encoding/json.
func reference(body []byte, index string) (out []byte, planned int) {
	allowed := map[string]bool{"_index": true, "require_data_stream": true, "dynamic_templates": true, "list_executed_pipelines": true}
	for len(body) > 0 {
		line, rest, whole := bytes.Cut(body, []byte("\n"))
		if !whole {
			return append(out, body...), planned
		}
		if strings.Trim(string(line), " \t\r") == "" {
			out, body = append(append(out, line...), '\n'), rest
			continue
		}
		var action map[string]map[string]json.RawMessage
		if json.Unmarshal(line, &action) != nil || len(action) != 1 {
			return append(out, body...), planned
		}
		for verb, metadata := range action {
			if !slices.Contains([]string{"index", "create", "update", "delete"}, verb) || metadata == nil {
				return append(out, body...), planned
			}
			target := index
			named := true
			if raw, is := metadata["_index"]; is {
				var name *string
				named = json.Unmarshal(raw, &name) == nil && name != nil
				if named && *name != "" {
					target = *name
				}
			}
			plan := (verb == "index" || verb == "create") && named && target != ""
			for key := range metadata {
				plan = plan && allowed[key]
			}
			if _, why := place(Part{Index: target}); plan && why == "" {
				planned++
				at := bytes.IndexByte(line[bytes.IndexByte(line, '{')+1:], '{') + bytes.IndexByte(line, '{') + 2
				out = append(append(out, line[:at]...), `"routing":"7"`...)
				if len(metadata) > 0 {
					out = append(out, ',')
				}
				out = append(append(out, line[at:]...), '\n')
			} else {
				out = append(append(out, line...), '\n')
			}
			body = rest
			if verb != "delete" {
				source, after, whole := bytes.Cut(body, []byte("\n"))
				out = append(out, source...)
				if whole {
					out = append(out, '\n')
				}
				body = after
			}
		}
	}
	return out, planned
}

// check compares with the reference, whatever the sizes of reads.
func check(t *testing.T, body []byte, index string, rng *rand.Rand) {
	t.Helper()
	want, planned := reference(body, index)
	for name, size := range map[string]func() int{
		"1 byte": func() int { return 1 }, "random": func() int { return rng.IntN(40) }, "large": func() int { return 1 << 20 },
	} {
		r := NewRewriter(&pieceReader{data: body, size: size}, Options{DefaultIndex: index, Place: place})
		var out []byte
		for {
			p := make([]byte, 1+rng.IntN(60))
			n, err := r.Read(p)
			out = append(out, p[:n]...)
			if err != nil {
				require.Equal(t, io.EOF, err)
				break
			}
		}
		require.Equal(t, string(want), string(out), name)
		tally := r.Tally()
		require.Equal(t, planned, tally.Planned, name)
		sum, placed := tally.Planned, 0
		for _, n := range tally.Passed {
			sum += n
		}
		for _, p := range tally.Placed {
			placed += p.Operations
		}
		require.Equal(t, tally.Operations, sum)
		require.Equal(t, tally.Planned, placed)
		require.Equal(t, int64(len(body)), tally.BytesRead)
	}
}

func TestRewriterAgreesWithReference(t *testing.T) {
	lines := []string{
		`{"index":{}}`, `{"create":{"_index":"logs"}}`, `{"index":{"_index":"refused-1"}}`, `{"index":{"_id":"1"}}`, `{"delete":{"_id":"1"}}`,
		`{"update":{"_id":"1"}}`, `{"doc":{"a":1}}`, ``, "\r", `{"index":{"_index":"a","require_data_stream":false}}` + "\r", `{}`, `{"a":"` + strings.Repeat("x", 300) + `"}`,
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var body bytes.Buffer
		for range rng.IntN(12) {
			body.WriteString(lines[rng.IntN(len(lines))])
			if rng.IntN(50) > 0 {
				body.WriteByte('\n')
			}
		}
		check(t, body.Bytes(), []string{"", "x"}[rng.IntN(2)], rng)
	}
}

func FuzzRewriter(f *testing.F) {
	for _, body := range []string{
		"{\"index\":{}}\n{\"a\":1}\n", "{\"create\":{\"_index\":\"logs\"}}\r\n{}\r\n", "{\"delete\":{\"_id\":\"1\"}}\n\n{\"update\":{}}\n{}\n{\"index\":{}}\n{}",
		"{\"index\":{\"dynamic_templates\":{\"a\":\"b\"},\"_index\":\"\\u0061\"}}\n{}\n", "{\"index\":{}}\n",
	} {
		f.Add([]byte(body), uint64(1))
	}
	f.Fuzz(func(t *testing.T, body []byte, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 0))
		r := NewRewriter(&pieceReader{data: body, size: func() int { return rng.IntN(40) }}, Options{DefaultIndex: "x", Place: place})
		out, err := io.ReadAll(r)
		require.NoError(t, err)
		require.Equal(t, string(body), withoutInserted(out, body, r.Tally().Planned))
		_, planned := reference(body, "x")
		require.LessOrEqual(t, r.Tally().Planned, planned)
	})
}

// withoutInserted takes out what was inserted: where both differ.
func withoutInserted(out, body []byte, times int) string {
	var back []byte
	for len(out) > 0 {
		at := bytes.Index(out, []byte(`"routing":"7"`))
		if times > 0 && at >= 0 && bytes.HasPrefix(body[len(back):], out[:at]) && !bytes.HasPrefix(body[len(back):], out[:at+13]) {
			back = append(back, out[:at]...)
			out = bytes.TrimPrefix(out[at+13:], []byte(","))
			times--
			continue
		}
		end := len(out)
		if at >= 0 {
			end = at + 13
		}
		back = append(back, out[:end]...)
		out = out[end:]
	}
	return string(back)
}

func BenchmarkRewriter(b *testing.B) {
	for name, action := range map[string]string{"action=bare": `{"index":{}}`, "action=index": `{"create":{"_index":"logs-app-default"}}`} {
		body := []byte(strings.Repeat(action+"\n"+`{"message":"`+strings.Repeat("x", 286)+"\"}\n", 1000))
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			p := make([]byte, readSize)
			for b.Loop() {
				r := NewRewriter(bytes.NewReader(body), Options{DefaultIndex: "x", Place: place})
				for {
					if _, err := r.Read(p); err != nil {
						break
					}
				}
			}
		})
	}
}
