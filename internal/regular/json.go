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
	want, ok := map[reflect.Kind]string{
		reflect.Struct: "an object", reflect.Map: "an object", reflect.Slice: "a list", reflect.String: "a text", reflect.Bool: "true or false",
		reflect.Float64: "a number", reflect.Int: "a whole number", reflect.Int32: "a whole number",
	}[t.Type.Kind()]
	if !ok {
		return err
	}
	if t.Field == "" {
		return fmt.Errorf("have a JSON %s, want %s", t.Value, want)
	}
	return fmt.Errorf("%s: have a JSON %s, want %s", strings.TrimPrefix(t.Field, "."), t.Value, want)
}
