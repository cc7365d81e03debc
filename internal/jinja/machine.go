package jinja

import "time"

// A machine renders one template once.
type machine struct {
	limits    Limits
	now       func() time.Time
	variables *Dict
	root      *frame
	out       *builder // of the body that runs
	escaping  bool     // in an autoescape block
	constant  bool     // in output without variables, where Jinja forgives a slice of what has none
	line      int      // that is being run

	steps, bytes, depth, calls int
}

// A frame holds the variables of a running scope.
type frame struct {
	parent *frame
	values map[string]Value
}

// notYet is the value of a variable that its scope sets later.
type notYet struct{}

// newFrame returns the frame of a scope that begins.
func (m *machine) newFrame(parent *frame, s *scope) *frame {
	f := &frame{parent: parent}
	if s != nil {
		m.step(len(s.unset))
		for _, id := range s.unset {
			f.set(id, notYet{})
		}
	}
	return f
}

func (f *frame) set(id string, v Value) {
	if f.values == nil {
		f.values = map[string]Value{}
	}
	f.values[id] = v
}

// lookup returns a variable of the frames, the caller's, or a function.
func (m *machine) lookup(f *frame, id string) Value {
	for ; f != nil; f = f.parent {
		if v, ok := f.values[id]; ok {
			if v == (notYet{}) {
				return &Undefined{name: id}
			}
			return v
		}
	}
	if v, ok := m.variables.Get(id); ok {
		return v
	}
	if g, ok := globals[id]; ok {
		return g
	}
	if id == "self" {
		return &Template{}
	}
	return &Undefined{name: id}
}

// eval computes an expression.
func (m *machine) eval(e expression, f *frame) Value {
	m.step(1)
	m.enter()
	v := e.eval(m, f)
	m.leave()
	return v
}

// body runs statements until one of them jumps.
func (m *machine) body(body []statement, f *frame) signal {
	m.enter()
	defer m.leave()
	for _, s := range body {
		m.step(1)
		if sig := s.run(m, f); sig != goOn {
			return sig
		}
	}
	return goOn
}

// captured runs statements and returns what they write.
func (m *machine) captured(body []statement, f *frame) (Value, signal) {
	outer := m.out
	m.out = &builder{m: m}
	sig := m.body(body, f)
	text := m.out.String()
	m.out = outer
	if m.escaping {
		return Markup(text), sig
	}
	return text, sig
}

// write adds to the output.
func (m *machine) write(s string) { m.out.write(s) }

// callFilter applies a filter by name.
func (m *machine) callFilter(id string, args []Value, named []Keyword) Value {
	b := filters[id]
	if b == nil {
		raiseMissing(RuntimeError, 0, "filter", id, "No filter named '"+id+"'.")
	}
	return m.callBuiltin(b, args, named)
}

// callTest applies a test by name.
func (m *machine) callTest(id string, args []Value, named []Keyword) bool {
	b := tests[id]
	if b == nil {
		raiseMissing(RuntimeError, 0, "test", id, "No test named '"+id+"'.")
	}
	return truth(m.callBuiltin(b, args, named))
}
