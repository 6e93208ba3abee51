package diagnosis

import (
	"encoding/json"
	"math"
	"strconv"
)

// Series are figures over time, NaN where there is none, which is null in JSON.
type Series []float32

// MarshalJSON implements json.Marshaler. It writes three decimals.
func (s Series) MarshalJSON() ([]byte, error) {
	out := make([]byte, 0, 2+6*len(s))
	out = append(out, '[')
	for i, v := range s {
		if i > 0 {
			out = append(out, ',')
		}
		if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) {
			out = append(out, "null"...)
		} else {
			out = strconv.AppendFloat(out, math.Round(f*1000)/1000, 'f', -1, 64)
		}
	}
	return append(out, ']'), nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *Series) UnmarshalJSON(data []byte) error {
	var values []*float32
	if err := json.Unmarshal(data, &values); err != nil {
		return err
	}
	*s = make(Series, len(values))
	for i, v := range values {
		(*s)[i] = unknown
		if v != nil {
			(*s)[i] = *v
		}
	}
	return nil
}

// States are a node's states over time, empty where the node was not known, which is null
// in JSON.
type States []string

// MarshalJSON implements json.Marshaler.
func (s States) MarshalJSON() ([]byte, error) {
	values := make([]*string, len(s))
	for i := range s {
		if s[i] != "" {
			values[i] = &s[i]
		}
	}
	return json.Marshal(values)
}

// UnmarshalJSON implements json.Unmarshaler.
func (s *States) UnmarshalJSON(data []byte) error {
	var values []*string
	if err := json.Unmarshal(data, &values); err != nil {
		return err
	}
	*s = make(States, len(values))
	for i, v := range values {
		if v != nil {
			(*s)[i] = *v
		}
	}
	return nil
}

// unknown is the figure where there is none.
var unknown = float32(math.NaN()) //nolint:gochecknoglobals // a constant that the language has no literal for
