package calib

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// An object is the members of a JSON object in the order of the file; of a
// key that stands twice the last value counts.
type object []member

type member struct {
	key   string
	value json.RawMessage
}

// parseObject reads a line that must be one object and nothing else.
func parseObject(line []byte) (object, error) {
	d := json.NewDecoder(bytes.NewReader(line))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("not a JSON object")
	}
	var o object
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("not a JSON object: %w", err)
		}
		m := member{key: key.(string)} // objects have no other keys
		if err := d.Decode(&m.value); err != nil {
			return nil, fmt.Errorf("column %q: %w", m.key, err)
		}
		o = slices.DeleteFunc(o, func(old member) bool { return old.key == m.key })
		o = append(o, m)
	}
	if _, err := d.Token(); err != nil {
		return nil, errors.New("a JSON object without an end")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("text after the JSON object")
	}
	return o, nil
}

func (o object) keys() []string {
	keys := make([]string, len(o))
	for i, m := range o {
		keys[i] = m.key
	}
	return keys
}

// find returns the value of a key, or of a dotted path of keys.
func (o object) find(name string) (json.RawMessage, bool) {
	for _, m := range o {
		if m.key == name {
			return m.value, true
		}
	}
	for _, m := range o {
		rest, ok := strings.CutPrefix(name, m.key+".")
		if !ok || m.value[0] != '{' {
			continue
		}
		if inner, err := parseObject(m.value); err == nil {
			return inner.find(rest)
		}
	}
	return nil, false
}

// allStrings returns the members that are strings, or if there are none the
// strings within the members.
func (o object) allStrings() []string {
	var flat, nested []string
	for _, m := range o {
		texts := stringsOf(m.value)
		nested = append(nested, texts...)
		if m.value[0] == '"' {
			flat = append(flat, texts...)
		}
	}
	if flat != nil {
		return flat
	}
	return nested
}

func isNull(value json.RawMessage) bool { return value[0] == 'n' }

// stringsOf returns the strings of a value, which is valid JSON, in the order
// of the file: its own, or all within it but for keys.
func stringsOf(value json.RawMessage) []string {
	d := json.NewDecoder(bytes.NewReader(value))
	d.UseNumber()
	var all []string
	collect(d, &all)
	return all
}

func collect(d *json.Decoder, all *[]string) {
	t, err := d.Token()
	if err != nil {
		return
	}
	switch t := t.(type) {
	case string:
		*all = append(*all, t)
	case json.Delim:
		for d.More() {
			if t == '{' {
				d.Token()
			}
			collect(d, all)
		}
		d.Token()
	}
}

// isEmptyList tells whether a value is a list without elements.
func isEmptyList(value json.RawMessage) bool {
	return value[0] == '[' && bytes.TrimSpace(value[1:])[0] == ']'
}

// isIntegers tells whether a value is a list that begins with a number.
func isIntegers(value json.RawMessage) bool {
	if value[0] != '[' {
		return false
	}
	first := bytes.TrimSpace(value[1:])[0]
	return first == '-' || first >= '0' && first <= '9'
}

// integers reads a list of token ids.
func integers(value json.RawMessage) ([]int32, error) {
	var numbers []json.Number
	if value[0] != '[' || json.Unmarshal(value, &numbers) != nil {
		return nil, errors.New("not a list of token ids")
	}
	ids := make([]int32, len(numbers))
	for i, n := range numbers {
		id, err := n.Int64()
		if err != nil || id < 0 || id > math.MaxInt32 {
			return nil, fmt.Errorf("%q is not a token id", n.String())
		}
		ids[i] = int32(id)
	}
	return ids, nil
}
