package main

import (
	"fmt"
	"strconv"
	"strings"
)

// Kinds of panels, by the names of their plugins.
const (
	series = "timeseries"
	stat   = "stat"
	states = "state-timeline"
)

// row is a headline and the panels below it.
type row struct {
	title  string
	panels []panel
}

// panel is what differs between panels.
type panel struct {
	kind  string // series if empty
	title string
	about string // what it shows and how to read it
	unit  string // by Grafana's name
	width int    // of 24; 8 if 0
	// stacked series add up to a whole.
	stacked bool
	// warn and bad are from where on a value is one; 0: nothing is.
	warn, bad float64
	values    []shown // what the numbers 0, 1, … stand for
	none      string  // what is said where there is no data
	queries   []query
}

// query is one in PromQL; SEL stands for the selector of the chosen sidesteps, NODE
// for that of the chosen nodes of theirs.
type query struct{ expr, legend string }

const (
	selector     = `job=~"$job", instance=~"$instance"`
	nodeSelector = selector + `, node=~"$node"`
)

// numbered is the query of a panel of states: the number, in values, of the one that a metric tells by its last label.
func numbered(aggregate, metric string, values []shown) string {
	parts := make([]string, len(values))
	for i, v := range values {
		parts[i] = fmt.Sprintf("%d * %s=%q}", i, metric, v.Text)
	}
	return aggregate + " (\n  " + strings.Join(parts, "\n  or ") + "\n)"
}

func prometheus() datasource { return datasource{Type: "prometheus", UID: "${datasource}"} }

// target returns query i of a panel as JSON.
func (q query) target(i int) target {
	return target{
		RefID:        string(rune('A' + i)),
		Datasource:   prometheus(),
		Expr:         strings.NewReplacer("SEL", selector, "NODE", nodeSelector).Replace(q.expr),
		LegendFormat: q.legend,
		EditorMode:   "code",
		Range:        true,
	}
}

// json returns p at a place.
func (p panel) json(id int, at gridPos) panelJSON {
	if p.kind == "" {
		p.kind = series
	}
	source := prometheus()
	out := panelJSON{
		ID: id, Type: p.kind, Title: p.title, Description: p.about, GridPos: at, Datasource: &source,
		FieldConfig: &fieldConfig{
			Defaults: defaults{
				Unit:       p.unit,
				NoValue:    p.none,
				Color:      map[string]string{"mode": "palette-classic"},
				Thresholds: p.thresholds(),
				Mappings:   p.mappings(),
			},
			Overrides: []any{},
		},
	}
	for i, q := range p.queries {
		out.Targets = append(out.Targets, q.target(i))
	}
	d := &out.FieldConfig.Defaults
	switch p.kind {
	case stat:
		d.Color["mode"] = "thresholds"
		out.Options = map[string]any{
			"reduceOptions": map[string]any{"calcs": []string{"lastNotNull"}, "fields": "", "values": false},
			"colorMode":     "value", "graphMode": "area", "textMode": "auto", "justifyMode": "auto", "orientation": "auto",
		}
	case states:
		d.Color["mode"] = "thresholds"
		d.Custom = map[string]any{"fillOpacity": 70, "lineWidth": 0}
		out.Options = map[string]any{
			"showValue": "auto", "rowHeight": 0.9, "mergeValues": true, "alignValue": "left",
			"legend":  map[string]any{"displayMode": "list", "placement": "bottom", "showLegend": false, "calcs": []string{}},
			"tooltip": map[string]any{"mode": "single", "sort": "none"},
		}
	default:
		zero := 0.0
		d.Min, d.Custom = &zero, p.lines()
		out.Options = map[string]any{
			"legend":  map[string]any{"displayMode": "list", "placement": "bottom", "showLegend": true, "calcs": []string{}},
			"tooltip": map[string]any{"mode": "multi", "sort": "desc"},
		}
	}
	return out
}

// lines is how series are drawn.
func (p panel) lines() map[string]any {
	stacking, fill, limits := "none", 8, "off"
	if p.stacked {
		stacking, fill = "normal", 30
	}
	if p.warn > 0 || p.bad > 0 {
		limits = "dashed"
	}
	return map[string]any{
		"drawStyle": "line", "lineWidth": 1, "fillOpacity": fill, "showPoints": "never", "spanNulls": false,
		"stacking":        map[string]any{"mode": stacking, "group": "A"},
		"thresholdsStyle": map[string]any{"mode": limits},
	}
}

func (p panel) thresholds() thresholds {
	t := thresholds{Mode: "absolute", Steps: []step{{Color: "green"}}}
	if p.warn > 0 {
		t.Steps = append(t.Steps, step{"orange", &p.warn})
	}
	if p.bad > 0 {
		t.Steps = append(t.Steps, step{"red", &p.bad})
	}
	return t
}

func (p panel) mappings() []mapping {
	if len(p.values) == 0 {
		return []mapping{}
	}
	m := mapping{Type: "value", Options: map[string]shown{}}
	for i, v := range p.values {
		v.Index = i
		m.Options[strconv.Itoa(i)] = v
	}
	return []mapping{m}
}
