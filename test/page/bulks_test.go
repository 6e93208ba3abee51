package page

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"sidestep/internal/admin"
)

func TestBulksOnTheOverview(t *testing.T) {
	var bulks atomic.Pointer[admin.Bulks]
	service := &scripted{status: func() admin.Status {
		return admin.Status{
			Mode: "route", Requests: 9, Decisions: map[string]int64{"one_shard": 9},
			Nodes: []any{node("es-1", "fine", 4), node("es-2", "fine", 5)}, Bulks: bulks.Load(),
		}
	}}
	on := admin.Bulks{
		Mode: "route", Results: map[string]int64{"one_shard": 12_345, "mixed": 7, "passed": 20},
		Operations: map[string]int64{"planned": 2_469_000, "unknown": 200, "explicit_id": 1400, "observe": 0},
		Indices: []any{
			map[string]any{"index": "logs-2026.01.01", "bulks": 12_000, "shards": 6, "avoided": []int{0, 3}, "skew": 1.134},
			map[string]any{"index": "metrics", "bulks": 3, "shards": 12, "avoided": []int{}, "skew": nil},
		},
	}
	const visible = `[...document.querySelectorAll("#bulks, #bulks-link")].filter((e) => e.checkVisibility()).length`
	for name, l := range map[string]look{"wide": desktop(), "narrow": phone(), "dark": {width: 1280, height: 860, dark: true}} {
		t.Run(name, func(t *testing.T) {
			bulks.Store(nil)
			tab := open(t, service.serve(t), "/", l)
			tab.awaitText("#headline-text", "All 2 nodes fine.")
			require.Zero(t, eval[int](tab, visible), "bulk.single_shard names no index")

			bulks.Store(&on)
			tab.await(visible + " === 2")
			require.Equal(t, []string{"12 345", "7", "20"}, eval[[]string](tab, `[...document.querySelectorAll("#bulks dd")].map((e) => e.innerText)`))
			require.Equal(t, []string{"logs-2026.01.01 | 0, 3 | 12 000 | 1 of 6 | 1.13", "metrics | none | 3 | 1 of 12 | –"},
				eval[[]string](tab, `[...document.querySelectorAll("#bulks-body tr")].map((r) => [...r.children].map((c) => c.innerText).join(" | "))`))
			require.Equal(t, "Operations kept on one shard: 2 469 000; passed: explicit_id 1 400, unknown 200.", tab.text("#bulks-operations"))
			require.False(t, eval[bool](tab, `document.querySelector("#bulks-observed").checkVisibility()`))
			tab.fits(l)
			tab.accessible()
			tab.keep("overview-bulks-" + name)

			observed := on
			observed.Mode, observed.Indices = "observe", []any{}
			bulks.Store(&observed)
			tab.awaitText("#bulks", "Only observed: no bulk is changed.")
			require.False(t, eval[bool](tab, `document.querySelector("#bulks-table").checkVisibility()`))
			tab.accessible()

			off := on
			off.Mode = "off"
			bulks.Store(&off)
			tab.await(visible + " === 0")
		})
	}
}
