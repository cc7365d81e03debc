package jinja

// globals are the functions that templates have.
var globals = map[string]Value{}

func init() {
	for _, b := range []*builtin{
		function("range", "start, *more", rangeFunction),
		function("dict", "*args, **kwargs", func(m *machine, a []Value) Value { return m.dict("dict", a) }),
		function("namespace", "*args, **kwargs", func(m *machine, a []Value) Value { return &Namespace{m.dict("namespace", a)} }),
		function("cycler", "*items", func(m *machine, a []Value) Value {
			items := a[0].(*Tuple).items
			if len(items) == 0 {
				raise(RuntimeError, "at least one item has to be provided")
			}
			return &Cycler{items: items}
		}),
		function("joiner", `sep="\x2c "`, func(m *machine, a []Value) Value {
			used := false
			return &Function{function("joiner", "", func(m *machine, _ []Value) Value {
				if used {
					return a[0]
				}
				used = true
				return ""
			}), nil}
		}),
		function("lipsum", "*args, **kwargs", func(m *machine, a []Value) Value {
			raise(Unsupported, "lipsum(): a prompt must be the same each time")
			return nil
		}),
		function("raise_exception", "message", func(m *machine, a []Value) Value {
			raise(RaisedError, "%s", m.text(a[0]))
			return nil
		}),
		function("strftime_now", "format", func(m *machine, a []Value) Value {
			f, ok := textOf(a[0])
			if !ok {
				raise(TypeError, "strftime() argument 1 must be str, not %s", typeName(a[0]))
			}
			return m.strftime(f, m.now())
		}),
	} {
		globals[b.name] = &Function{b, nil}
	}
}

// mostInRange bounds the numbers of a range, so that sums of them do not overflow.
const mostInRange = 1 << 40

func rangeFunction(m *machine, a []Value) Value {
	more := a[1].(*Tuple).items
	r := &Range{0, wantInt(a[0]), 1}
	if len(more) > 0 {
		r.start, r.stop = r.stop, wantInt(more[0])
	}
	if len(more) > 1 {
		r.step = wantInt(more[1])
	}
	if len(more) > 2 {
		raise(TypeError, "range expected at most 3 arguments, got %d", 1+len(more))
	}
	if r.step == 0 {
		raise(ValueError, "range() arg 3 must not be zero")
	}
	for _, n := range []int{r.start, r.stop, r.step} {
		if n > mostInRange || n < -mostInRange {
			raise(OverflowError, "range() of a number over %d", mostInRange)
		}
	}
	if r.length() > maxRange {
		raise(OverflowError, "Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).", maxRange)
	}
	return r
}

// dict is Python's dict(): of another, or of pairs, and of arguments by name.
func (m *machine) dict(what string, a []Value) *Dict {
	args, named := a[0].(*Tuple).items, a[1].(*Dict)
	d := &Dict{}
	if len(args) > 1 {
		raise(TypeError, "%s expected at most 1 argument, got %d", what, len(args))
	}
	if len(args) == 1 {
		of, ok := args[0].(*Dict)
		if ok {
			m.reserveTimes(dictBytes, len(of.entries))
			d = of.Copy()
		} else {
			for _, p := range m.list(args[0]) {
				kv := m.unpack(p, 2)
				m.set(d, kv[0], kv[1])
			}
		}
	}
	for _, e := range named.entries {
		m.set(d, e.key, e.value)
	}
	return d
}
