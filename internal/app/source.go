package app

import (
	"fmt"
	"net/http"

	"sidestep/internal/admin"
	"sidestep/internal/cluster/relay"
	"sidestep/internal/config"
)

// relayOptions returns where the view of the cluster is read; the URL is nil if the
// configuration names no relay.
func relayOptions(cfg config.Config, files *rotation) (relay.Options, error) {
	source := cfg.Cluster.Source
	o := relay.Options{URL: source.Parsed(), Silence: source.Silence}
	if o.URL == nil {
		return o, nil
	}
	to, err := connections("cluster.source.tls", source.TLS, cfg.Upstream, files)
	if err != nil {
		return o, err
	}
	account, err := newAccount(config.Auth{BearerTokenFile: source.BearerTokenFile}, o.URL, newTransport(to), files)
	if err != nil {
		return o, fmt.Errorf("cluster.source.bearer_token_file: %w", err)
	}
	o.Client = newPollClient(account)
	return o, nil
}

// guard serves a snapshot to those who present the token in the file, if one is named.
func guard(file string, snapshots http.Handler, files *rotation) (http.Handler, error) {
	if file == "" {
		return snapshots, nil
	}
	token, err := watchSecret(files, file)
	if err != nil {
		return nil, fmt.Errorf("admin.snapshot_token_file: %w", err)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !admin.HasToken(r, token.get()) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="snapshot"`)
			http.Error(w, "the snapshot needs the token in admin.snapshot_token_file", http.StatusUnauthorized)
			return
		}
		snapshots.ServeHTTP(w, r)
	}), nil
}
