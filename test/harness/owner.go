package harness

import (
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// nodeUser returns whom the nodes run as: nil for ourselves, and an unprivileged
// user if we are root, because the engines refuse to run as root.
func nodeUser() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	account, err := user.Lookup("nobody")
	if err != nil {
		return nil, fmt.Errorf("the engines refuse to run as root: run as another user, or create the user nobody: %w", err)
	}
	uid, err := strconv.ParseUint(account.Uid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("user nobody has the id %q: %w", account.Uid, err)
	}
	gid, err := strconv.ParseUint(account.Gid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("user nobody has the group %q: %w", account.Gid, err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

// give makes owner the owner of dir and all below it.
func give(dir string, owner *syscall.Credential) error {
	if owner == nil {
		return nil
	}
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, int(owner.Uid), int(owner.Gid))
	})
}
