package harness

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"sidestep/test/machine"
)

// cpuController is where cgroup v1 keeps its CPU controller.
const cpuController = "/sys/fs/cgroup/cpu"

// cpuLimit is a control group of one node's processes.
type cpuLimit struct {
	dir  string
	home string // the group they were in before
}

// LimitCPU grants all processes of the node together a share of one core, 0.05 for
// 5 %, until UnlimitCPU. It needs cgroup v1 and the right to make groups.
func (n *Node) LimitCPU(share float64) error {
	if err := n.UnlimitCPU(); err != nil {
		return err
	}
	group := n.PID()
	if group == 0 {
		return fmt.Errorf("limit the CPU of %s: it does not run", n.Name)
	}
	own, err := cgroupOf(group)
	if err != nil {
		return fmt.Errorf("limit the CPU of %s: %w", n.Name, err)
	}
	limit := &cpuLimit{
		dir:  filepath.Join(cpuController, fmt.Sprintf("sidestep-%s-%d", n.Name, group)),
		home: filepath.Join(cpuController, own),
	}
	if err := os.Mkdir(limit.dir, 0o755); err != nil {
		return fmt.Errorf("limit the CPU of %s: this needs cgroup v1 at %s and root: %w", n.Name, cpuController, err)
	}
	n.limit = limit
	const period = 100_000 // µs
	quota := strconv.Itoa(int(share * period))
	if err := os.WriteFile(filepath.Join(limit.dir, "cpu.cfs_quota_us"), []byte(quota), 0o644); err != nil {
		return errors.Join(fmt.Errorf("limit the CPU of %s: %w", n.Name, err), n.UnlimitCPU())
	}
	members, err := processGroup(group)
	if err != nil {
		return errors.Join(fmt.Errorf("limit the CPU of %s: %w", n.Name, err), n.UnlimitCPU())
	}
	for _, p := range members {
		if err := moveTo(limit.dir, p.PID); err != nil {
			return errors.Join(fmt.Errorf("limit the CPU of %s: %w", n.Name, err), n.UnlimitCPU())
		}
	}
	return nil
}

// UnlimitCPU takes the limit away and removes its control group; no error if there
// is none.
func (n *Node) UnlimitCPU() error {
	if n.limit == nil {
		return nil
	}
	members, err := os.ReadFile(filepath.Join(n.limit.dir, "cgroup.procs"))
	if err != nil {
		return fmt.Errorf("lift the CPU limit of %s: %w", n.Name, err)
	}
	for _, line := range strings.Fields(string(members)) {
		pid, err := strconv.Atoi(line)
		if err != nil {
			return fmt.Errorf("lift the CPU limit of %s: %w", n.Name, err)
		}
		if err := moveTo(n.limit.home, pid); err != nil {
			return fmt.Errorf("lift the CPU limit of %s: %w", n.Name, err)
		}
	}
	// The kernel lets go of ended threads a moment later.
	for range 50 {
		if err = os.Remove(n.limit.dir); err == nil {
			n.limit = nil
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return fmt.Errorf("lift the CPU limit of %s: %w", n.Name, err)
}

// CPUUsed is the CPU time that all processes of the node have used so far.
func (n *Node) CPUUsed() (time.Duration, error) {
	group := n.PID()
	if group == 0 { // that of the kernel's threads
		return 0, fmt.Errorf("read the CPU time of %s: it does not run", n.Name)
	}
	members, err := processGroup(group)
	if err != nil {
		return 0, fmt.Errorf("read the CPU time of %s: %w", n.Name, err)
	}
	return cpuUsed(members), nil
}

// CPUUsed is the CPU time that sidestep has used so far.
func (f *Front) CPUUsed() (time.Duration, error) {
	members, err := processGroup(f.PID()) // it has one of its own
	if err != nil {
		return 0, fmt.Errorf("read the CPU time of the sidestep %s: %w", f.Name, err)
	}
	return cpuUsed(members), nil
}

// cpuUsed is the CPU time that processes have used so far; what has ended counts for nothing.
func cpuUsed(processes []machine.Process) (used time.Duration) {
	for _, p := range processes {
		used += p.CPU
	}
	return used
}

// moveTo moves a process to a control group; one that has ended meanwhile is no error.
func moveTo(dir string, pid int) error {
	err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o644)
	if err != nil && !alive(pid) {
		return nil
	}
	return err
}

func alive(pid int) bool {
	_, err := os.Stat(filepath.Join("/proc", strconv.Itoa(pid)))
	return err == nil
}

// cgroupOf returns the path of the CPU control group of a process.
func cgroupOf(pid int) (string, error) {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cgroup"))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(data)) {
		// "4:cpu,cpuacct:/path"
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, path, _ := strings.Cut(rest, ":")
		for name := range strings.SplitSeq(controllers, ",") {
			if name == "cpu" {
				return path, nil
			}
		}
	}
	return "", errors.New("no CPU controller of cgroup v1")
}

// processGroup returns the processes of a process group.
func processGroup(group int) ([]machine.Process, error) {
	all, err := machine.Processes()
	return slices.DeleteFunc(all, func(p machine.Process) bool { return p.Group != group }), err
}
