package jinja

import "fmt"

func (s text) run(m *machine, f *frame) signal {
	m.write(string(s))
	return goOn
}

func newOutput(x expression, line int) *output { return &output{x, isConstant(x), line} }

func (s *output) run(m *machine, f *frame) signal {
	m.line, m.constant = s.line, s.constant
	v := m.eval(s.x, f)
	m.line, m.constant = s.line, false
	if m.escaping {
		v = m.escape(v)
	}
	m.write(m.text(v))
	return goOn
}

func (s *conditional) run(m *machine, f *frame) signal {
	for i, t := range s.tests {
		m.line = s.line
		if truth(m.eval(t, f)) {
			return m.body(s.bodies[i], f)
		}
	}
	return m.body(s.other, f)
}

func (s *assignment) run(m *machine, f *frame) signal {
	m.line = s.line
	v := m.eval(s.value, f)
	m.line = s.line
	m.assign(s.target, v, f)
	return goOn
}

// assign gives a target its value.
func (m *machine) assign(target expression, v Value, f *frame) {
	switch t := target.(type) {
	case name:
		f.set(t.id, v)
	case *namespaceRef:
		ns, ok := m.lookup(f, t.id).(*Namespace)
		if !ok {
			m.line = t.line
			raise(RuntimeError, "cannot assign attribute on non-namespace object")
		}
		m.reserve(valueBytes)
		ns.attributes.Set(t.attribute, v)
	case tupleOf:
		for i, x := range m.unpack(v, len(t.items)) {
			m.assign(t.items[i], x, f)
		}
	}
}

// unpack returns the n elements of a value.
func (m *machine) unpack(v Value, n int) []Value {
	next := m.iterate(v)
	var items []Value
	for {
		x, ok := next()
		switch {
		case ok && len(items) == n:
			raise(ValueError, "too many values to unpack (expected %d)", n)
		case ok:
			items = append(items, x)
		case len(items) < n:
			raise(ValueError, "not enough values to unpack (expected %d, got %d)", n, len(items))
		default:
			return items
		}
	}
}

func (s *capture) run(m *machine, f *frame) signal {
	m.line = s.line
	inner := m.newFrame(f, s.inner)
	v, sig := m.captured(s.body, inner)
	if sig != goOn {
		return sig
	}
	if s.filter != nil {
		v = m.filtered(s.filter, v, inner)
	}
	m.line = s.line
	m.assign(s.target, v, f)
	return goOn
}

// filtered applies a block's filters to what the block has written.
func (m *machine) filtered(e expression, v Value, f *frame) Value {
	x := e.(*filter)
	if x.x != nil {
		v = m.filtered(x.x, v, f)
	}
	return x.apply(m, f, v)
}

func (s *filterBlock) run(m *machine, f *frame) signal {
	inner := m.newFrame(f, s.inner)
	v, sig := m.captured(s.body, inner)
	if sig != goOn {
		return sig
	}
	v = m.filtered(s.filter, v, inner)
	text, ok := textOf(v)
	if !ok {
		m.line = s.line
		raise(TypeError, "the filter of a block gives a %s, want a string", typeName(v))
	}
	m.write(text)
	return goOn
}

func (s *with) run(m *machine, f *frame) signal {
	m.line = s.line
	inner := m.newFrame(f, s.inner)
	for i, v := range s.values {
		m.assign(s.targets[i], m.eval(v, f), inner)
	}
	return m.body(s.body, inner)
}

func (s *autoescape) run(m *machine, f *frame) signal {
	m.line = s.line
	outer := m.escaping
	m.escaping = truth(m.eval(s.value, f))
	sig := m.body(s.body, m.newFrame(f, s.inner))
	m.escaping = outer
	return sig
}

func (s *block) run(m *machine, f *frame) signal {
	return m.body(s.body, m.newFrame(m.root, s.inner))
}

func (s *jump) run(m *machine, f *frame) signal { return s.to }

func (s *foreign) run(m *machine, f *frame) signal {
	panic(&failure{kind: Unsupported, line: s.line, message: fmt.Sprintf("{%% %s %%} needs another template, of which a chat template has none", s.tag)})
}
