package config

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// Tracing says where traces go. An empty key leaves the decision to the environment
// variable of OpenTelemetry (OTEL_*) of the same meaning.
type Tracing struct {
	// Endpoint is the URL of an OTLP receiver; empty, here and in the environment:
	// nothing is traced.
	Endpoint string `yaml:"endpoint"`
	Protocol string `yaml:"protocol"` // "http/protobuf", "http/json" or "grpc"
	// SampleRatio is the share of requests that are traced.
	SampleRatio float64 `yaml:"sample_ratio"`
	// TrustClientSampling lets the sampled flag of a client's traceparent decide.
	TrustClientSampling bool `yaml:"trust_client_sampling"`
	// HeadersFile holds headers for the receiver, "name: value", one a line.
	HeadersFile string `yaml:"headers_file"`
	ServiceName string `yaml:"service_name"`
}

// tracing checks this section.
func (c *checker) tracing(t Tracing) {
	if t.Endpoint != "" {
		parsed := c.url("tracing.endpoint", t.Endpoint, "http://127.0.0.1:4318", "set headers_file")
		if parsed != nil && t.Protocol == "grpc" && strings.Trim(parsed.Path, "/") != "" {
			c.add("tracing.endpoint", "must be scheme, host and port alone with the protocol grpc")
		}
	}
	if t.Protocol != "" {
		c.oneOf("tracing.protocol", t.Protocol)
	}
	if r := t.SampleRatio; !(r >= 0 && r <= 1) {
		c.add("tracing.sample_ratio", "must be between 0 and 1, not %v", r)
	}
	if t.HeadersFile == "" || c.content("tracing.headers_file", t.HeadersFile) == nil {
		return
	}
	if _, err := t.Headers(); err != nil {
		c.add("tracing.headers_file", "%v", err)
	}
}

// Headers returns the headers in HeadersFile, nil if there is none. The error names the
// line, but not its content.
func (t Tracing) Headers() (map[string]string, error) {
	if t.HeadersFile == "" {
		return nil, nil //nolint:nilnil // no file is no headers
	}
	file, err := os.Open(t.HeadersFile)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	headers := map[string]string{}
	lines := bufio.NewScanner(file)
	for number := 1; lines.Scan(); number++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" {
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		if value = strings.TrimSpace(value); !ok || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return nil, fmt.Errorf("%s: line %d is not \"name: value\"", t.HeadersFile, number)
		}
		headers[name] = value
	}
	return headers, lines.Err()
}
