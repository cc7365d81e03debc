// Package ordered reads and writes JSON objects without changing the order of
// their fields, as encoding/json does with maps.
package ordered

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// An Object is a JSON object whose fields keep their order. Read from JSON, its
// values are json.RawMessage.
type Object []Field

// A Field is a name and its value.
type Field struct {
	Name  string
	Value any
}

// Get returns the value of a field, and whether there is one.
func (o Object) Get(name string) (any, bool) {
	for _, f := range o {
		if f.Name == name {
			return f.Value, true
		}
	}
	return nil, false
}

// Set replaces the value of a field, or adds the field at the end.
func (o *Object) Set(name string, value any) {
	for i := range *o {
		if (*o)[i].Name == name {
			(*o)[i].Value = value
			return
		}
	}
	*o = append(*o, Field{name, value})
}

// MarshalJSON writes the fields in order.
func (o Object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, f := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(f.Name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(f.Value)
		if err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// UnmarshalJSON reads the fields in order and refuses a repeated one.
func (o *Object) UnmarshalJSON(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return fmt.Errorf("want an object, have %.20s", data)
	}
	seen := map[string]bool{}
	for *o = (Object{}); d.More(); {
		name, err := d.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
		key, _ := name.(string)
		if seen[key] {
			return fmt.Errorf("%q stands there twice", key)
		}
		seen[key] = true
		*o = append(*o, Field{key, value})
	}
	return nil
}
