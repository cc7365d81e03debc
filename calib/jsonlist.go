package calib

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// An elements reads the elements of a JSON list, which is all of a text.
type elements struct {
	in     *bufio.Reader
	number int // of the last element, from 1
}

func newElements(text *io.SectionReader) *elements { return &elements{in: fromStart(text)} }

func (e *elements) at() int { return e.number }

// next returns the text of an element, which must be an object and is JSON if the list is.
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
	case b != '{':
		return nil, fmt.Errorf("not a JSON object: it begins with %q", b)
	}
	return e.object()
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

// object reads on behind the bracket that opens an object, to the one that closes it.
func (e *elements) object() ([]byte, error) {
	text, depth, inString := []byte{'{'}, 1, false
	for {
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
			if depth--; depth == 0 {
				return text, nil
			}
		}
		if len(text) > maxText {
			return nil, fmt.Errorf("over %d bytes", maxText)
		}
	}
}
