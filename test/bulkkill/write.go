package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sidestep/test/harness"
)

const (
	documents = 50 // of a bulk
	// impatient is the share of bulks whose client waits for impatience alone, and sends
	// them again at once.
	impatient  = 0.05
	impatience = 15 * time.Millisecond
	attempts   = 600 // at one bulk
	page       = 5000
)

// writing is what clients write, and what they were told.
type writing struct {
	url    string
	seed   uint64
	client *http.Client
	next   atomic.Int64 // number of the next document

	acknowledged, again, failedItems atomic.Int64

	mu      sync.Mutex
	numbers []int64 // of documents that were acknowledged
	unknown []int64 // of documents whose client gave up
}

func newWriting(url string, seed uint64) *writing {
	return &writing{url: url, seed: seed, client: &http.Client{Timeout: 2 * time.Minute}}
}

// String tells how far it is.
func (w *writing) String() string {
	return fmt.Sprintf("%d bulks acknowledged, %d sent again, %d items refused and sent again", w.acknowledged.Load(), w.again.Load(), w.failedItems.Load())
}

// await waits until so many more bulks have been acknowledged.
func (w *writing) await(ctx context.Context, more int64) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for want := w.acknowledged.Load() + more; w.acknowledged.Load() < want; _ = harness.Pause(ctx, 5*time.Millisecond) {
		if ctx.Err() != nil {
			return errors.New("no bulk is acknowledged any more")
		}
	}
	return nil
}

// write sends bulks until enough is done; the last one is finished.
func (w *writing) write(ctx, enough context.Context, writer int) {
	random := rand.New(rand.NewPCG(w.seed, uint64(writer)+10)) //nolint:gosec // a reproducible draw
	for enough.Err() == nil {
		numbers := make([]int64, documents)
		for i := range numbers {
			numbers[i] = w.next.Add(1)
		}
		for tries := 0; len(numbers) > 0; tries++ {
			if tries == attempts || ctx.Err() != nil {
				w.mu.Lock()
				w.unknown = append(w.unknown, numbers...)
				w.mu.Unlock()
				return
			}
			refused, err := w.send(ctx, numbers, random)
			if err != nil {
				w.again.Add(1)
				_ = harness.Pause(ctx, 20*time.Millisecond)
				continue // the same body again
			}
			w.acknowledge(numbers, refused)
			numbers = refused
		}
		w.acknowledged.Add(1)
	}
}

func (w *writing) acknowledge(numbers, refused []int64) {
	w.failedItems.Add(int64(len(refused)))
	not := make(map[int64]bool, len(refused))
	for _, n := range refused {
		not[n] = true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range numbers {
		if !not[n] {
			w.numbers = append(w.numbers, n)
		}
	}
}

// send sends a bulk and returns the documents that were refused.
func (w *writing) send(ctx context.Context, numbers []int64, random *rand.Rand) (refused []int64, err error) {
	if random.Float64() < impatient {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, impatience)
		defer cancel()
	}
	answer, err := post(ctx, w.client, w.url+"/"+index+"/_bulk", bulkOf(numbers))
	if err != nil {
		return nil, err
	}
	if len(answer.Items) != len(numbers) {
		return nil, fmt.Errorf("%d items for %d operations", len(answer.Items), len(numbers))
	}
	for i, verbs := range answer.Items {
		result, ok := verbs["index"]
		if !ok {
			return nil, fmt.Errorf("the operation is index, its result %v", verbs)
		}
		if result.Status >= http.StatusMultipleChoices {
			refused = append(refused, numbers[i])
		}
	}
	return refused, nil
}

func bulkOf(numbers []int64) []byte {
	var body bytes.Buffer
	for _, n := range numbers {
		fmt.Fprintf(&body, "{\"index\":{}}\n{\"n\":%d,\"text\":%q}\n", n, strings.Repeat("x", int(n%200)))
	}
	return body.Bytes()
}

type bulkAnswer struct {
	Items []map[string]struct {
		Status int
	}
}

func post(ctx context.Context, client *http.Client, url string, body []byte) (answer bulkAnswer, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return answer, err
	}
	req.GetBody = nil // or the transport sends it again by itself
	req.Header.Set("Content-Type", "application/x-ndjson")
	resp, err := client.Do(req)
	if err != nil {
		return answer, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer, err
	}
	if resp.StatusCode != http.StatusOK {
		return answer, fmt.Errorf("status %d: %.200s", resp.StatusCode, text)
	}
	return answer, json.Unmarshal(text, &answer)
}

// awaitPlanned waits until bulks are given a routing, with documents that do not count.
func awaitPlanned(ctx context.Context, url string) error {
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/"+index+"/_bulk", strings.NewReader("{\"index\":{}}\n{\"n\":-1}\n"))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/x-ndjson")
		req.Header.Set("X-Sidestep-Explain", "1")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		_ = resp.Body.Close()
		if harness.ParseDecision(resp.Header.Get(harness.DecisionHeader)).Reason == "one_shard" {
			return nil
		}
		_ = harness.Pause(ctx, 100*time.Millisecond)
		if ctx.Err() != nil {
			return errors.New("bulks are not given a routing")
		}
	}
}

// verify compares what is there with what was acknowledged.
func verify(ctx context.Context, cluster *harness.Cluster, w *writing) error {
	if err := cluster.WaitGreen(ctx, index); err != nil {
		return err
	}
	if err := cluster.Do(ctx, http.MethodPost, "/"+index+"/_refresh", nil, nil); err != nil {
		return err
	}
	times, err := stored(ctx, cluster)
	if err != nil {
		return err
	}
	missing, twice := 0, 0
	for _, n := range w.numbers {
		switch times[n] {
		case 0:
			missing++
		case 1:
		default:
			twice++
		}
		delete(times, n)
	}
	for _, n := range w.unknown {
		delete(times, n)
	}
	fmt.Printf("%d documents acknowledged: %d missing, %d more than once; %d that nobody wrote\n", len(w.numbers), missing, twice, len(times))
	if missing+twice+len(times) > 0 || len(w.unknown) > 0 {
		return fmt.Errorf("documents are not those acknowledged (%d were never)", len(w.unknown))
	}
	return nil
}

// stored reads how often each number is there.
func stored(ctx context.Context, cluster *harness.Cluster) (map[int64]int, error) {
	times, after := map[int64]int{}, int64(0)
	for {
		var answer struct {
			Hits struct {
				Hits []struct {
					Sort []int64
				}
			}
		}
		query := fmt.Sprintf(`{"size":%d,"_source":false,"query":{"range":{"n":{"gt":%d}}},"sort":["n"]}`, page, after)
		if err := cluster.Do(ctx, http.MethodPost, "/"+index+"/_search", []byte(query), &answer); err != nil {
			return nil, err
		}
		hits := answer.Hits.Hits
		if len(hits) == 0 {
			return times, nil
		}
		// What has the last number of a page may go on on the next.
		last := hits[len(hits)-1].Sort[0]
		for _, hit := range hits {
			if n := hit.Sort[0]; n < last || len(hits) < page {
				times[n]++
			}
		}
		if after = last - 1; len(hits) < page {
			return times, nil
		}
	}
}

func bulkMetrics(ctx context.Context, f *harness.Front) (string, error) {
	_, body, err := f.Admin(ctx, http.MethodGet, "/metrics", "")
	var lines strings.Builder
	for line := range strings.Lines(string(body)) {
		if strings.HasPrefix(line, "sidestep_bulk_repeats_total") || strings.HasPrefix(line, "sidestep_bulks_total") {
			lines.WriteString(line)
		}
	}
	return lines.String(), err
}
