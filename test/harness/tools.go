package harness

import (
	"fmt"
	"os/exec"
	"path/filepath"
)

// FindPrometheus returns prometheus or promtool, as `make prometheus` fetches it or as it is
// installed. root is the folder of the repository.
func FindPrometheus(root, program string) (string, error) {
	if path, err := exec.LookPath(filepath.Join(root, ".cache/prometheus/usr/bin", program)); err == nil {
		return path, nil
	}
	if path, err := exec.LookPath(program); err == nil {
		return path, nil
	}
	return "", fmt.Errorf("%s is missing: run `make prometheus`, or install it (Debian: apt-get install prometheus)", program)
}

// FindProxy returns haproxy or nginx, also from where Debian keeps daemons, which is not on
// every user's path.
func FindProxy(program string) (string, error) {
	for _, name := range []string{program, filepath.Join("/usr/sbin", program)} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	name := program
	if program == "nginx" {
		name = "nginx-light" // the package
	}
	return "", fmt.Errorf("%s is missing: run `make bench-peers`, or install it (Debian: apt-get install %s)", program, name)
}

// FreeAddress returns a loopback address on which nobody listens, and nobody will but the caller: see
// [freePort].
func FreeAddress() (string, error) {
	port, err := freePort()
	return loopback(port), err
}
