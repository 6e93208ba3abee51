package preflight

import (
	"fmt"
	"strings"
)

// plural returns one for a single thing, else many with the number in place of %d.
func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	if strings.Contains(many, "%d") {
		return fmt.Sprintf(many, n)
	}
	return many
}

// list names the first few.
func list(names []string) string {
	if len(names) > maxNamed {
		return strings.Join(names[:maxNamed], ", ") + fmt.Sprintf(" and %d more", len(names)-maxNamed)
	}
	return strings.Join(names, ", ")
}

// percent of all, without decimals where they would say nothing.
func percent(part, all int64) string {
	share := 100 * float64(part) / float64(max(all, 1))
	switch {
	case part == 0 || share >= 9.95:
		return fmt.Sprintf("%.0f %%", share)
	case share < 0.1:
		return "less than 0.1 %"
	}
	return fmt.Sprintf("%.1f %%", share)
}
