package app

import (
	"fmt"

	"sidestep/internal/cluster/relay"
	"sidestep/internal/config"
)

// relayOptions returns where the view of the cluster is read; the URL is nil if the
// configuration names no relay.
func relayOptions(n needs, files *rotation) (relay.Options, error) {
	source := n.cluster.Source
	o := relay.Options{URL: source.Parsed(), Silence: source.Silence}
	if o.URL == nil {
		return o, nil
	}
	to, err := connections("cluster.source.tls", source.TLS, n.upstream, files)
	if err != nil {
		return o, err
	}
	o.Client, err = newPollClient(config.Auth{BearerTokenFile: source.BearerTokenFile}, o.URL, newTransport(to), files)
	if err != nil {
		return o, fmt.Errorf("cluster.source.bearer_token_file: %w", err)
	}
	return o, nil
}
