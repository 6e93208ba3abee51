package lab

import (
	"context"
	"fmt"
	"io"
	"time"
)

// When all nodes of an outage answer nothing but 503, and what its clients do meanwhile:
// each sends again what failed, up to three times, after pauses that double.
const (
	outageFrom   = 20 * time.Second
	outageTo     = 50 * time.Second
	outageRetry  = 3
	outagePause  = 100 * time.Millisecond
	outageReturn = 5 * time.Second // within which all is to be as before
)

// outage is a cluster that answers nothing but 503 for half a minute.
func outage(load float64) Scenario {
	sc := overload(load)
	sc.Name, sc.About = "outage", "all nodes answer 503, polls too, for 30 s"
	sc.length = outageTo + 25*time.Second
	sc.again = outageRetry
	sc.faults = []fault{{nodes: []int{0, 1, 2, 3, 4}, from: outageFrom, to: outageTo, set: failing}}
	return sc
}

// flow counts, by bucket, what clients sent, what was sent to nodes for them, and what was
// answered completely.
type flow struct{ asked, sent, answered []int64 }

// in returns how many there were in [from, to).
func in(counts []int64, from, to time.Duration) (sum int64) {
	for i := int(from / bucket); i < min(int(to/bucket), len(counts)); i++ {
		sum += counts[i]
	}
	return sum
}

// count adds one at a moment.
func count(counts *[]int64, at time.Duration) {
	for int(at/bucket) >= len(*counts) {
		*counts = append(*counts, 0)
	}
	(*counts)[at/bucket]++
}

// multiplied returns how many attempts were sent for each request of a client while the
// nodes failed everything.
func (m *measure) multiplied() float64 {
	return float64(in(m.flow.sent, outageFrom, outageTo)) / float64(in(m.flow.asked, outageFrom, outageTo))
}

// back returns what is answered in a second from outageReturn after the return on, as a
// part of what was before the outage.
func (m *measure) back() float64 {
	const over = 10 * time.Second
	return float64(in(m.flow.answered, outageTo+outageReturn, outageTo+outageReturn+over)) /
		float64(in(m.flow.answered, outageFrom-over, outageFrom))
}

// stampede returns the most shard queries that came to a node in the first second after
// the return, as a multiple of what it can serve in a second.
func (m *measure) stampede() float64 {
	most := 0.0
	for _, load := range m.load {
		sum := 0.0
		for i := outageTo / bucket; i < (outageTo+time.Second)/bucket; i++ {
			sum += float64(load[i])
		}
		most = max(most, sum)
	}
	return most * m.sc.demand.Seconds() / m.sc.cpus
}

// printOutage compares what the arms make of an outage.
func printOutage(ctx context.Context, seeds int, out io.Writer) error {
	fmt.Fprintf(out, "\nall nodes answer 503 for %s at 0.8 of the capacity; clients send again up to %d times\n", outageTo-outageFrom, outageRetry)
	return table{scenarios: []Scenario{outage(0.8)}, arms: contenders(), seeds: seeds, columns: []column{
		{"arm", "%s", nil}, {"attempts for a request meanwhile", "%.2f", (*measure).multiplied}, {"answered 5 s after, of before", "%.2f", (*measure).back},
		{"most to a node in the first second, of what it serves", "%.2f", (*measure).stampede}, {"rejected by nodes", "%.0f", rejected}, {"gave up", "%.0f", leavers},
	}}.print(ctx, out)
}
