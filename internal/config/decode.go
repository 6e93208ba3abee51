package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// decoder fills a Config from YAML and continues after a problem, so that all are found.
// go-yaml's own strict decoding knows neither the path of a key nor a name of its type
// outside Go, hence the walk over its nodes.
type decoder struct {
	lines    map[string]int // of each key and list element present
	problems []*Problem
}

// decode fills into from data. Keys that are not in data keep their values.
func decode(data []byte, into *Config) *decoder {
	d := &decoder{lines: make(map[string]int)}
	reader := yaml.NewDecoder(bytes.NewReader(data))
	var document yaml.Node
	if err := reader.Decode(&document); err != nil {
		if !errors.Is(err, io.EOF) {
			d.syntax(err)
		}
		return d
	}
	d.mapping(document.Content[0], reflect.ValueOf(into).Elem(), "")
	var second yaml.Node
	if err := reader.Decode(&second); !errors.Is(err, io.EOF) {
		d.add("", max(second.Line, 1), "the file must hold one YAML document")
	}
	return d
}

func (d *decoder) add(path string, line int, format string, args ...any) {
	d.problems = append(d.problems, &Problem{Path: path, Message: fmt.Sprintf(format, args...), line: line})
}

// syntax converts go-yaml's "yaml: line 3: what" to a problem of that line.
func (d *decoder) syntax(err error) {
	message, line := strings.TrimPrefix(err.Error(), "yaml: "), 1
	if rest, ok := strings.CutPrefix(message, "line "); ok {
		number, what, _ := strings.Cut(rest, ": ")
		if n, err := strconv.Atoi(number); err == nil {
			message, line = what, max(n, 1)
		}
	}
	// go-yaml counts some lines from 0.
	d.add("", line, "not valid YAML here or on the next line: %s", message)
}

func (d *decoder) mapping(node *yaml.Node, into reflect.Value, path string) {
	node = resolve(node)
	if isNull(node) {
		return
	}
	if node.Kind != yaml.MappingNode {
		d.add(path, node.Line, "must be a mapping of keys (%s), not %s", strings.Join(keysIn(into), ", "), kindName(node))
		return
	}
	fields := fieldsOf(into)
	seen := make(map[string]int)
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		if strings.Contains(key.Value, "://") { // it is not quoted: it may hold a password
			d.add(path, key.Line, "holds a URL where a key belongs")
			continue
		}
		keyPath := join(path, key.Value)
		field, known := fields[key.Value]
		if !known {
			d.add(keyPath, key.Line, "unknown key%s", suggestion(path, key.Value))
			continue
		}
		if first, twice := seen[key.Value]; twice {
			d.add(keyPath, key.Line, "set twice, first on line %d", first)
			continue
		}
		seen[key.Value] = key.Line
		d.lines[keyPath] = key.Line
		d.value(resolve(value), field, keyPath)
	}
}

// value decodes one value: a section, a list or a scalar.
func (d *decoder) value(node *yaml.Node, into reflect.Value, path string) {
	switch {
	case into.Kind() == reflect.Struct:
		d.mapping(node, into, path)
	case isNull(node): // "key:" without a value is the default
	case into.Kind() == reflect.Slice:
		d.list(node, into, path)
	case node.Kind != yaml.ScalarNode:
		d.add(path, node.Line, "must be %s, not %s", typeName(into), kindName(node))
	default:
		d.scalar(node, into, path)
	}
}

func (d *decoder) list(node *yaml.Node, into reflect.Value, path string) {
	if node.Kind != yaml.SequenceNode {
		d.add(path, node.Line, "must be a list, written [a, b], not %s", kindName(node))
		return
	}
	list := reflect.MakeSlice(into.Type(), len(node.Content), len(node.Content))
	for i, element := range node.Content {
		elementPath := fmt.Sprintf("%s[%d]", path, i)
		d.lines[elementPath] = element.Line
		d.value(resolve(element), list.Index(i), elementPath)
	}
	into.Set(list)
}

func (d *decoder) scalar(node *yaml.Node, into reflect.Value, path string) {
	var err error
	switch value := into.Addr().Interface().(type) {
	case *Size:
		*value, err = ParseSize(node.Value)
	case *time.Duration:
		*value, err = time.ParseDuration(node.Value) // go-yaml takes no 0 without a unit
	default:
		err = node.Decode(value)
	}
	// go-yaml cuts fractions off.
	cut := into.Kind() == reflect.Int && node.ShortTag() != "!!int"
	if err != nil || cut {
		quoted := ""
		if node.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0 {
			quoted = " in quotes"
		}
		d.add(path, node.Line, "%q%s is not %s", node.Value, quoted, typeName(into))
	}
}

// keysIn returns the keys of a section, in the order of the schema.
func keysIn(section reflect.Value) []string {
	keys := make([]string, section.NumField())
	for i := range keys {
		keys[i] = section.Type().Field(i).Tag.Get("yaml")
	}
	return keys
}

// fieldsOf maps the keys of a section to its fields.
func fieldsOf(section reflect.Value) map[string]reflect.Value {
	fields := make(map[string]reflect.Value, section.NumField())
	for i, key := range keysIn(section) {
		fields[key] = section.Field(i)
	}
	return fields
}

func resolve(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}

func isNull(node *yaml.Node) bool {
	return node.Kind == yaml.ScalarNode && node.ShortTag() == "!!null"
}

func kindName(node *yaml.Node) string {
	switch node.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	default:
		return "a single value" // it is not quoted: a URL may hold a password
	}
}

// typeName describes the type of a key for users.
func typeName(value reflect.Value) string {
	switch value.Interface().(type) {
	case time.Duration:
		return "a duration: write a number with a unit, such as 500ms, 10s or 1m"
	case Size:
		return "a size: write a whole number of bytes, or of KiB, MiB or GiB, such as 1MiB"
	case bool, *bool:
		return "true or false"
	case int:
		return "a whole number"
	case float64:
		return "a number"
	default:
		return "a text"
	}
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
