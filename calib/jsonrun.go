package calib

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// A run reads JSON objects one after another, on whatever lines: an object that is written
// over several of them, as programs print them for people, or several on one.
type run struct{ elements }

func newRun(text *io.SectionReader) *run { return &run{*newElements(text)} }

// startsAsRun reports whether a text begins with an object, and with another behind it or
// nothing: prose may begin with one, too.
func startsAsRun(text *io.SectionReader) bool {
	in := newRun(text)
	first, err := in.next()
	if err != nil || !isObject(first) {
		return false
	}
	b, err := in.token()
	return errors.Is(err, errCutOff) || err == nil && b == '{'
}

// next returns the text of an object.
func (r *run) next() ([]byte, error) {
	b, err := r.token()
	r.number++
	switch {
	case errors.Is(err, errCutOff):
		return nil, io.EOF
	case err != nil:
		return nil, err
	case b != '{':
		return nil, fmt.Errorf("not a JSON object: it begins with %q", b)
	}
	text, err := r.value(b)
	if errors.Is(err, errCutOff) {
		err = errors.New("a JSON object without an end")
	}
	return text, err
}

// checkNoList refuses a text that begins with a bracket if it is JSON all the same: lists,
// of numbers or whatever else, one or one after another. They hold no texts, and their
// digits and brackets are none.
func checkNoList(text *io.SectionReader) error {
	d := json.NewDecoder(fromStart(text))
	for n := range looked {
		err := skipList(d)
		if errors.Is(err, io.EOF) && n > 0 {
			break
		}
		if err != nil {
			return nil // it is no JSON
		}
	}
	return fmt.Errorf("JSON, %.60s: neither objects with a text nor texts; token ids are given as {\"input_ids\": [...]}, an object a line", listsOf(text))
}

// listsOf says what a list holds, as far as its beginning tells.
func listsOf(text *io.SectionReader) string {
	head := make([]byte, min(text.Size(), 1<<12))
	if _, err := text.ReadAt(head, 0); err != nil || len(bytes.TrimLeft(head, "["+space)) == 0 {
		return "lists"
	}
	return kindOf(bytes.TrimLeft(head, space))
}

// skipList reads a list to its end.
func skipList(d *json.Decoder) error {
	for depth := 0; ; {
		t, err := d.Token()
		if err != nil {
			return err
		}
		switch t {
		case json.Delim('['), json.Delim('{'):
			depth++
		case json.Delim(']'), json.Delim('}'):
			depth--
		}
		if depth == 0 && t != json.Delim(']') {
			return errors.New("no list")
		}
		if depth == 0 {
			return nil
		}
	}
}
