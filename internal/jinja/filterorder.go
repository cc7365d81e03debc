package jinja

import (
	"strconv"
	"strings"
)

var orderFilters = table(
	function("sort", "value, reverse=False, case_sensitive=False, attribute=None", func(m *machine, a []Value) Value {
		var getters []func(Value) Value
		if s, ok := textOf(a[3]); ok {
			m.reserveTimes(4*valueBytes, 1+strings.Count(s, ","))
			for _, part := range strings.Split(s, ",") {
				getters = append(getters, m.getter(part, nil, !truth(a[2])))
			}
		} else {
			getters = append(getters, m.getter(a[3], nil, !truth(a[2])))
		}
		key := func(v Value) Value {
			m.reserveTimes(valueBytes, 1+len(getters))
			k := &List{}
			for _, get := range getters {
				k.items = append(k.items, get(v))
			}
			return k
		}
		return &List{m.sort(m.list(a[0]), key, truth(a[1]))}
	}),
	function("dictsort", `value, case_sensitive=False, by="key", reverse=False`, func(m *machine, a []Value) Value {
		at := 0
		switch by, _ := textOf(a[2]); by {
		case "key":
		case "value":
			at = 1
		default:
			raise(ArgumentError, `You can only sort by either "key" or "value"`)
		}
		d, ok := a[0].(*Dict)
		if !ok {
			if u, is := a[0].(*Undefined); is {
				u.fail()
			}
			raise(TypeError, "'%s' object has no attribute 'items'", typeName(a[0]))
		}
		key := func(v Value) Value { return m.folded(v.(*Tuple).items[at], !truth(a[1])) }
		return &List{m.sort(m.list(&View{d, "items"}), key, truth(a[3]))}
	}),
	function("unique", "value, case_sensitive=False, attribute=None", func(m *machine, a []Value) Value {
		get := m.getter(a[2], nil, !truth(a[1]))
		seen := map[any]bool{}
		return m.generate(a[0], func(v Value) (Value, bool) {
			key := m.hash(get(v))
			if seen[key] {
				return nil, false
			}
			m.reserve(dictBytes)
			seen[key] = true
			return v, true
		})
	}),
	function("min", "value, case_sensitive=False, attribute=None", func(m *machine, a []Value) Value {
		return m.extreme(a, "<", -1)
	}),
	function("max", "value, case_sensitive=False, attribute=None", func(m *machine, a []Value) Value {
		return m.extreme(a, ">", 1)
	}),
	function("groupby", "value, attribute, default=None, case_sensitive=False", groupBy),
)

// folded returns a text in lower case if case does not matter.
func (m *machine) folded(v Value, fold bool) Value {
	if s, ok := textOf(v); ok && fold {
		return m.mapped(s, lower)
	}
	return v
}

// getter returns a function that reads an attribute, as "a.b.0" or 1; None is the
// value itself. A default stands for what is undefined.
func (m *machine) getter(attribute, otherwise Value, fold bool) func(Value) Value {
	var path []Value
	switch at := attribute.(type) {
	case nil:
	case string:
		m.reserve(len(at))
		m.reserveTimes(2*valueBytes, 1+strings.Count(at, "."))
		for _, part := range strings.Split(at, ".") {
			if n, err := strconv.Atoi(part); err == nil && n >= 0 {
				path = append(path, n)
			} else {
				path = append(path, part)
			}
		}
	default:
		path = []Value{at}
	}
	return func(v Value) Value {
		for _, part := range path {
			m.step(1)
			v = m.item(v, part)
			if _, ok := v.(*Undefined); ok && otherwise != nil {
				v = otherwise
			}
		}
		return m.folded(v, fold)
	}
}

// extreme returns the first of the smallest or largest elements.
func (m *machine) extreme(a []Value, op string, want int) Value {
	get := m.getter(a[2], nil, !truth(a[1]))
	items := m.list(a[0])
	if len(items) == 0 {
		return &Undefined{hint: "No aggregated item, sequence was empty."}
	}
	best, key := items[0], get(items[0])
	for _, v := range items[1:] {
		if k := get(v); m.order(op, k, key) == want {
			best, key = v, k
		}
	}
	return best
}

// groupBy sorts by an attribute and returns pairs of its value and the elements
// that have it.
func groupBy(m *machine, a []Value) Value {
	get := m.getter(a[1], a[2], !truth(a[3]))
	shown := m.getter(a[1], a[2], false)
	groups := &List{}
	var last Value
	for i, v := range m.sort(m.list(a[0]), get, false) {
		key := get(v)
		if i == 0 || !m.equal(key, last) {
			m.reserve(4 * valueBytes)
			groups.items = append(groups.items, &Tuple{items: []Value{shown(v), &List{}}, names: []string{"grouper", "list"}})
		}
		last = key
		group := groups.items[len(groups.items)-1].(*Tuple).items[1].(*List)
		group.items = append(group.items, v)
	}
	return groups
}
