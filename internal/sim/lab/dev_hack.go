package lab

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"sync"

	"sidestep/internal/selection"
)

var reuse = func() map[uint64]Played {
	m := map[uint64]Played{}
	f, err := os.Open(os.Getenv("LAB_REUSE"))
	if err != nil {
		return m
	}
	for d := json.NewDecoder(f); ; {
		var p Played
		if d.Decode(&p) != nil {
			return m
		}
		m[p.Seed] = p
	}
}()

var whyMu sync.Mutex
var digits = regexp.MustCompile(`[0-9]+`)

func whyHack(seed uint64, fault string, spoiled bool, c selection.Change) {
	if os.Getenv("LAB_WHY") == "" {
		return
	}
	whyMu.Lock()
	defer whyMu.Unlock()
	fmt.Fprintf(os.Stderr, "WHY %d %s spoiled=%v %v->%v %s %s\n", seed, fault, spoiled, c.Before, c.After, digits.ReplaceAllString(c.Why, "N"), c.Why)
}

var traceHack = os.Getenv("LAB_TRACE") != ""

var variantHack, _ = strconv.Atoi(os.Getenv("LAB_VARIANT"))
var policyHack = cmp.Or(os.Getenv("LAB_POLICY"), "adaptive")
