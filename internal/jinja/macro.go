package jinja

import "slices"

// A Macro is a macro or the body of a call block, with the variables around it.
type Macro struct {
	*macro
	frame *frame
}

func (s *macro) run(m *machine, f *frame) signal {
	f.set(s.name, &Macro{s, f})
	return goOn
}

func (s *callBlock) run(m *machine, f *frame) signal {
	m.line = s.line
	caller := &Macro{s.body, f}
	if s.call == nil { // {% generation %}
		m.write(m.text(m.callMacro(caller, nil, nil)))
		return goOn
	}
	x := m.eval(s.call.x, f)
	args, named := m.arguments(s.call.args, f, nil)
	m.line = s.line
	v := m.call(x, args, append(named, Keyword{"caller", caller}))
	m.line = s.line
	if m.escaping {
		v = m.escape(v)
	}
	m.write(m.text(v))
	return goOn
}

// enterCall counts calls inside one another.
func (m *machine) enterCall() {
	if m.calls++; m.calls > m.limits.Calls {
		raise(LimitError, "macros and loops call one another more than %d deep", m.limits.Calls)
	}
}

// callMacro runs a macro's body and returns what it writes.
func (m *machine) callMacro(c *Macro, args []Value, named []Keyword) Value {
	f := m.newFrame(c.frame, c.inner)
	m.bindMacro(c, f, args, named)
	m.enterCall()
	text, _ := m.captured(c.body, f)
	m.calls--
	return text
}

// bindMacro sets a macro's parameters in its frame.
func (m *machine) bindMacro(c *Macro, f *frame, args []Value, named []Keyword) {
	m.step(len(c.parameters) * (2 + len(named)/8))
	count := min(len(args), len(c.parameters))
	given := map[string]bool{}
	for i, p := range c.parameters[:count] {
		f.set(p, args[i])
		given[p] = true
	}
	caller := Value(&Undefined{name: "caller", hint: "No caller defined"})
	kwargs := &Dict{}
	for _, k := range named {
		switch {
		case !given[k.Name] && slices.Contains(c.parameters, k.Name):
			f.set(k.Name, k.Value)
			given[k.Name] = true
		case k.Name == "caller" && c.caller && !slices.Contains(c.parameters, "caller"):
			caller = k.Value
		case c.kwargs:
			m.set(kwargs, k.Name, k.Value)
		case k.Name == "caller":
			raise(TypeError, "macro '%s' was invoked with two values for the special caller argument. This is most likely a bug.", c.name)
		default:
			raise(TypeError, "macro '%s' takes no keyword argument '%s'", c.name, k.Name)
		}
	}
	if len(args) > len(c.parameters) && !c.varargs {
		raise(TypeError, "macro '%s' takes not more than %d argument(s)", c.name, len(c.parameters))
	}
	for id, use := range map[string]bool{"caller": c.caller, "kwargs": c.kwargs, "varargs": c.varargs} {
		if !use || slices.Contains(c.parameters, id) {
			continue
		}
		f.set(id, map[string]Value{"caller": caller, "kwargs": kwargs, "varargs": &Tuple{items: args[count:]}}[id])
	}
	m.bindDefaults(c, f, given)
}

// bindDefaults computes the parameters that were not given, from the left. They may
// name those before them; one that names itself or a later one finds it undefined, and
// not a variable around the macro.
func (m *machine) bindDefaults(c *Macro, f *frame, given map[string]bool) {
	first := len(c.parameters) - len(c.defaults)
	for i, p := range c.parameters {
		switch {
		case given[p]:
		case i < first:
			f.set(p, &Undefined{name: p, hint: "parameter " + repr(p) + " was not provided"})
		default:
			f.set(p, &Undefined{name: p})
		}
	}
	for i, x := range c.defaults {
		if p := c.parameters[first+i]; !given[p] {
			f.set(p, m.eval(x, f))
		}
	}
}

// attribute returns one of the macro's own, or false.
func (c *Macro) attribute(id string) (Value, bool) {
	switch id {
	case "name":
		return c.name, true
	case "arguments":
		t := &Tuple{}
		for _, p := range c.parameters {
			t.items = append(t.items, p)
		}
		return t, true
	case "catch_kwargs":
		return c.kwargs, true
	case "catch_varargs":
		return c.varargs, true
	case "caller":
		return c.caller, true
	}
	return nil, false
}
