package harness

import (
	"errors"
	"fmt"
	"os"
)

// Close stops sidestep and the cluster, either of which may be nil. After a
// failure the logs stay, and are named.
func Close(sidestep *Front, cluster *Cluster, failed bool) {
	var errs []error
	if sidestep != nil {
		errs = append(errs, sidestep.Stop())
		if failed {
			fmt.Println("log of sidestep:", sidestep.LogPath)
		} else {
			errs = append(errs, os.Remove(sidestep.LogPath))
		}
	}
	switch {
	case cluster == nil:
	case failed:
		fmt.Println("logs of the nodes:", cluster.Dir)
		errs = append(errs, cluster.StopKeepingLogs())
	default:
		errs = append(errs, cluster.Stop())
	}
	if err := errors.Join(errs...); err != nil {
		fmt.Println("stop:", err)
	}
}
