package client

import "time"

// status is the answer of /status, as far as it is shown.
type status struct {
	At      time.Time `json:"at"`
	Version string    `json:"version"`
	Mode    string    `json:"mode"`
	Ready   struct {
		OK      bool   `json:"ok"`
		Missing string `json:"missing"`
	} `json:"ready"`
	Engine struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	} `json:"engine"`
	Nodes     []node           `json:"nodes"`
	Requests  int64            `json:"requests"`
	Decisions map[string]int64 `json:"decisions"`
	Observed  map[string]int64 `json:"observed"`
	Failovers map[string]int64 `json:"failovers"`
	Hedges    map[string]int64 `json:"hedges"`
	Spikes    []spike          `json:"spikes"`
	SpikesOff bool             `json:"spikes_off"`
	Admission *struct {
		Mode    string `json:"mode"`
		Writes  string `json:"writes"` // empty: a sidestep that does not tell
		Waiting int64  `json:"waiting"`
		Refused int64  `json:"refused"`
		Dropped int64  `json:"dropped"`
	} `json:"admission"` // nil while it is off
	Bulks *struct {
		Mode    string           `json:"mode"`
		Results map[string]int64 `json:"results"`
		Index   string           `json:"index"`
		Skew    float64          `json:"skew"`
	} `json:"bulks"` // nil if no index has its bulks on one shard
}

// node is one node in /nodes and /status. Durations are milliseconds.
type node struct {
	ID          string     `json:"id"`
	Name        string     `json:"name"`
	State       string     `json:"state"`
	Why         string     `json:"why"`
	Since       *time.Time `json:"since"`
	Leaving     string     `json:"leaving"` // how it is said to be about to leave; empty if it is not
	Rank        *float64   `json:"rank"`
	Parts       parts      `json:"parts"`
	Outstanding int64      `json:"outstanding"`
	Searches    int64      `json:"searches"`
	Failures    int64      `json:"failures"`
	Share       float64    `json:"share_last_minute"`          // 0..1
	Coordinates *float64   `json:"coordinated_share_last_10s"` // 0..1; nil: of a sidestep that does not tell
	PollAge     *float64   `json:"poll_age_s"`
	NotPolled   bool       `json:"not_polled"`
}

// notPolled is shown as the state of nodes whose state nobody asks for, as of dedicated managers.
const notPolled = "not polled"

// parts is what a rank is made of.
type parts struct {
	ResponseTime float64 `json:"response_time_ms"`
	ServiceTime  float64 `json:"service_time_ms"`
	Queue        float64 `json:"queue"`
	Outstanding  float64 `json:"outstanding"`
}

// spike is what is told of a node's trouble in a list.
type spike struct {
	ID      string     `json:"id"`
	Node    string     `json:"node"`
	Began   time.Time  `json:"began"`
	Ended   *time.Time `json:"ended"` // nil while it lasts
	State   string     `json:"state"`
	Why     string     `json:"why"`
	Cause   string     `json:"cause"`
	Summary string     `json:"summary"`
}
