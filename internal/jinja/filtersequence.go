package jinja

import "strings"

var sequenceFilters = table(
	function("length", "obj", func(m *machine, a []Value) Value { return m.length(a[0]) }),
	function("count", "obj", func(m *machine, a []Value) Value { return m.length(a[0]) }),
	function("list", "value", func(m *machine, a []Value) Value { return &List{m.list(a[0])} }),
	function("first", "seq", func(m *machine, a []Value) Value {
		if v, ok := m.iterate(a[0])(); ok {
			return v
		}
		return &Undefined{hint: "No first item, sequence was empty."}
	}),
	function("last", "seq", func(m *machine, a []Value) Value {
		if v, ok := m.backwards(a[0])(); ok {
			return v
		}
		return &Undefined{hint: "No last item, sequence was empty."}
	}),
	function("reverse", "value", func(m *machine, a []Value) Value {
		if s, ok := textOf(a[0]); ok {
			m.reserve(len(s))
			return sameKind(a[0], reversed(s))
		}
		if m.iterator(a[0]) == nil {
			raise(ArgumentError, "argument must be iterable")
		}
		if _, ok := a[0].(*Generator); ok {
			return &List{m.turned(a[0])}
		}
		kind := "reversed"
		if _, ok := a[0].(*List); ok {
			kind = "list_reverseiterator"
		}
		return &Generator{next: m.backwards(a[0]), kind: kind}
	}),
	function("random", "seq", func(m *machine, a []Value) Value {
		switch items := m.list(a[0]); len(items) {
		case 0:
			return &Undefined{hint: "No random item, sequence was empty."}
		case 1:
			return items[0]
		}
		raise(Unsupported, "the filter random: a prompt must be the same each time")
		return nil
	}),
	function("join", `value, d="", attribute=None`, func(m *machine, a []Value) Value {
		items := m.list(a[0])
		if a[2] != nil {
			get := m.getter(a[2], nil, false)
			for i, v := range items {
				items[i] = get(v)
			}
		}
		return m.join(m.text(a[1]), items)
	}),
	function("sum", "iterable, attribute=None, start=0", func(m *machine, a []Value) Value {
		get := m.getter(a[1], nil, false)
		sum := a[2]
		if _, ok := textOf(sum); ok {
			raise(TypeError, "sum() can't sum strings [use ''.join(seq) instead]")
		}
		for _, v := range m.list(a[0]) {
			sum = m.arithmetic("+", sum, get(v))
		}
		return sum
	}),
	function("items", "value", func(m *machine, a []Value) Value {
		return lazy(func() []Value {
			switch v := a[0].(type) {
			case *Undefined:
				return nil
			case *Dict:
				return m.list(&View{v, "items"})
			}
			raise(TypeError, "Can only get item pairs from a mapping.")
			return nil
		})
	}),
	function("batch", "value, linecount, fill_with=None", func(m *machine, a []Value) Value {
		return lazy(func() []Value { return m.batches(m.list(a[0]), wantInt(a[1]), a[2]) })
	}),
	function("slice", "value, slices, fill_with=None", func(m *machine, a []Value) Value {
		return lazy(func() []Value { return m.columns(m.list(a[0]), wantInt(a[1]), a[2]) })
	}),
	function("pprint", "value", func(m *machine, a []Value) Value {
		s := m.repr(m.sortedKeys(a[0]))
		if runeCount(s) > 80 || strings.Contains(s, "\\n") {
			raise(Unsupported, "the filter pprint for more than one line")
		}
		return s
	}),
)

// backwards returns the elements of a sequence from its last.
func (m *machine) backwards(v Value) iterator {
	switch v.(type) {
	case *Generator, *Loop:
		raise(TypeError, "'%s' object is not reversible", typeName(v))
	}
	return sliceIterator(m.turned(v))
}

func (m *machine) turned(v Value) []Value {
	items := m.list(v)
	for i, j := 0, len(items)-1; i < j; i, j = i+1, j-1 {
		items[i], items[j] = items[j], items[i]
	}
	return items
}

// batches cuts a list into pieces of n elements; of 0 or fewer the list is one, behind one of none.
func (m *machine) batches(items []Value, n int, fill Value) []Value {
	var list []Value
	if n == 0 && len(items) > 0 {
		list = append(list, &List{})
	}
	if n <= 0 {
		n = len(items)
	}
	m.reserveTimes(3*valueBytes, 1+len(items)/max(n, 1))
	for len(items) > 0 {
		k := min(n, len(items))
		piece := items[:k:k]
		if fill != nil && n > k {
			m.reserveTimes(valueBytes, n)
			piece = append(make([]Value, 0, n), piece...)
			for len(piece) < n {
				piece = append(piece, fill)
			}
		}
		list = append(list, &List{piece})
		items = items[k:]
	}
	return list
}

// columns cuts a list into n pieces, the first ones longer by one.
func (m *machine) columns(items []Value, n int, fill Value) []Value {
	if n == 0 {
		raise(DivisionError, "integer division or modulo by zero")
	}
	m.reserveTimes(4*valueBytes, n)
	m.step(max(n, 0))
	var list []Value
	size, longer := len(items)/max(n, 1), len(items)%max(n, 1)
	for i := range n {
		k := size
		if i < longer {
			k++
		}
		piece := append([]Value{}, items[:k]...)
		if fill != nil && i >= longer {
			piece = append(piece, fill)
		}
		list = append(list, &List{piece})
		items = items[k:]
	}
	return list
}

// sortedKeys returns a value with the keys of all dicts in order.
func (m *machine) sortedKeys(v Value) Value {
	m.step(1)
	m.enter()
	defer m.leave()
	all := func(items []Value) []Value {
		m.reserveTimes(valueBytes, len(items))
		list := make([]Value, len(items))
		for i, x := range items {
			list[i] = m.sortedKeys(x)
		}
		return list
	}
	switch v := v.(type) {
	case *List:
		return &List{all(v.items)}
	case *Tuple:
		return &Tuple{items: all(v.items)}
	case *Dict:
		d := &Dict{}
		for _, k := range m.sort(m.list(v), func(k Value) Value { return k }, false) {
			x, _ := m.find(v, k)
			m.set(d, k, m.sortedKeys(x))
		}
		return d
	}
	return v
}
