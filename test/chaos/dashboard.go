package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"sidestep/test/harness"
)

// Dashboard is what the Grafana dashboard that is deployed asks Prometheus for, as it
// stands in its file: the annotations, which say on every panel who was in trouble.
func Dashboard(root string, p *harness.Prometheus) (Surface, error) {
	expressions, err := annotations(filepath.Join(root, "deploy/grafana/sidestep.json"))
	if err != nil {
		return Surface{}, err
	}
	return Surface{Name: "dashboard", Look: func(ctx context.Context, at time.Time) ([]Claim, error) {
		var out []Claim
		for name, expr := range expressions {
			found, err := p.Range(ctx, expr, at, scrapeInterval)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			for _, series := range found {
				if node := string(series.Metric["node"]); node != "" && everTrue(series) {
					cause := string(series.Metric["cause"])
					out = append(out, Claim{Node: node, Cause: cause, Text: strings.Join([]string{name, node, cause}, " ")})
				}
			}
		}
		return out, nil
	}}, nil
}

// everTrue reports whether a series was above zero at any time.
func everTrue(series *model.SampleStream) bool {
	for _, point := range series.Values {
		if point.Value > 0 {
			return true
		}
	}
	return false
}

// annotations returns the queries of the dashboard's annotations that are about nodes,
// as they are sent with all values of all variables chosen.
func annotations(file string) (map[string]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var dashboard struct {
		Annotations struct {
			List []struct {
				Name   string
				Target struct{ Expr string }
			}
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	values := strings.NewReplacer("$job", ".+", "$instance", ".+", "$node", ".+", "$__rate_interval", "4s", "$__interval", "1s")
	expressions := map[string]string{}
	for _, a := range dashboard.Annotations.List {
		if strings.Contains(a.Target.Expr, "node") {
			expressions[a.Name] = values.Replace(a.Target.Expr)
		}
	}
	if len(expressions) == 0 {
		return nil, errors.New("no annotation of the dashboard names a node")
	}
	return expressions, nil
}
