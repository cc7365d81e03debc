package regular

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"strings"

	"exl2/internal/ordered"
)

// maxJSON bounds the size of JSON files beside a model's weights.
const maxJSON = 16 << 20

// OptionalJSON reads a JSON file into v, which stays as it is if there is no such
// file.
func OptionalJSON(path string, v any) error {
	data, err := Read(path, maxJSON)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(ordered.FromPython(data, ordered.Tagged), v)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, InWords(err))
	}
	return nil
}

// InWords says of an error of encoding/json about types what a reader of the file can understand: which field, what is wanted.
func InWords(err error) error {
	var t *json.UnmarshalTypeError
	if !errors.As(err, &t) {
		return err
	}
	want := wanted(t.Type)
	if want == "" {
		return err
	}
	if t.Field == "" {
		return fmt.Errorf("have a JSON %s, want %s", t.Value, want)
	}
	return fmt.Errorf("%s: have a JSON %s, want %s", strings.TrimPrefix(t.Field, "."), t.Value, want)
}

// wanted returns the kind of JSON that a Go type is read from, or "".
func wanted(t reflect.Type) string {
	switch kind := t.Kind(); {
	case kind == reflect.Struct || kind == reflect.Map:
		return "an object"
	case kind == reflect.Slice || kind == reflect.Array:
		return "a list"
	case kind == reflect.String:
		return "a string"
	case kind == reflect.Bool:
		return "true or false"
	case reflect.Int <= kind && kind <= reflect.Uint64:
		return "a whole number in range (" + kind.String() + ")"
	case kind == reflect.Float32 || kind == reflect.Float64:
		return "a number"
	}
	return ""
}
