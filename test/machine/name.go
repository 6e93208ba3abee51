package machine

import (
	"fmt"
	"os"
	"runtime"
	"strings"
)

// Name is the processor and the number of cores.
func Name() string {
	cores := runtime.NumCPU()
	data, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return fmt.Sprintf("%d cores", cores)
	}
	for line := range strings.Lines(string(data)) {
		if key, value, _ := strings.Cut(line, ":"); strings.TrimSpace(key) == "model name" {
			return fmt.Sprintf("%s, %d cores", strings.TrimSpace(value), cores)
		}
	}
	return fmt.Sprintf("%d cores", cores)
}
