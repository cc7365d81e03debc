// Package jsonfields reads JSON objects of which every field must be understood.
package jsonfields

import (
	"bytes"
	"encoding/json"
	"errors"
	"exl2/internal/regular"
	"fmt"
	"slices"
	"unicode/utf8"
)

// ErrUnsupported marks a file that asks for something which is not implemented:
// guessing would give wrong ids.
var ErrUnsupported = errors.New("not supported")

// Fields reads the fields of one JSON object. Like bufio.Scanner it keeps its
// first error. Every field must be asked for: done refuses what is left, since
// a field that nobody understood may change ids.
type Fields struct {
	path string // of the object in its file, for messages: "model", "decoder.decoders[2]"
	raw  map[string]json.RawMessage
	err  error
}

// New splits a JSON object into its fields.
func New(path string, data []byte) (*Fields, error) {
	f := &Fields{path: path}
	err := json.Unmarshal(data, &f.raw)
	if err == nil && f.raw == nil {
		err = errors.New("null, want an object")
	}
	if err != nil && path != "" {
		return nil, fmt.Errorf("%s: %w", path, regular.InWords(err))
	}
	return f, regular.InWords(err)
}

// At names a field of the object; the path of a file's outermost object is empty.
func (f *Fields) At(key string) string {
	if f.path == "" {
		return key
	}
	return f.path + "." + key
}

// Fail keeps the first error.
func (f *Fields) Fail(key, format string, args ...any) {
	if f.err == nil {
		f.err = fmt.Errorf("%s: %w", f.At(key), fmt.Errorf(format, args...))
	}
}

// Refuse keeps an error that says that a value is not supported.
func (f *Fields) Refuse(key, format string, args ...any) {
	f.Fail(key, "%s: %w", fmt.Sprintf(format, args...), ErrUnsupported)
}

// Take removes a field and returns its JSON, or nil if it is absent or null.
func (f *Fields) Take(key string) json.RawMessage {
	raw := f.raw[key]
	delete(f.raw, key)
	if bytes.Equal(raw, []byte("null")) {
		return nil
	}
	return raw
}

// Need is take for a field that must be there.
func (f *Fields) Need(key string) json.RawMessage {
	raw := f.Take(key)
	if raw == nil {
		f.Fail(key, "missing")
	}
	return raw
}

// Read decodes raw, the value of key, into v; nil leaves v as it is.
func (f *Fields) Read(key string, raw json.RawMessage, v any) {
	if raw == nil {
		return
	}
	if err := regular.Unmarshal(raw, v); err != nil {
		f.Fail(key, "%w", err)
	}
}

// Str returns a string field that must be there.
func (f *Fields) Str(key string) (s string) {
	f.Read(key, f.Need(key), &s)
	return s
}

// StrOr returns a string field, or def.
func (f *Fields) StrOr(key, def string) string {
	f.Read(key, f.Take(key), &def)
	return def
}

// Bool returns a field that must be there.
func (f *Fields) Bool(key string) (b bool) {
	f.Read(key, f.Need(key), &b)
	return b
}

// BoolOr returns a field, or def.
func (f *Fields) BoolOr(key string, def bool) bool {
	f.Read(key, f.Take(key), &def)
	return def
}

// Char returns a field of exactly one character.
func (f *Fields) Char(key string) rune {
	s := f.Str(key)
	r, n := utf8.DecodeRuneInString(s)
	if f.err == nil && (n == 0 || n != len(s)) {
		f.Fail(key, "%q is not one character", s)
	}
	return r
}

// Choice returns the position of a string field in names; another value is refused.
func (f *Fields) Choice(key string, names ...string) int {
	s := f.Str(key)
	i := slices.Index(names, s)
	if f.err == nil && i < 0 {
		f.Refuse(key, "%q", s)
	}
	return max(i, 0)
}

// List returns the elements of a list field that must be there.
func (f *Fields) List(key string) (list []json.RawMessage) {
	f.Read(key, f.Need(key), &list)
	return list
}

// Ignore drops fields that do not change ids or text.
func (f *Fields) Ignore(keys ...string) {
	for _, k := range keys {
		delete(f.raw, k)
	}
}

// Done returns the first error, or refuses the fields that nothing read.
func (f *Fields) Done() error {
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
	return fmt.Errorf("%s: unknown field: %w", f.At(left[0]), ErrUnsupported)
}

// Component reads the "type" of a component; the rest of its fields follow.
func Component(path string, data []byte) (kind string, f *Fields, err error) {
	f, err = New(path, data)
	if err != nil {
		return "", nil, err
	}
	kind = f.Str("type")
	return kind, f, f.err
}

// Unsupported refuses a component by the name of its type.
func Unsupported(path, kind string) error {
	return fmt.Errorf("%s: type %q: %w", path, kind, ErrUnsupported)
}

// Each reads the list field of a Sequence component with read, then checks
// that no other field is left.
func Each[T any](f *Fields, key string, read func(path string, data json.RawMessage) (T, error)) ([]T, error) {
	var out []T
	for i, raw := range f.List(key) {
		v, err := read(fmt.Sprintf("%s[%d]", f.At(key), i), raw)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, f.Done()
}

// Err returns the first error.
func (f *Fields) Err() error { return f.err }

// Has reports whether a field that is not yet taken is there, null or not.
func (f *Fields) Has(key string) bool {
	_, ok := f.raw[key]
	return ok
}

// Raw returns the JSON of a field without removing it, nil if it is absent.
func (f *Fields) Raw(key string) json.RawMessage { return f.raw[key] }
