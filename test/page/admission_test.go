package page

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"sidestep/internal/admin"
)

func TestAdmissionOnTheOverview(t *testing.T) {
	var admits atomic.Pointer[admin.Admission]
	limited := node("es-1", "fine", 4)
	limited["limit"], limited["admitted"], limited["waiting"], limited["other_clients"] = 12.5, 12, 3, 0
	service := &scripted{status: func() admin.Status {
		return admin.Status{
			Mode: "route", Requests: 9, Decisions: map[string]int64{"ranked": 9},
			Nodes: []any{limited, node("es-2", "fine", 5)}, Admission: admits.Load(),
		}
	}}
	on := admin.Admission{
		Mode: "auto", Waiting: 1234, Refused: 7, Dropped: 20,
		Classes: []any{map[string]any{"class": "vip", "waiting": 1234, "admitted": 50_000, "refused": 7, "dropped": 20, "would_wait": 3, "would_refuse": 1}},
	}
	const visible = `[...document.querySelectorAll("#admission, #admission-link")].filter((e) => e.checkVisibility()).length`
	const rows = `((id) => [...document.querySelectorAll(id + " tr")].map((r) => [...r.children].map((c) => c.innerText).join(" | ")))`
	for name, l := range map[string]look{"wide": desktop(), "narrow": phone()} {
		t.Run(name, func(t *testing.T) {
			admits.Store(nil)
			tab := open(t, service.serve(t), "/", l)
			tab.awaitText("#headline-text", "All 2 nodes fine.")
			require.Zero(t, eval[int](tab, visible), "admission is off")

			admits.Store(&on)
			tab.await(visible + " === 2")
			require.Equal(t, []string{"1 234", "7", "20"}, eval[[]string](tab, `[...document.querySelectorAll("#admission dd")].map((e) => e.innerText)`))
			require.Equal(t, []string{"vip | 1 234 | 50 000 | 7 | 20 | 3 | 1"}, eval[[]string](tab, rows+`("#admission-classes")`))
			require.Equal(t, []string{"es-1 | 12.5 | 12 | 3 | 0"}, eval[[]string](tab, rows+`("#admission-nodes")`))
			require.False(t, eval[bool](tab, `document.querySelector("#admission-observed").checkVisibility()`))
			tab.fits(l)
			tab.accessible()

			observed := on
			observed.Mode = "observe"
			admits.Store(&observed)
			tab.awaitText("#admission", "Only observed: no search waits or is refused.")

			ofWrites := on
			ofWrites.Mode, ofWrites.Writes = "off", "auto"
			admits.Store(&ofWrites)
			tab.awaitText("#admission-title", "of searches, mode off; of writes, mode auto")
		})
	}
}
