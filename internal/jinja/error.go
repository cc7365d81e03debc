package jinja

import (
	"errors"
	"fmt"
)

// ErrUnsupported is in the chain of every error about what a template uses and is not
// there: tags, filters, tests and functions that nobody knows, and what this package
// leaves out.
var ErrUnsupported = errors.New("not supported")

// A Kind is the class of an error, with the name that it has in Python.
type Kind string

// The kinds of errors. LimitError is ours: a rendering that would use too much
// of the machine. Unsupported is ours as well: what Python can do and this
// package does not.
const (
	SyntaxError    Kind = "TemplateSyntaxError"
	AssertionError Kind = "TemplateAssertionError"
	RuntimeError   Kind = "TemplateRuntimeError"
	UndefinedError Kind = "UndefinedError"
	SecurityError  Kind = "SecurityError"
	ArgumentError  Kind = "FilterArgumentError"
	RaisedError    Kind = "TemplateError" // by raise_exception
	TypeError      Kind = "TypeError"
	ValueError     Kind = "ValueError"
	DivisionError  Kind = "ZeroDivisionError"
	OverflowError  Kind = "OverflowError"
	LimitError     Kind = "LimitError"
	Unsupported    Kind = "Unsupported"
)

// An Error says what is wrong with a template, or with what it was given.
type Error struct {
	Template string // its name
	Line     int    // from 1
	Kind     Kind
	Message  string // as in Python, if it is Python's

	missing string // what the template uses and is not there
}

func (e *Error) Error() string {
	text := e.Message
	if e.missing != "" {
		text = e.missing
	}
	return fmt.Sprintf("%s: line %d: %s", e.Template, e.Line, text)
}

func (e *Error) Unwrap() error {
	if e.missing != "" || e.Kind == Unsupported {
		return ErrUnsupported
	}
	return nil
}

// failure is an error on its way up: parsing and rendering panic with it, and
// Parse and Render return it.
type failure struct {
	kind    Kind
	line    int // 0: where the machine is
	message string
	missing string // what the template uses and is not there, if that is the failure
}

// raise panics with a failure.
func raise(kind Kind, format string, args ...any) {
	panic(&failure{kind: kind, message: fmt.Sprintf(format, args...)})
}

// raiseMissing panics with a failure about something that is not there, as a filter; the
// message is Python's, the line 0 where the machine is.
func raiseMissing(kind Kind, line int, what, name, message string) {
	panic(&failure{kind: kind, line: line, message: message, missing: fmt.Sprintf("there is no %s %q", what, name)})
}

// recovered turns a failure into an error; other panics go on.
func recovered(err *error, name string, line *int) {
	switch r := recover().(type) {
	case nil:
	case *failure:
		at := r.line
		if at == 0 {
			at = *line
		}
		*err = &Error{Template: name, Line: max(at, 1), Kind: r.kind, Message: r.message, missing: r.missing}
	default:
		panic(r)
	}
}
