package app

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"sidestep/internal/admin"
	"sidestep/internal/cluster/relay"
	"sidestep/internal/config"
)

// relayOptions returns where the view of the cluster is read; the URL is nil if the
// configuration names no relay.
func relayOptions(cfg config.Config, authorities string, logger *slog.Logger) (relay.Options, error) {
	source := cfg.Cluster.Source
	o := relay.Options{URL: source.Parsed(), Silence: source.Silence}
	if o.URL == nil {
		return o, nil
	}
	tlsConfig, err := clientTLS("cluster.source.tls", source.TLS, authorities, logger)
	if err != nil {
		return o, err
	}
	var transport http.RoundTripper = &http.Transport{
		DialContext:         (&net.Dialer{Timeout: cfg.Upstream.Dial, KeepAlive: keepAlive}).DialContext,
		TLSClientConfig:     tlsConfig,
		TLSHandshakeTimeout: cfg.Upstream.Dial,
		IdleConnTimeout:     idleTimeout,
	}
	if file := source.BearerTokenFile; file != "" {
		token, err := watch(logger, func() (string, error) { return readSecret(file) }, file)
		if err != nil {
			return o, fmt.Errorf("cluster.source.bearer_token_file: %w", err)
		}
		secure := o.URL.Scheme == "https"
		if !secure {
			logger.Warn("the token for the relay is sent without encryption")
		}
		transport = &account{next: transport, authorization: func() string { return "Bearer " + token.get() }, secure: secure}
	}
	o.Client = newPollClient(transport)
	return o, nil
}

// guard serves a snapshot to those who present the token in the file, if one is named.
func guard(file string, snapshots http.Handler, logger *slog.Logger) (http.Handler, error) {
	if file == "" {
		return snapshots, nil
	}
	token, err := watch(logger, func() (string, error) { return readSecret(file) }, file)
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
