package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestExitCodesAndMessages(t *testing.T) {
	for _, c := range []struct {
		name           string
		args           []string
		code           int
		stdout, stderr string // regular expressions
	}{
		{"nothing", nil, 2, `^$`, `Usage:\n`},
		{"help", []string{"--help"}, 0, `Usage:\n(.|\n)*sidestep-lab demo(.|\n)*sidestep-lab lab`, `^$`},
		{"version", []string{"--version"}, 0, `^sidestep-lab \S+ \(go\S+ \S+/\S+\)\n$`, `^$`},
		{"unknown", []string{"top"}, 2, `^$`, `^sidestep-lab: unknown argument "top"\nsidestep-lab --help lists the sub-commands\.\n$`},
		{"demo help", []string{"demo", "--help"}, 0, `--duration`, `^$`},
		{"demo flag", []string{"demo", "--rate", "0"}, 2, `^$`, `more than 0`},
		{"random help", []string{"random", "--help"}, 0, `--only`, `^$`},
		{"random flag", []string{"random", "--n", "0"}, 2, `^$`, `at least 1`},
		{"lab help", []string{"lab", "--help"}, 0, `--scenario`, `^$`},
		{"lab list", []string{"lab", "--list"}, 0, `slow_10x(.|\n)*sidestep/adaptive`, `^$`},
		{"lab scenario", []string{"lab", "--scenario", "nope"}, 2, `^$`, `unknown scenario "nope", valid are blog_1`},
		{"lab", []string{"lab", "--scenario", "slow_10x", "--policy", "ars,c3_naive", "--seeds", "1"}, 0, `slow_10x(.|\n)*c3_naive`, `slow_10x: 2 runs`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var stdout, stderr strings.Builder
			code := run(c.args, &stdout, &stderr)
			require.Equal(t, c.code, code, stderr.String())
			require.Regexp(t, c.stdout, stdout.String())
			require.Regexp(t, c.stderr, stderr.String())
		})
	}
}
