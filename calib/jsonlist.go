package calib

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
)

// An elements reads the elements of a JSON list, which is all of a text.
type elements struct {
	in     *bufio.Reader
	number int  // of the last element, from 1
	kind   byte // what the first one begins with, and all must
}

func newElements(text *io.SectionReader) *elements { return &elements{in: fromStart(text)} }

// startsAsList reports whether a text is a list of objects or strings, by the first of them.
func startsAsList(text *io.SectionReader) bool {
	in := newElements(text)
	first, err := in.next()
	return err == nil && isObject(first) && (!in.ofStrings() || in.goesOn())
}

func (e *elements) at() int { return e.number }

// next returns the text of an element, which is JSON if the list is: an object, or what an
// object would be whose text is the string that stands there.
func (e *elements) next() ([]byte, error) {
	first := e.number == 0
	e.number++
	if first {
		if _, err := e.token(); err != nil { // the bracket
			return nil, err
		}
	}
	b, err := e.token()
	switch {
	case err == nil && b == ']':
		return nil, e.end()
	case err == nil && !first:
		if b != ',' {
			return nil, fmt.Errorf("%q, want a comma or the end of the list", b)
		}
		b, err = e.token()
	}
	switch {
	case err != nil:
		return nil, err
	case first && (b == '{' || b == '"'):
		e.kind = b
	case first || b != e.kind:
		return nil, fmt.Errorf("not a JSON %s: it begins with %q", e.kindName(), b)
	}
	text, err := e.value(b)
	if e.ofStrings() {
		text = slices.Concat([]byte(`{"text":`), text, []byte("}"))
	}
	return text, err
}

func (e *elements) ofStrings() bool { return e.kind == '"' }

func (e *elements) kindName() string {
	if e.ofStrings() {
		return "string"
	}
	return "object"
}

// goesOn reports whether behind the element that was read last others follow, or
// the end: a text may begin with a bracket and a quotation, too, as a link in Markdown.
func (e *elements) goesOn() bool {
	b, err := e.token()
	return err == nil && (b == ',' || b == ']' && errors.Is(e.end(), io.EOF))
}

// token returns the next byte that is not white space.
func (e *elements) token() (byte, error) {
	for {
		b, err := e.in.ReadByte()
		if errors.Is(err, io.EOF) {
			err = errCutOff
		}
		if err != nil || bytes.IndexByte([]byte(space), b) < 0 {
			return b, err
		}
	}
}

// errCutOff is not io.EOF, which a reader of records would take for their end.
var errCutOff = errors.New("the list has no end")

// end makes sure that nothing stands behind the list, and returns io.EOF.
func (e *elements) end() error {
	b, err := e.token()
	switch {
	case err == nil:
		return fmt.Errorf("%q behind the end of the list", b)
	case errors.Is(err, errCutOff):
		return io.EOF
	}
	return err
}

// value reads on behind what opens an object or a string, to what closes it.
func (e *elements) value(opens byte) ([]byte, error) {
	text, depth, inString := []byte{opens}, 0, opens == '"'
	if opens == '{' {
		depth = 1
	}
	for depth > 0 || inString {
		b, err := e.in.ReadByte()
		if errors.Is(err, io.EOF) {
			err = errCutOff
		}
		if err != nil {
			return nil, err
		}
		text = append(text, b)
		switch {
		case inString && b == '\\':
			if next, err := e.in.ReadByte(); err == nil {
				text = append(text, next)
			}
		case b == '"':
			inString = !inString
		case !inString && (b == '{' || b == '['):
			depth++
		case !inString && (b == '}' || b == ']'):
			depth--
		}
		if len(text) > maxText {
			return nil, fmt.Errorf("over %d bytes", maxText)
		}
	}
	return text, nil
}
