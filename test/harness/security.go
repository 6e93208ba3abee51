package harness

import (
	"context"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha512"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Security says which accounts a cluster with ClusterOptions.Security has.
type Security struct {
	Users []User
	// Roles is the content of roles.yml: the roles of Users that are not built in.
	Roles string
}

// User is an account of the file realm.
type User struct {
	Name, Password string
	Roles          []string
}

// administrator is the account that this package uses.
func administrator() User {
	return User{Name: "administrator", Password: "password-of-tests", Roles: []string{"superuser"}}
}

// What each node of a secured cluster has a certificate for.
const (
	forHTTP      = "http"
	forTransport = "transport"
)

// authorityFile holds the authority's certificate in a node's folder of
// configuration. The engine may not read files elsewhere.
const authorityFile = "authority.pem"

// secure prepares what all nodes of a secured cluster share.
func (l *launcher) secure() (err error) {
	switch {
	case l.options.Security == nil:
		return nil
	case l.release.distribution != Elasticsearch:
		return errors.New("only Elasticsearch can be started with security")
	}
	l.authority, err = NewAuthority("authority of tests")
	return err
}

// newTransport returns a transport for requests to the nodes. It adds credentials
// where the nodes demand them.
func (l *launcher) newTransport() http.RoundTripper {
	transport := &http.Transport{MaxIdleConnsPerHost: 16}
	if l.authority == nil {
		return transport
	}
	transport.TLSClientConfig = &tls.Config{RootCAs: l.authority.Pool(), MinVersion: tls.VersionTLS12}
	return authorized{transport}
}

// authorized sends requests with the credentials of the administrator.
type authorized struct{ *http.Transport }

// RoundTrip implements http.RoundTripper.
func (a authorized) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.SetBasicAuth(administrator().Name, administrator().Password)
	return a.Transport.RoundTrip(r)
}

// securitySettings returns the node settings that switch security on or off.
func (l launcher) securitySettings() map[string]string {
	if l.options.Security == nil {
		return map[string]string{"xpack.security.enabled": "false"}
	}
	s := map[string]string{
		"xpack.security.enabled":               "true",
		"xpack.security.authc.api_key.enabled": "true",
		// The basic licence has no document level security.
		"xpack.license.self_generated.type": "trial",
		// How often the engine looks whether certificates have changed.
		"resource.reload.interval.high": "1s",
	}
	for _, purpose := range []string{forHTTP, forTransport} {
		prefix := "xpack.security." + purpose + ".ssl."
		s[prefix+"enabled"] = "true"
		s[prefix+"certificate"] = purpose + ".crt"
		s[prefix+"key"] = purpose + ".key"
		s[prefix+"certificate_authorities"] = authorityFile
	}
	s["xpack.security.transport.ssl.verification_mode"] = "full"
	return s
}

// writeSecurity writes a node's accounts and certificates.
func (l launcher) writeSecurity(n *Node) error {
	if l.options.Security == nil {
		return nil
	}
	var users strings.Builder
	members := make(map[string][]string)
	for _, user := range append([]User{administrator()}, l.options.Security.Users...) {
		hash, err := hashPassword(user.Password)
		if err != nil {
			return err
		}
		fmt.Fprintf(&users, "%s:%s\n", user.Name, hash)
		for _, role := range user.Roles {
			members[role] = append(members[role], user.Name)
		}
	}
	var roles strings.Builder
	for _, role := range slices.Sorted(maps.Keys(members)) {
		fmt.Fprintf(&roles, "%s:%s\n", role, strings.Join(members[role], ","))
	}
	for name, content := range map[string]string{
		"users": users.String(), "users_roles": roles.String(), "roles.yml": l.options.Security.Roles,
		authorityFile: string(l.authority.PEM),
	} {
		if err := n.writeConfigFile(name, []byte(content)); err != nil {
			return err
		}
	}
	return errors.Join(n.writeCertificate(forHTTP, l.authority), n.writeCertificate(forTransport, l.authority))
}

// hashPassword returns the hash of a password as the file realm reads it. The
// tool elasticsearch-users does the same, but takes seconds for each user.
func hashPassword(password string) (string, error) {
	const iterations, size = 1000, 32
	salt := make([]byte, size)
	_, _ = rand.Read(salt) // never returns an error
	key, err := pbkdf2.Key(sha512.New, password, salt, iterations, size)
	if err != nil {
		return "", fmt.Errorf("hash a password: %w", err)
	}
	encode := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("{PBKDF2}%d$%s$%s", iterations, encode(salt), encode(key)), nil
}

// allowKeys makes the index in which a secured cluster keeps API keys. The engine
// makes it when it is first needed, with an analyzer whose parts the distribution
// from Maven lacks. So it gets one of that name here, and the engine adds the rest.
func (c *Cluster) allowKeys(ctx context.Context) error {
	if c.options.Security == nil {
		return nil
	}
	const template = "keys-template" // only a copy may have settings of its own
	settings := map[string]any{
		"number_of_shards": 1, "auto_expand_replicas": "0-1", "index.format": 6,
		"index.blocks.write": true, "analysis.analyzer.email.type": "standard",
	}
	clone := map[string]any{
		"aliases":  map[string]any{".security": map[string]any{"is_hidden": true}},
		"settings": map[string]any{"index.blocks.write": nil, "index.hidden": true},
	}
	for _, step := range []request{
		{http.MethodPut, "/" + template, map[string]any{"settings": settings}},
		{http.MethodPost, "/" + template + "/_clone/.security-7", clone},
		{http.MethodDelete, "/" + template, nil},
	} {
		if err := c.Do(ctx, step.method, step.path, step.body, nil); err != nil {
			return fmt.Errorf("make the index of API keys: %w", err)
		}
	}
	return nil
}

// UseHTTPCertificate gives the node a certificate of that authority for its HTTP
// port. The node uses it for new connections within a few seconds.
func (n *Node) UseHTTPCertificate(authority *Authority) error {
	if err := n.writeCertificate(forHTTP, authority); err != nil {
		return fmt.Errorf("change the certificate of %s: %w", n.Name, err)
	}
	return nil
}

func (n *Node) writeCertificate(purpose string, authority *Authority) error {
	certificate, key, err := authority.Issue(n.Name)
	if err != nil {
		return err
	}
	return errors.Join(n.writeConfigFile(purpose+".key", key), n.writeConfigFile(purpose+".crt", certificate))
}

// writeConfigFile replaces a file of the node's configuration at once.
func (n *Node) writeConfigFile(name string, content []byte) error {
	path := filepath.Join(n.dir, "config", name)
	fresh := path + ".new"
	if err := os.WriteFile(fresh, content, 0o600); err != nil {
		return err
	}
	if err := give(fresh, n.launch.owner); err != nil {
		return err
	}
	return os.Rename(fresh, path)
}
