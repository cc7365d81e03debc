package calib

import (
	"encoding/json"

	"exl2/internal/ordered"
)

// texts returns the strings of a record's text, none if it is null. Records
// need not be alike: each is looked at by the rules of Open.
func (j *jsonRecords) texts(o ordered.Object) (*found, error) {
	if j.column != "" {
		return namedText(o, j.column)
	}
	f := new(found)
	for _, name := range textColumns {
		value, ok := find(o, name)
		if !ok {
			continue
		}
		has, err := f.column(name, value)
		if err != nil || has || isNull(value) {
			return f, err
		}
		if f.odd == nil && !isMissing(value) {
			f.odd = notText(name, kindOf(value))
		}
	}
	for _, names := range chatColumns {
		if hasChat(o, names[0]) {
			return f, f.chat(o, names)
		}
	}
	if f.odd != nil {
		return f, nil
	}
	for _, field := range o {
		if _, err := f.column(field.Name, field.Raw()); err != nil {
			return f, err
		}
	}
	if ids, ok := o.Get(idsColumn); ok && isNumbers(ids.(json.RawMessage)) {
		return f, neither(idsColumn, kindOf(ids.(json.RawMessage)))
	}
	return f, nil
}

func namedText(o ordered.Object, name string) (*found, error) {
	f := new(found)
	value, ok := find(o, name)
	if !ok || isNull(value) {
		return f, nil
	}
	has, err := f.column(name, value)
	if err == nil && !has && (!isNested(value) || isNumbers(value)) {
		err = neither(name, kindOf(value))
	}
	return f, err
}

// hasChat tells whether a record has a conversation, if only an empty one. A
// prompt is one only if it is nested.
func hasChat(o ordered.Object, name string) bool {
	value, ok := o.Get(name)
	return ok && (isNested(value.(json.RawMessage)) || isNull(value.(json.RawMessage)) && name != "prompt")
}

// chat adds those of the named columns that are nested.
func (f *found) chat(o ordered.Object, names []string) error {
	for _, name := range names {
		value, ok := o.Get(name)
		if !ok || !isNested(value.(json.RawMessage)) {
			continue
		}
		if _, err := f.column(name, value.(json.RawMessage)); err != nil {
			return err
		}
	}
	return nil
}
