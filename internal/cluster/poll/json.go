package poll

import (
	"encoding/json"
	"fmt"
)

// eachField reads an object field by field: value reads the value of each. What it
// reads is never held as a whole.
func eachField(dec *json.Decoder, value func(key string) error) error {
	if err := expectDelim(dec, '{'); err != nil {
		return err
	}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return err
		}
		key, ok := token.(string)
		if !ok {
			return fmt.Errorf("found %v where a key was expected", token)
		}
		if err := value(key); err != nil {
			return err
		}
	}
	return expectDelim(dec, '}')
}

// eachElement reads an array element by element.
func eachElement(dec *json.Decoder, element func() error) error {
	if err := expectDelim(dec, '['); err != nil {
		return err
	}
	for dec.More() {
		if err := element(); err != nil {
			return err
		}
	}
	return expectDelim(dec, ']')
}

// skipValue reads a value that is of no interest. There is none where the answer is filtered.
func skipValue(dec *json.Decoder) error { return dec.Decode(new(json.RawMessage)) }

func expectDelim(dec *json.Decoder, want json.Delim) error {
	token, err := dec.Token()
	if err != nil {
		return err
	}
	if token != want {
		return fmt.Errorf("found %v where %v was expected", token, want)
	}
	return nil
}
