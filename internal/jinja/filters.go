package jinja

// filters are all of Jinja's by name, with transformers' tojson.
var filters map[string]*builtin

func init() { // some filters name others
	filters = merge(textFilters, htmlFilters, numberFilters, sequenceFilters, orderFilters, selectFilters, table(
		tojson,
		function("default", `value, default_value="", boolean=False`, defaultFilter),
		function("d", `value, default_value="", boolean=False`, defaultFilter),
		function("attr", "obj, name", func(m *machine, a []Value) Value {
			id := wantText("the name of attr()", a[1])
			if v, ok := m.own(a[0], id); ok {
				return v
			}
			return &Undefined{name: id, object: a[0], inside: true}
		}),
	))
}

func defaultFilter(m *machine, a []Value) Value {
	if _, ok := a[0].(*Undefined); ok || truth(a[2]) && !truth(a[0]) {
		return a[1]
	}
	return a[0]
}

// softText returns the text of any value; HTML stays what it is.
func (m *machine) softText(v Value) Value {
	if _, ok := textOf(v); ok {
		return v
	}
	return m.text(v)
}

// textMapping makes a filter that is a method of the value's text.
func textMapping(name string, f func(string) string) *builtin {
	return function(name, "s", func(m *machine, a []Value) Value {
		v := m.softText(a[0])
		s, _ := textOf(v)
		return sameKind(v, m.mapped(s, f))
	})
}

// lazy returns a generator of values that are computed when the first is asked
// for.
func lazy(f func() []Value) *Generator {
	var next iterator
	return &Generator{next: func() (Value, bool) {
		if next == nil {
			next = sliceIterator(f())
		}
		return next()
	}}
}
