package client

import "fmt"

// Format is how something is printed.
type Format string

// Formats.
const (
	Table Format = "table"
	JSON  Format = "json" // as the admin listener told it
)

// Set implements flag.Value.
func (f *Format) Set(s string) error {
	if s != string(Table) && s != string(JSON) {
		return fmt.Errorf("must be %s or %s", Table, JSON)
	}
	*f = Format(s)
	return nil
}

// String implements flag.Value.
func (f *Format) String() string { return string(*f) }
