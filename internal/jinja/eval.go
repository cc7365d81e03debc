package jinja

import (
	"fmt"
	"strings"
)

func (e constant) eval(*machine, *frame) Value { return e.value }

func (e name) eval(m *machine, f *frame) Value { return m.lookup(f, e.id) }

func (e namespaceRef) eval(m *machine, f *frame) Value { return m.lookup(f, e.id) }

// all computes expressions.
func (m *machine) all(list []expression, f *frame) []Value {
	m.reserve(valueBytes * len(list))
	values := make([]Value, len(list))
	for i, e := range list {
		values[i] = m.eval(e, f)
	}
	return values
}

func (e tupleOf) eval(m *machine, f *frame) Value { return &Tuple{items: m.all(e.items, f)} }

func (e listOf) eval(m *machine, f *frame) Value { return &List{m.all(e.items, f)} }

func (e *dictOf) eval(m *machine, f *frame) Value {
	d := &Dict{}
	for i, k := range e.keys {
		key := m.eval(k, f)
		value := m.eval(e.values[i], f)
		m.line = e.line
		m.set(d, key, value)
	}
	return d
}

func (e *logic) eval(m *machine, f *frame) Value {
	v := m.eval(e.left, f)
	if truth(v) != e.and {
		return v
	}
	return m.eval(e.right, f)
}

func (e *not) eval(m *machine, f *frame) Value { return !truth(m.eval(e.x, f)) }

func (e *unary) eval(m *machine, f *frame) Value {
	v := m.eval(e.x, f)
	m.line = e.line
	return m.sign(e.op, v)
}

func (e *binary) eval(m *machine, f *frame) Value {
	left := m.eval(e.left, f)
	right := m.eval(e.right, f)
	m.line = e.line
	return m.arithmetic(e.op, left, right)
}

func (e *comparison) eval(m *machine, f *frame) Value {
	left := m.eval(e.first, f)
	for i, op := range e.ops {
		right := m.eval(e.rest[i], f)
		m.line = e.line
		if !m.compare(op, left, right) {
			return false
		}
		left = right
	}
	return true
}

func (e concat) eval(m *machine, f *frame) Value {
	return m.join("", m.all(e.items, f))
}

// join puts values together as text; in an autoescape block each is escaped.
func (m *machine) join(separator string, values []Value) Value {
	escaped := false
	for _, v := range values {
		_, is := v.(Markup)
		escaped = escaped || is
	}
	if !m.escaping || !escaped {
		return m.joined(separator, m.textsOf(values, m.text))
	}
	return Markup(m.joined(separator, m.textsOf(values, func(v Value) string { return string(m.escape(v)) })))
}

// textsOf returns the texts of values.
func (m *machine) textsOf(values []Value, text func(Value) string) []string {
	m.step(len(values))
	m.reserveTimes(valueBytes, len(values))
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = text(v)
	}
	return texts
}

// joined returns texts with a separator between them.
func (m *machine) joined(separator string, texts []string) string {
	if len(texts) == 0 {
		return ""
	}
	m.reserveTimes(len(separator), len(texts)-1)
	for _, s := range texts {
		m.reserve(len(s))
	}
	return strings.Join(texts, separator)
}

func (e *choice) eval(m *machine, f *frame) Value {
	switch {
	case truth(m.eval(e.test, f)):
		return m.eval(e.yes, f)
	case e.no != nil:
		return m.eval(e.no, f)
	}
	return &Undefined{hint: fmt.Sprintf("the inline if-expression on line %d evaluated to false and no else section was defined.", e.line)}
}

func (e *attribute) eval(m *machine, f *frame) Value {
	x := m.eval(e.x, f)
	m.line = e.line
	return m.attribute(x, e.name)
}

func (e *item) eval(m *machine, f *frame) Value {
	x := m.eval(e.x, f)
	index := m.eval(e.index, f)
	m.line = e.line
	return m.item(x, index)
}

func (e *slicing) eval(m *machine, f *frame) Value {
	x := m.eval(e.x, f)
	var bounds [3]Value
	for i, b := range []expression{e.lo, e.hi, e.by} {
		if b != nil {
			bounds[i] = m.eval(b, f)
		}
	}
	m.line = e.line
	if m.constant && !sliceable(x, bounds) {
		return &Undefined{name: "slice", object: x, inside: true}
	}
	return m.slice(x, bounds)
}

// isConstant reports whether an expression has no variables.
func isConstant(e expression) bool {
	switch e.(type) {
	case name, namespaceRef, *call:
		return false
	}
	for _, part := range e.parts() {
		if part != nil && !isConstant(part) {
			return false
		}
	}
	return true
}

func (e *call) eval(m *machine, f *frame) Value {
	x := m.eval(e.x, f)
	args, named := m.arguments(e.args, f, nil)
	m.line = e.line
	v := m.call(x, args, named)
	m.line = e.line
	return v
}

func (e *filter) eval(m *machine, f *frame) Value { return e.apply(m, f, m.eval(e.x, f)) }

// apply filters a value.
func (e *filter) apply(m *machine, f *frame, v Value) Value {
	args, named := m.arguments(e.args, f, []Value{v})
	m.line = e.line
	if filters[e.name] == nil {
		raiseMissing(RuntimeError, 0, "filter", e.name, "No filter named '"+e.name+"' found.")
	}
	v = m.callFilter(e.name, args, named)
	m.line = e.line
	return v
}

func (e *test) eval(m *machine, f *frame) Value {
	args, named := m.arguments(e.args, f, []Value{m.eval(e.x, f)})
	m.line = e.line
	if tests[e.name] == nil {
		raiseMissing(RuntimeError, 0, "test", e.name, "No test named '"+e.name+"' found.")
	}
	return m.callTest(e.name, args, named)
}

// arguments computes those of a call behind the first ones.
func (m *machine) arguments(a arguments, f *frame, first []Value) (args []Value, named []Keyword) {
	args = append(first, m.all(a.positional, f)...)
	for i, e := range a.named {
		named = append(named, Keyword{a.names[i], m.eval(e, f)})
	}
	if a.star != nil {
		next := m.iterate(m.eval(a.star, f))
		for v, ok := next(); ok; v, ok = next() {
			m.reserve(valueBytes)
			args = append(args, v)
		}
	}
	if a.stars != nil {
		d, ok := m.eval(a.stars, f).(*Dict)
		if !ok {
			raise(TypeError, "what follows ** in a call must be a mapping")
		}
		m.step(len(d.entries))
		m.reserveTimes(valueBytes, len(d.entries))
		for _, e := range d.entries {
			key, ok := textOf(e.key)
			if !ok {
				raise(TypeError, "keywords must be strings")
			}
			named = append(named, Keyword{key, e.value})
		}
	}
	return args, named
}
