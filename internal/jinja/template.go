package jinja

import (
	"strings"
	"time"
)

// A Template is a template that has been read. It may be rendered by several
// goroutines at a time.
type Template struct {
	name  string
	body  []statement
	scope *scope
}

// Parse reads a template; the name is for messages. Errors are of type *Error.
func Parse(name, source string) (t *Template, err error) {
	if len(source) > maxSource {
		return nil, &Error{Template: name, Line: 1, Kind: LimitError, Message: "the template is longer than 4 MiB"}
	}
	line := 1
	defer recovered(&err, name, &line)
	p := &parser{tokens: lex(strings.ToValidUTF8(source, "\uFFFD")), blocks: map[string]bool{}}
	body := p.parse()
	return &Template{name, body, check(body)}, nil
}

// Options are what a rendering depends on besides its variables.
type Options struct {
	Now    func() time.Time // what strftime_now reads; nil is the clock
	Limits *Limits          // nil is DefaultLimits
}

// Render renders the template with variables. They win over the functions that
// templates know. Errors are of type *Error.
func (t *Template) Render(variables *Dict, o Options) (text string, err error) {
	m := &machine{limits: DefaultLimits, now: time.Now, variables: variables}
	m.out = &builder{m: m}
	if o.Now != nil {
		m.now = o.Now
	}
	if o.Limits != nil {
		m.limits = *o.Limits
	}
	defer recovered(&err, t.name, &m.line)
	m.root = m.newFrame(nil, t.scope)
	m.body(t.body, m.root)
	return m.out.String(), nil
}
