package poll

import "encoding/json"

// text is a JSON string, or nothing. It is read into the memory of the one before:
// big clusters have a hundred thousand copies, of few different values.
type text []byte

// UnmarshalJSON implements json.Unmarshaler.
func (t *text) UnmarshalJSON(value []byte) error {
	*t = (*t)[:0]
	if string(value) == "null" {
		return nil
	}
	if !isPlain(value) {
		return t.decode(value)
	}
	*t = append(*t, value[1:len(value)-1]...)
	return nil
}

// isPlain reports whether a value is a string that stands for itself.
func isPlain(value []byte) bool {
	if len(value) < 2 || value[0] != '"' {
		return false
	}
	for _, c := range value[1 : len(value)-1] {
		if c == '\\' || c >= 0x7f {
			return false
		}
	}
	return true
}

func (t *text) decode(value []byte) error {
	var decoded string
	if err := json.Unmarshal(value, &decoded); err != nil {
		return err
	}
	*t = append(*t, decoded...)
	return nil
}
