//go:build !unix

package app

import "time"

// cpuTime knows nothing: as many processors are used as the runtime does by default.
func cpuTime() (used time.Duration, known bool) { return 0, false }
