package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// fields reads the fields of one JSON object. Like bufio.Scanner it keeps its
// first error. Every field must be asked for: done refuses what is left, since
// a field that nobody understood may change ids.
type fields struct {
	path string // of the object in its file, for messages: "model", "decoder.decoders[2]"
	raw  map[string]json.RawMessage
	err  error
}

// newFields splits a JSON object into its fields.
func newFields(path string, data []byte) (*fields, error) {
	f := &fields{path: path}
	err := json.Unmarshal(data, &f.raw)
	if err == nil && f.raw == nil {
		err = errors.New("null, want an object")
	}
	if err != nil && path != "" {
		return nil, fmt.Errorf("%s: %w", path, jsonError(err))
	}
	return f, jsonError(err)
}

// jsonError shortens encoding/json's type errors to what a user can see in the file.
func jsonError(err error) error {
	if e, ok := err.(*json.UnmarshalTypeError); ok {
		return fmt.Errorf("have a JSON %s, want %s", e.Value, kindName(e.Type.String()))
	}
	return err
}

// kindName turns a Go type into the name of the JSON kind that it is read from.
func kindName(goType string) string {
	switch {
	case strings.HasPrefix(goType, "map"), strings.HasPrefix(goType, "struct"):
		return "an object"
	case strings.HasPrefix(goType, "["):
		return "a list"
	case goType == "string":
		return "a string"
	case goType == "bool":
		return "true or false"
	}
	return "a number in range (" + goType + ")"
}

// at names a field of the object; the path of a file's outermost object is empty.
func (f *fields) at(key string) string {
	if f.path == "" {
		return key
	}
	return f.path + "." + key
}

// fail keeps the first error.
func (f *fields) fail(key, format string, args ...any) {
	if f.err == nil {
		f.err = fmt.Errorf("%s: %w", f.at(key), fmt.Errorf(format, args...))
	}
}

// refuse keeps an error that says that a value is not supported.
func (f *fields) refuse(key, format string, args ...any) {
	f.fail(key, "%s: %w", fmt.Sprintf(format, args...), ErrUnsupported)
}

// take removes a field and returns its JSON, or nil if it is absent or null.
func (f *fields) take(key string) json.RawMessage {
	raw := f.raw[key]
	delete(f.raw, key)
	if bytes.Equal(raw, []byte("null")) {
		return nil
	}
	return raw
}

// need is take for a field that must be there.
func (f *fields) need(key string) json.RawMessage {
	raw := f.take(key)
	if raw == nil {
		f.fail(key, "missing")
	}
	return raw
}

// read decodes raw, the value of key, into v; nil leaves v as it is.
func (f *fields) read(key string, raw json.RawMessage, v any) {
	if raw == nil {
		return
	}
	if err := json.Unmarshal(raw, v); err != nil {
		f.fail(key, "%w", jsonError(err))
	}
}

// str returns a string field that must be there.
func (f *fields) str(key string) (s string) {
	f.read(key, f.need(key), &s)
	return s
}

// strOr returns a string field, or def.
func (f *fields) strOr(key, def string) string {
	f.read(key, f.take(key), &def)
	return def
}

// boolean returns a field that must be there.
func (f *fields) boolean(key string) (b bool) {
	f.read(key, f.need(key), &b)
	return b
}

// boolOr returns a field, or def.
func (f *fields) boolOr(key string, def bool) bool {
	f.read(key, f.take(key), &def)
	return def
}

// char returns a field of exactly one character.
func (f *fields) char(key string) rune {
	s := f.str(key)
	r, n := utf8.DecodeRuneInString(s)
	if f.err == nil && (n == 0 || n != len(s)) {
		f.fail(key, "%q is not one character", s)
	}
	return r
}

// choice returns the position of a string field in names; another value is refused.
func (f *fields) choice(key string, names ...string) int {
	s := f.str(key)
	i := slices.Index(names, s)
	if f.err == nil && i < 0 {
		f.refuse(key, "%q", s)
	}
	return max(i, 0)
}

// list returns the elements of a list field that must be there.
func (f *fields) list(key string) (list []json.RawMessage) {
	f.read(key, f.need(key), &list)
	return list
}

// ignore drops fields that do not change ids or text.
func (f *fields) ignore(keys ...string) {
	for _, k := range keys {
		delete(f.raw, k)
	}
}

// done returns the first error, or refuses the fields that nothing read.
func (f *fields) done() error {
	if f.err != nil || len(f.raw) == 0 {
		return f.err
	}
	var left []string
	for k, v := range f.raw {
		if !bytes.Equal(v, []byte("null")) {
			left = append(left, k)
		}
	}
	if len(left) == 0 {
		return nil
	}
	slices.Sort(left)
	return fmt.Errorf("%s: unknown field: %w", f.at(left[0]), ErrUnsupported)
}

// component reads the "type" of a component; the rest of its fields follow.
func component(path string, data []byte) (kind string, f *fields, err error) {
	f, err = newFields(path, data)
	if err != nil {
		return "", nil, err
	}
	kind = f.str("type")
	return kind, f, f.err
}

// unsupported refuses a component by the name of its type.
func unsupported(path, kind string) error {
	return fmt.Errorf("%s: type %q: %w", path, kind, ErrUnsupported)
}

// each reads the list field of a Sequence component with read, then checks
// that no other field is left.
func each[T any](f *fields, key string, read func(path string, data json.RawMessage) (T, error)) ([]T, error) {
	var out []T
	for i, raw := range f.list(key) {
		v, err := read(fmt.Sprintf("%s[%d]", f.at(key), i), raw)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, f.done()
}
