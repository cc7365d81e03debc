// Package ordered reads and writes JSON objects without changing the order of
// their fields, as encoding/json does with maps.
package ordered

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// An Object is a JSON object whose fields keep their order. Read from JSON, its
// values are json.RawMessage.
type Object []Field

// A Field is a name and its value.
type Field struct {
	Name  string
	Value any
}

// Raw returns a value that was read from JSON, without white space around it.
func (f Field) Raw() json.RawMessage { return f.Value.(json.RawMessage) }

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
func (o *Object) UnmarshalJSON(data []byte) (err error) {
	*o, err = parse(data, func(*Field, json.RawMessage) error { return errors.New("stands there twice") })
	return err
}

// Parse reads text that must be one object and nothing else. Of a field that
// stands twice the last value counts, as in most other programs.
func Parse(text []byte) (Object, error) {
	return parse(text, func(old *Field, value json.RawMessage) error {
		old.Value = value
		return nil
	})
}

// parse reads an object and calls again for a field that is there already.
func parse(text []byte, again func(old *Field, value json.RawMessage) error) (Object, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, fmt.Errorf("not a JSON object: %.20q", text)
	}
	o, places := Object{}, map[string]int{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("not a JSON object: %w", cutShort(err))
		}
		name := key.(string) // objects have no other keys
		var value json.RawMessage
		err = d.Decode(&value)
		if i, twice := places[name]; err == nil && twice {
			err = again(&o[i], value)
		} else {
			places[name] = len(o)
			o = append(o, Field{name, value})
		}
		if err != nil {
			return nil, fmt.Errorf("%.100q: %w", name, cutShort(err))
		}
	}
	if _, err := d.Token(); err != nil {
		return nil, errors.New("a JSON object without an end")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("text after the JSON object")
	}
	return o, nil
}

// cutShort is err, but never io.EOF, which a reader of many objects would take
// for its own end.
func cutShort(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
