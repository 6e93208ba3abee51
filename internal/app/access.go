package app

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"

	"sidestep/internal/admin"
	"sidestep/internal/config"
)

// newAccess returns what may be done on the admin listener. Clients that need a
// certificate need no token.
func newAccess(cfg config.Admin, logger *slog.Logger) (*admin.Access, error) {
	access := &admin.Access{
		Hosts:            slices.Concat(cfg.AllowedHosts, ownNames(cfg.Listen)),
		Open:             cfg.Loopback() || cfg.TLS.ClientCAFile != "",
		SnapshotsGuarded: cfg.SnapshotTokenFile != "",
		Profiles:         cfg.Profiles,
	}
	if file := cfg.TokenFile; file != "" {
		token, err := watch(logger, func() (string, error) { return readSecret(file) }, file)
		if err != nil {
			return nil, fmt.Errorf("admin.token_file: %w", err)
		}
		access.Token = token.get
	}
	if access.Token == nil && !access.Open {
		logger.Warn("the admin listener is not on loopback and has no token: it refuses to switch the mode and to reload; set admin.token_file",
			"listen", cfg.Listen)
	}
	return access, nil
}

// ownNames returns the names that the machine and the address have.
func ownNames(address string) []string {
	host, _, _ := net.SplitHostPort(address)
	machine, _ := os.Hostname() // without one the others remain
	return slices.DeleteFunc([]string{host, machine}, func(name string) bool { return name == "" })
}
