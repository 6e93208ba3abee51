package app

import (
	"fmt"
	"net"
	"os"
	"slices"

	"sidestep/internal/admin"
	"sidestep/internal/config"
)

// newAccess returns what may be done on the admin listener, of which the socket may be an inherited
// one. Clients that need a certificate need no token.
func newAccess(cfg config.Admin, inherited net.Listener, files *rotation) (*admin.Access, error) {
	address := cfg.Listen
	if inherited != nil {
		address = inherited.Addr().String()
	}
	local := config.Loopback(address) || inherited != nil && inherited.Addr().Network() == "unix"
	access := &admin.Access{
		Hosts:    slices.Concat(cfg.AllowedHosts, ownNames(cfg.Listen)),
		Open:     local || cfg.TLS.ClientCAFile != "",
		Profiles: cfg.Profiles,
	}
	var err error
	if access.Token, err = tokenIn("admin.token_file", cfg.TokenFile, files); err != nil {
		return nil, err
	}
	if access.SnapshotToken, err = tokenIn("admin.snapshot_token_file", cfg.SnapshotTokenFile, files); err != nil {
		return nil, err
	}
	if access.Token == nil && !access.Open {
		files.logger.Warn("the admin listener is not on loopback and has no token: it refuses to switch the mode and to reload; set admin.token_file",
			"listen", address)
	}
	return access, nil
}

// tokenIn returns what tells the token in the file of a key; nil if none is named.
func tokenIn(key, file string, files *rotation) (func() string, error) {
	if file == "" {
		return nil, nil //nolint:nilnil // no file is no token
	}
	token, err := watchSecret(files, file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	return token.get, nil
}

// ownNames returns the names that the machine and the address have.
func ownNames(address string) []string {
	host, _, _ := net.SplitHostPort(address)
	machine, _ := os.Hostname() // without one the others remain
	return slices.DeleteFunc([]string{host, machine}, func(name string) bool { return name == "" })
}
