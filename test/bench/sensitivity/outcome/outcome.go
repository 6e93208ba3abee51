// Package outcome is what the player of a build tells the command sensitivity.
package outcome

// Outcome is what one build of the selection brought.
type Outcome struct {
	// Rows of the catalogue by name, with a figure for each seed.
	Rows map[string]*Row `json:"rows"`
	// Random scenarios, in the order of the sweep.
	Random []Scenario `json:"random"`
}

// Row is one scenario of the catalogue; its slices are parallel, one entry a seed.
type Row struct {
	P99    []float64 `json:"p99_ms"` // Never, if more than 1 % of the searches failed
	Failed []float64 `json:"failed"` // share of the searches, 0..1
}

// Scenario is what became of one random scenario. EngineP99 is 0 where only sidestep played.
type Scenario struct {
	P99       float64 `json:"p99_ms"`
	EngineP99 float64 `json:"engine_p99_ms,omitempty"`
	Failed    float64 `json:"failed"` // searches
	Attempts  float64 `json:"attempts"`
	Ejected   int     `json:"ejected"` // ejections of nodes without a fault
}

// Never (ms) stands for the time of a search that was never answered.
const Never = 1e6
