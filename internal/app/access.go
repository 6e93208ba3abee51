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
	host, _, _ := net.SplitHostPort(cfg.Listen)
	machine, _ := os.Hostname() // an empty name is that of no page
	local := config.Loopback(address) || inherited != nil && inherited.Addr().Network() == "unix"
	access := &admin.Access{
		Hosts:    append(slices.Clone(cfg.AllowedHosts), host, machine),
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
