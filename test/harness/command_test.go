package harness

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestExitCodes(t *testing.T) {
	parse := func(arguments []string) (Run, error) {
		var m Measured
		set := flag.NewFlagSet("any", flag.ContinueOnError)
		set.SetOutput(new(bytes.Buffer))
		m.Flags(set)
		err := m.Parse(set, arguments)
		return func(context.Context) error {
			if m.Engine == Elasticsearch {
				return errors.New("it ended")
			}
			return nil
		}, err
	}
	for _, c := range []struct {
		argument string
		code     int
		said     string
	}{
		{"-engine=opensearch", 0, ""},
		{"-help", 0, ""},
		{"-engine=elasticsearch", 1, "any: it ended\n"},
		{"-engine=solr", 2, "any: -engine solr: want opensearch or elasticsearch\n"},
		{"further", 2, "any: unexpected argument \"further\"\n"},
	} {
		var stderr bytes.Buffer
		require.Equal(t, c.code, execute("any", []string{c.argument}, parse, &stderr), c.argument)
		require.Equal(t, c.said, stderr.String())
	}
}

func TestCommandLineOfAMeasurement(t *testing.T) {
	var m Measured
	set := flag.NewFlagSet("any", flag.ContinueOnError)
	m.Flags(set)
	m.ResultFlags(set)
	rounds := set.Int("rounds", 3, "")
	require.NoError(t, m.Parse(set, []string{"-engine", "elasticsearch", "-version", "", "-out", "here", "-rounds", "5"}))
	require.Equal(t, DefaultVersion(Elasticsearch), m.Version)
	require.Equal(t, 5, *rounds)
	require.Equal(t, "bin/any -engine elasticsearch -rounds 5", Command("bin/any", set, "version", "out"))
}

func TestCommandIsQuoted(t *testing.T) {
	for value, want := range map[string]string{
		"a=x:1 b=y:2": "'a=x:1 b=y:2'", "a/b,c=d:1+e.f:2": "a/b,c=d:1+e.f:2", `"off"`: `'"off"'`, "it's": `'it'\''s'`,
	} {
		set := flag.NewFlagSet("any", flag.ContinueOnError)
		set.String("variants", "", "")
		require.NoError(t, set.Parse([]string{"-variants", value}))
		require.Equal(t, "bin/any -variants "+want, Command("bin/any", set))
	}
}

func TestSeedIsPartOfTheCommand(t *testing.T) {
	var seed Seed
	set := flag.NewFlagSet("any", flag.ContinueOnError)
	seed.Flag(set)
	require.NoError(t, set.Parse(nil))
	require.NoError(t, seed.Draw(set))
	require.NotZero(t, seed)
	require.Equal(t, fmt.Sprintf("bin/any -seed %d", seed), Command("bin/any", set))
	given := seed
	require.NoError(t, seed.Draw(set))
	require.Equal(t, given, seed)
	order := seed.Random().Perm(100)
	require.Equal(t, order, given.Random().Perm(100))
}

func TestParseDecision(t *testing.T) {
	require.Equal(t, Decision{Mode: "route", Reason: "ranked", Nodes: []string{"a", "b"}, Coordinator: "a"},
		ParseDecision("mode=route; reason=ranked; nodes=a,b; attempts=1; coordinator=a"))
	require.Equal(t, Decision{Mode: "route", Reason: "learning"}, ParseDecision("mode=route; reason=learning; nodes=; attempts=1; coordinator="))
	require.Zero(t, ParseDecision(""))
}
