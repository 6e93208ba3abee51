package admission

import (
	"fmt"
	"strconv"
	"testing"
)

// What a search costs elsewhere while a thousand of each class wait for one node.
func BenchmarkOthersWhileManyWait(b *testing.B) {
	for _, nodes := range []int{5, 100} {
		for _, classes := range []int{1, 3} {
			b.Run(fmt.Sprintf("nodes=%d/classes=%d", nodes, classes), func(b *testing.B) {
				o := limited(20)
				o.Queue.Length = 100_000
				for i := range classes {
					o.Classes = append(o.Classes, Class{Name: strconv.Itoa(i)})
				}
				r := &rig{Control: New(o), now: start}
				ids := make([]string, nodes)
				for i := range ids {
					ids[i] = strconv.Itoa(i)
				}
				r.Update(ids)
				r.poll(Poll{Completed: 1})
				r.poll(Poll{Completed: 1})
				for class := range classes {
					for range 1020 {
						r.of(class, 0)
					}
				}
				b.ResetTimer()
				for range b.N {
					t := &Ticket{Parts: []Part{{Node: "1", Tasks: 1, Needed: true}}}
					r.Offer(t, r.now)
					r.Done(t, r.now)
				}
			})
		}
	}
}
