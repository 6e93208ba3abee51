package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUsageOfThisProcess(t *testing.T) {
	u, err := usageOf(os.Getpid())
	require.NoError(t, err)
	require.Positive(t, u.resident)

	_, err = usageOf(-1)
	require.EqualError(t, err, "process -1 has ended")
}

func TestSwitchesOfThisProcess(t *testing.T) {
	counts, err := switchesOf(os.Getpid())
	require.NoError(t, err)
	require.Contains(t, counts, os.Getpid())

	_, err = switchesOf(-1)
	require.EqualError(t, err, "process -1 has ended")
}

func TestSwitched(t *testing.T) {
	require.EqualValues(t, 7+4, switched(map[int]int64{1: 10, 2: 5}, map[int]int64{1: 17, 3: 4}))
}

func TestParseSwitches(t *testing.T) {
	n, err := parseSwitches("Name:\tx\nvoluntary_ctxt_switches:\t40\nnonvoluntary_ctxt_switches:\t2\n")
	require.NoError(t, err)
	require.EqualValues(t, 42, n)
	for _, text := range []string{"", "voluntary_ctxt_switches:\t40\n", "voluntary_ctxt_switches:\tx\n"} {
		_, err := parseSwitches(text)
		require.Error(t, err, text)
	}
}

func TestTracersAreRead(t *testing.T) {
	n, err := parsePerf("# started on Sun Nov 22 18:31:56 2026\n\n453468,,raw_syscalls:sys_enter,504231295,100.00,,\n")
	require.NoError(t, err)
	require.EqualValues(t, 453468, n)
	n, err = parseStrace(`% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 60.00    0.052507           0     55170           newfstatat
 40.00    0.002507           1        30         7 futex
------ ----------- ----------- --------- --------- ----------------
100.00    0.055014           0     55200         7 total
`)
	require.NoError(t, err)
	require.EqualValues(t, 55200, n)
	for _, text := range []string{"", "<not counted>,,raw_syscalls:sys_enter,0,100.00,,\n"} {
		_, err := parsePerf(text)
		require.Error(t, err, text)
		_, err = parseStrace(text)
		require.Error(t, err, text)
	}
}

func TestRoundsArePaired(t *testing.T) {
	require.Equal(t, []float64{1, -2}, differences([]float64{5, 6}, []float64{4, 8}))
	require.Equal(t, []float64{2, 3}, ratios([]float64{4, 1, 9}, []float64{2, -1, 3}))
	require.Empty(t, number(nil, 1))
	require.Equal(t, "2.50", number([]float64{2.5}, 2))
}

func TestOnlyListsCountAsSteering(t *testing.T) {
	require.NoError(t, checkDecision("mode=route; reason=ranked; nodes=node-1,node-2; attempts=1; coordinator=node-1", "node-4"))
	for _, decision := range []string{
		"",
		"mode=route; reason=no_outlier; nodes=node-1,node-2; attempts=1; coordinator=node-1",
		"mode=route; reason=ranked; nodes=node-1,node-4; attempts=1; coordinator=node-1",
		"mode=observe; reason=ranked; nodes=node-1,node-2; attempts=1; coordinator=node-1",
		"mode=route; reason=ranked; nodes=; attempts=1; coordinator=node-1",
	} {
		require.Error(t, checkDecision(decision, "node-4"), decision)
	}
	require.NoError(t, compareDecisions(map[string]int64{"ranked": 5, "no_outlier": 50}, map[string]int64{"ranked": 1005, "no_outlier": 60}))
	require.ErrorContains(t, compareDecisions(map[string]int64{"ranked": 5}, map[string]int64{"ranked": 1005, "no_outlier": 60}), "map[no_outlier:60]")
	require.Error(t, compareDecisions(nil, nil))
}
