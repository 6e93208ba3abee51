package chaos

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"sidestep/test/harness"
)

// scrapeInterval is in a hurry: the default of Prometheus is a minute.
const scrapeInterval = 250 * time.Millisecond

// startPrometheus starts one that scrapes the admin address of a sidestep, and waits until it has done so. root is
// the folder of the repository.
func startPrometheus(ctx context.Context, root, admin string) (*harness.Prometheus, error) {
	p, err := harness.StartPrometheus(ctx, root, fmt.Sprintf(
		"global: {scrape_interval: %[1]s, scrape_timeout: %[1]s}\nscrape_configs: [{job_name: sidestep, static_configs: [{targets: [%[2]q]}]}]\n",
		scrapeInterval, strings.TrimPrefix(admin, "http://")), nil)
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err = harness.Await(limited, 100*time.Millisecond, func() error {
		found, err := p.Range(limited, "sidestep_ready", time.Now().Add(-time.Minute), scrapeInterval)
		if err == nil && len(found) == 0 {
			err = errors.New("nothing is scraped")
		}
		return err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("wait for Prometheus: %w: %s", err, p.Said()), p.Stop())
	}
	return p, nil
}
