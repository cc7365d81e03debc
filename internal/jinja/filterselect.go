package jinja

var selectFilters = table(
	function("map", "value, *args, **kwargs", mapFilter),
	selecting("select", false, true), selecting("reject", false, false),
	selecting("selectattr", true, true), selecting("rejectattr", true, false),
)

// keywords returns a dict of arguments by name as a list.
func (m *machine) keywords(d *Dict) []Keyword {
	m.reserveTimes(valueBytes, len(d.entries))
	var list []Keyword
	for _, e := range d.entries {
		list = append(list, Keyword{e.key.(string), e.value})
	}
	return list
}

// with returns a value and the arguments behind it.
func (m *machine) with(first Value, args []Value) []Value {
	m.step(len(args))
	m.reserveTimes(valueBytes, len(args))
	return append([]Value{first}, args...)
}

// mapFilter applies a filter to every element, or reads an attribute.
func mapFilter(m *machine, a []Value) Value {
	args, named := a[1].(*Tuple).items, a[2].(*Dict)
	if !truth(a[0]) {
		return lazy(func() []Value { return nil })
	}
	var apply func(Value) Value
	prepare := func() {
		if attribute, ok := named.Get("attribute"); ok && len(args) == 0 {
			otherwise, _ := named.Get("default")
			for _, k := range m.keywords(named) {
				if k.Name != "attribute" && k.Name != "default" {
					raise(ArgumentError, "Unexpected keyword argument %s", repr(k.Name))
				}
			}
			apply = m.getter(attribute, otherwise, false)
			return
		}
		if len(args) == 0 {
			raise(ArgumentError, "map requires a filter argument")
		}
		id := wantText("the filter of map()", args[0])
		apply = func(v Value) Value {
			return m.callFilter(id, m.with(v, args[1:]), m.keywords(named))
		}
	}
	var next iterator
	return &Generator{next: func() (Value, bool) {
		if next == nil {
			prepare()
			next = m.iterate(a[0])
		}
		v, ok := next()
		if !ok {
			return nil, false
		}
		return apply(v), true
	}}
}

// selecting makes a filter that keeps the elements that pass a test, or fail it:
// the elements themselves or an attribute of theirs are tested. Without a test
// it is their truth.
func selecting(name string, attribute, keep bool) *builtin {
	return function(name, "value, *args, **kwargs", func(m *machine, a []Value) Value {
		args, named := a[1].(*Tuple).items, m.keywords(a[2].(*Dict))
		if !truth(a[0]) {
			return lazy(func() []Value { return nil })
		}
		var get func(Value) Value
		return m.generate(a[0], func(v Value) (Value, bool) {
			x, rest := v, args
			if attribute {
				if len(args) == 0 {
					raise(ArgumentError, "Missing parameter for attribute name")
				}
				if get == nil {
					get = m.getter(args[0], nil, false)
				}
				x, rest = get(v), args[1:]
			}
			passed := false
			if len(rest) == 0 {
				passed = truth(x)
			} else {
				passed = m.callTest(wantText("the test of "+name+"()", rest[0]), m.with(x, rest[1:]), named)
			}
			return v, passed == keep
		})
	})
}
