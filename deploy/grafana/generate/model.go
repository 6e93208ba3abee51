package main

// The classic model of a dashboard, as far as it is used here. Grafana 10 and later
// read it.
type dashboard struct {
	UID           string      `json:"uid"`
	Title         string      `json:"title"`
	Description   string      `json:"description"`
	Tags          []string    `json:"tags"`
	SchemaVersion int         `json:"schemaVersion"`
	Editable      bool        `json:"editable"`
	GraphTooltip  int         `json:"graphTooltip"` // 1: a crosshair in all panels
	Refresh       string      `json:"refresh"`
	Timezone      string      `json:"timezone"`
	Time          timeRange   `json:"time"`
	Templating    templating  `json:"templating"`
	Annotations   annotations `json:"annotations"`
	Panels        []panelJSON `json:"panels"`
}

type timeRange struct {
	From string `json:"from"`
	To   string `json:"to"`
}

type templating struct {
	List []variable `json:"list"`
}

type variable struct {
	Name       string      `json:"name"`
	Label      string      `json:"label"`
	Type       string      `json:"type"`
	Datasource *datasource `json:"datasource,omitempty"`
	Query      any         `json:"query"` // the plugin's id, or a varQuery
	Refresh    int         `json:"refresh"`
	Sort       int         `json:"sort,omitempty"`
	Multi      bool        `json:"multi,omitempty"`
	IncludeAll bool        `json:"includeAll,omitempty"`
	AllValue   string      `json:"allValue,omitempty"`
	Current    *option     `json:"current,omitempty"`
}

type varQuery struct {
	Query string `json:"query"`
	RefID string `json:"refId"`
}

type option struct {
	Text  []string `json:"text"`
	Value []string `json:"value"`
}

type annotations struct {
	List []annotation `json:"list"`
}

type annotation struct {
	Name        string     `json:"name"`
	Enable      bool       `json:"enable"`
	Hide        bool       `json:"hide"`
	Datasource  datasource `json:"datasource"`
	IconColor   string     `json:"iconColor"`
	Target      target     `json:"target"`
	TitleFormat string     `json:"titleFormat"`
	TextFormat  string     `json:"textFormat"`
	TagKeys     string     `json:"tagKeys"`
}

type datasource struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

type target struct {
	RefID        string     `json:"refId"`
	Datasource   datasource `json:"datasource"`
	Expr         string     `json:"expr"`
	LegendFormat string     `json:"legendFormat"`
	EditorMode   string     `json:"editorMode"`
	Range        bool       `json:"range"`
}

type gridPos struct {
	H int `json:"h"`
	W int `json:"w"`
	X int `json:"x"`
	Y int `json:"y"`
}

type panelJSON struct {
	ID          int            `json:"id"`
	Type        string         `json:"type"`
	Title       string         `json:"title"`
	Description string         `json:"description,omitempty"`
	GridPos     gridPos        `json:"gridPos"`
	Datasource  *datasource    `json:"datasource,omitempty"`
	Targets     []target       `json:"targets,omitempty"`
	FieldConfig *fieldConfig   `json:"fieldConfig,omitempty"`
	Options     map[string]any `json:"options,omitempty"` // of the panel's plugin
	// Of a row: its panels follow it, they are not inside.
	Collapsed *bool       `json:"collapsed,omitempty"`
	Panels    []panelJSON `json:"panels,omitempty"`
}

type fieldConfig struct {
	Defaults  defaults `json:"defaults"`
	Overrides []any    `json:"overrides"`
}

type defaults struct {
	Unit       string            `json:"unit,omitempty"`
	Min        *float64          `json:"min,omitempty"`
	NoValue    string            `json:"noValue,omitempty"`
	Color      map[string]string `json:"color"`
	Thresholds thresholds        `json:"thresholds"`
	Mappings   []mapping         `json:"mappings"`
	Custom     map[string]any    `json:"custom,omitempty"` // of the panel's plugin
}

type thresholds struct {
	Mode  string `json:"mode"`
	Steps []step `json:"steps"`
}

// step is a colour from a value on; null is the first one's.
type step struct {
	Color string   `json:"color"`
	Value *float64 `json:"value"`
}

type mapping struct {
	Type    string           `json:"type"`
	Options map[string]shown `json:"options"`
}

// shown is what stands for a number.
type shown struct {
	Index int    `json:"index"`
	Text  string `json:"text"`
	Color string `json:"color"`
}
