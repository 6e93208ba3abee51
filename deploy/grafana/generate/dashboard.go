package main

const (
	columns   = 24
	width     = 8
	height    = 8
	statHigh  = 4
	schema    = 41 // Grafana 12; later ones convert it
	onLoad    = 1
	onRange   = 2
	ascending = 1
)

// newDashboard lays the rows out.
func newDashboard() dashboard {
	d := dashboard{
		UID: "sidestep", Title: "sidestep", Tags: []string{"sidestep", "elasticsearch", "opensearch"},
		Description:   "What sidestep does with searches, and what it knows of the nodes. The metrics are explained in docs/metrics.md, alerts in docs/alerts.md.",
		SchemaVersion: schema, Editable: true, GraphTooltip: 1, Refresh: "30s", Timezone: "browser",
		Time:        timeRange{From: "now-1h", To: "now"},
		Templating:  templating{List: variables()},
		Annotations: annotations{List: events()},
	}
	y, id := 0, 0
	for _, r := range []row{overview(), dataPlane(), nodes(), spikes(), decisions(), attempts(), bulks(), admissions(), knowledge(), relays(), process()} {
		id++
		open := false
		d.Panels = append(d.Panels, panelJSON{ID: id, Type: "row", Title: r.title, Collapsed: &open, GridPos: gridPos{H: 1, W: columns, Y: y}})
		y++
		x, high := 0, 0
		for _, p := range r.panels {
			at := gridPos{H: height, W: p.width, X: x, Y: y}
			if at.W == 0 {
				at.W = width
			}
			if p.kind == stat {
				at.H = statHigh
			}
			if x+at.W > columns {
				y += high
				at.X, at.Y, high = 0, y, 0
			}
			id++
			d.Panels = append(d.Panels, p.json(id, at))
			x, high = at.X+at.W, max(high, at.H)
		}
		y += high
	}
	return d
}

// variables are what the panels can be narrowed to.
func variables() []variable {
	choice := func(name, label, values string) variable {
		source := prometheus()
		return variable{
			Name: name, Label: label, Type: "query", Datasource: &source,
			Query: varQuery{Query: values, RefID: name}, Refresh: onRange, Sort: ascending,
			Multi: true, IncludeAll: true, AllValue: ".+",
			Current: &option{Text: []string{"All"}, Value: []string{"$__all"}},
		}
	}
	return []variable{
		{Name: "datasource", Label: "Data source", Type: "datasource", Query: "prometheus", Refresh: onLoad},
		choice("job", "Job", `label_values(sidestep_build_info, job)`),
		choice("instance", "sidestep", `label_values(sidestep_build_info{job=~"$job"}, instance)`),
		choice("node", "Node", `label_values(sidestep_node_up{job=~"$job", instance=~"$instance"}, node)`),
	}
}

// events are drawn across all panels.
func events() []annotation {
	event := func(name, color, title, expr string) annotation {
		return annotation{
			Name: name, Enable: true, Datasource: prometheus(), IconColor: color,
			Target: query{expr: expr}.target(0), TitleFormat: title,
		}
	}
	return []annotation{
		event("Node ejected or unresponsive", "orange", "{{node}} {{state}}",
			`max by (node, state) (sidestep_node_state{NODE, state=~"slow|failing|unresponsive|unreachable"}) == 1`),
		event("Node busy", "yellow", "{{node}} busy", `max by (node) (sidestep_node_state{NODE, state="busy"}) == 1`),
		event("Spike", "red", "{{node}}: {{cause}}",
			`max by (node, cause) (sidestep_node_spike{NODE}) == 1`),
		// Changes would not show a sidestep with an address of its own, as each pod has, nor any that is scraped once in
		// the window. Grafana looks once a minute. Prometheus's clock may be behind that of sidestep.
		event("Started or configured", "blue", "{{instance}} started or read its configuration",
			`time() - sidestep_config_last_reload_success_timestamp_seconds{SEL} < 120 > -120`),
	}
}
