package app

import (
	"fmt"

	"sidestep/internal/config"
	"sidestep/internal/tracing"
)

// useTracing records requests as cfg says from now on.
func (a *App) useTracing(cfg config.Config) error {
	headers, err := cfg.Tracing.Headers()
	if err != nil {
		return fmt.Errorf("tracing.headers_file: %w", err)
	}
	return a.tracer.Use(tracing.Options{
		Endpoint:    cfg.Tracing.Endpoint,
		Protocol:    cfg.Tracing.Protocol,
		SampleRatio: cfg.Tracing.SampleRatio,
		TrustClient: cfg.Tracing.TrustClientSampling,
		Headers:     headers,
		ServiceName: cfg.Tracing.ServiceName,
		Version:     a.options.Version,
	})
}
