package calib

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"exl2/internal/ordered"
)

// find returns the value of a field, or of a dotted path of fields.
func find(o ordered.Object, name string) (json.RawMessage, bool) {
	for _, f := range o {
		if f.Name == name {
			return f.Raw(), true
		}
	}
	for _, f := range o {
		rest, ok := strings.CutPrefix(name, f.Name+".")
		if !ok || f.Raw()[0] != '{' {
			continue
		}
		if inner, err := ordered.Parse(f.Raw()); err == nil {
			return find(inner, rest)
		}
	}
	return nil, false
}

func names(o ordered.Object) []string {
	list := make([]string, len(o))
	for i, f := range o {
		list[i] = f.Name
	}
	return list
}

// maxDepth bounds the nesting of values whose strings are taken: every level
// reads what is within it once more.
const maxDepth = 64

// A found is the strings of a record, and the columns that they are in. Both
// come in the order of the record, but behind them those that tell records
// apart.
type found struct {
	texts, identifiers []string
	columns, idColumns []string

	odd error // what is wrong with a record whose text is none, and which so has none
}

// all returns the strings in the order in which they are joined; nil if there
// are none.
func (f *found) all() []string { return append(f.texts, f.identifiers...) }

func (f *found) allColumns() []string { return append(f.columns, f.idColumns...) }

func (f *found) empty() bool { return f.texts == nil && f.identifiers == nil }

// column adds the strings of a column and tells whether it has any.
func (f *found) column(name string, value json.RawMessage) (bool, error) {
	texts, identifiers := len(f.texts), len(f.identifiers)
	if err := f.value(spot{name: name}, value); err != nil {
		return false, fmt.Errorf("column %q: %w", name, err)
	}
	switch {
	case len(f.texts) > texts:
		f.columns = append(f.columns, name)
	case len(f.identifiers) > identifiers:
		f.idColumns = append(f.idColumns, name)
	default:
		return false, nil
	}
	return true, nil
}

// A spot is where in a record a value is.
type spot struct {
	name      string // of the innermost field
	inMessage bool
	depth     int
}

// value adds the strings of a value, which is valid JSON: its own, or those
// within it but for names.
func (f *found) value(at spot, value json.RawMessage) error {
	if at.depth++; at.depth > maxDepth {
		return fmt.Errorf("nested more than %d levels deep", maxDepth)
	}
	switch value[0] {
	case '"':
		var text string
		if err := json.Unmarshal(value, &text); err != nil {
			return err
		}
		if isIdentifier(at.name) {
			f.identifiers = append(f.identifiers, text)
		} else {
			f.texts = append(f.texts, text)
		}
	case '[':
		var list []json.RawMessage
		if err := json.Unmarshal(value, &list); err != nil {
			return err
		}
		for _, element := range list {
			if err := f.value(at, element); err != nil {
				return err
			}
		}
	case '{':
		return f.object(at, value)
	}
	return nil
}

func (f *found) object(at spot, value json.RawMessage) error {
	o, err := ordered.Parse(value)
	if err != nil {
		return err
	}
	if fields := messageFields(names(o), at.inMessage); fields != nil {
		at.inMessage = true
		o = pick(o, fields)
	}
	for _, field := range o {
		at.name = field.Name
		if err := f.value(at, field.Raw()); err != nil {
			return err
		}
	}
	return nil
}

// pick returns the named fields, in the order of the names.
func pick(o ordered.Object, names []string) ordered.Object {
	var picked ordered.Object
	for _, name := range names {
		value, _ := o.Get(name)
		picked = append(picked, ordered.Field{Name: name, Value: value})
	}
	return picked
}

func isNull(value json.RawMessage) bool { return value[0] == 'n' }

func isNested(value json.RawMessage) bool { return value[0] == '[' || value[0] == '{' }

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
	var list []json.RawMessage
	if value[0] != '[' || json.Unmarshal(value, &list) != nil {
		return nil, errors.New("not a list of token ids")
	}
	ids := make([]int32, len(list))
	for i, text := range list {
		id, err := strconv.ParseInt(string(text), 10, 32)
		if err != nil || id < 0 {
			return nil, fmt.Errorf("%.40s is not a token id", text)
		}
		ids[i] = int32(id)
	}
	return ids, nil
}
