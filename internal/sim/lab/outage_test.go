package lab

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A cluster that answers nothing but 503 gets hardly more than its clients send, is used
// again at once when it returns, and is not run over.
func TestAnOutageIsNotMadeWorse(t *testing.T) {
	sc := outage(0.8)
	for seed := range uint64(3) {
		m := simulate(&sc, contenders()[2], seed+1)
		require.LessOrEqual(t, m.multiplied(), 1.1)
		require.GreaterOrEqual(t, m.back(), 0.95)
		require.LessOrEqual(t, m.stampede(), 1.5)
	}
}
