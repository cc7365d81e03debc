package regular

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"reflect"
	"slices"
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
		err = Unmarshal(ordered.FromPython(data, ordered.Tagged), v)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// Unmarshal is json.Unmarshal for what other programs write. Fields of structs have the names in
// their tags to the letter, as in Python: one in other case is another field. Errors say in words
// which field has what, and what is wanted.
func Unmarshal(data []byte, v any) error { return fill("", data, reflect.ValueOf(v).Elem()) }

// fill reads what stands at a path of the text.
func fill(path string, data []byte, v reflect.Value) error {
	target := v.Addr().Interface()
	_, own := target.(json.Unmarshaler)
	switch kind := v.Kind(); {
	case own, string(data) == "null":
	case kind == reflect.Struct:
		return fillStruct(path, data, v)
	case kind == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct:
		return fillList(path, data, v)
	case kind == reflect.Map && v.Type().Elem().Kind() == reflect.Struct:
		return fillMap(path, data, v)
	case kind == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return fill(path, data, v.Elem())
	case ordered.Number(data) != "" && wanted(v.Type()) != "":
		return at(path, fmt.Errorf("have %s, want %s", ordered.Number(data), wanted(v.Type())))
	}
	return at(path, InWords(json.Unmarshal(data, target)))
}

// fillStruct reads the fields of an object.
func fillStruct(path string, data []byte, v reflect.Value) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return at(path, InWords(err))
	}
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		value, there := fields[name]
		if name == "" || !there {
			continue
		}
		if err := fill(within(path, name), value, v.Field(i)); err != nil {
			return err
		}
	}
	return nil
}

// fillList reads the objects of a list.
func fillList(path string, data []byte, v reflect.Value) error {
	var list []json.RawMessage
	if err := json.Unmarshal(data, &list); err != nil {
		return at(path, InWords(err))
	}
	v.Set(reflect.MakeSlice(v.Type(), len(list), len(list)))
	for i, value := range list {
		if err := fill(fmt.Sprintf("%s[%d]", path, i), value, v.Index(i)); err != nil {
			return err
		}
	}
	return nil
}

// fillMap reads the objects that an object has by name.
func fillMap(path string, data []byte, v reflect.Value) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return at(path, InWords(err))
	}
	v.Set(reflect.MakeMap(v.Type()))
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		element := reflect.New(v.Type().Elem()).Elem()
		if err := fill(within(path, name), fields[name], element); err != nil {
			return err
		}
		v.SetMapIndex(reflect.ValueOf(name), element)
	}
	return nil
}

// within names a field of the object at a path.
func within(path, name string) string { return strings.TrimPrefix(path+"."+name, ".") }

// at names the field that an error is about; that of the whole text has no name.
func at(path string, err error) error {
	if err == nil || path == "" {
		return err
	}
	return fmt.Errorf("%s: %w", path, err)
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
