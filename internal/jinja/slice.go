package jinja

// slice is x[lo:hi:by]; None is a bound that is not given. Unlike an index out of
// range, a slice of what has none raises.
func (m *machine) slice(x Value, bounds [3]Value) Value {
	if u, ok := x.(*Undefined); ok {
		u.fail()
	}
	n, ok := length(x)
	switch x.(type) {
	case *Dict, *View, *Loop:
		raise(TypeError, "unhashable type: 'slice'")
	}
	if !ok {
		raise(TypeError, "'%s' object is not subscriptable", typeName(x))
	}
	text, _ := textOf(x)
	m.step(1 + len(text)/16)
	lo, hi, by := sliceBounds(bounds, n)
	if s, ok := textOf(x); ok {
		if by == 1 {
			return sameKind(x, runeSlice(s, lo, max(lo, hi)))
		}
		m.reserveTimes(4, n)
		runes := []rune(s)
		b := builder{m: m}
		b.grow(len(s))
		for i := lo; by > 0 && i < hi || by < 0 && i > hi; i += by {
			b.writeRune(runes[i])
		}
		return sameKind(x, b.String())
	}
	switch x := x.(type) {
	case *List:
		return &List{m.pick(x.items, lo, hi, by)}
	case *Tuple:
		return &Tuple{items: m.pick(x.items, lo, hi, by)}
	case *Range:
		return &Range{x.start + lo*x.step, x.start + hi*x.step, x.step * by}
	}
	raise(TypeError, "'%s' object is not subscriptable", typeName(x))
	return nil
}

// sliceable reports whether an object has slices and bounds are integers.
func sliceable(x Value, bounds [3]Value) bool {
	_, ok := length(x)
	for _, b := range bounds {
		_, is := intOf(b)
		ok = ok && (b == nil || is)
	}
	return ok
}

// pick returns every by-th element from lo to in front of hi.
func (m *machine) pick(items []Value, lo, hi, by int) []Value {
	if by == 1 {
		return items[lo:max(lo, hi):max(lo, hi)]
	}
	m.reserve(valueBytes * len(items))
	var list []Value
	for i := lo; by > 0 && i < hi || by < 0 && i > hi; i += by {
		list = append(list, items[i])
	}
	return list
}

// sliceBounds returns the bounds inside a sequence of n elements.
func sliceBounds(bounds [3]Value, n int) (lo, hi, by int) {
	by = 1
	if bounds[2] != nil {
		by = sliceIndex(bounds[2])
	}
	if by == 0 {
		raise(ValueError, "slice step cannot be zero")
	}
	least, most := 0, n
	lo, hi = 0, n
	if by < 0 {
		least, most = -1, n-1
		lo, hi = n-1, -1
	}
	clip := func(v Value, otherwise int) int {
		if v == nil {
			return otherwise
		}
		i := sliceIndex(v)
		if i < 0 {
			i += n
		}
		return max(least, min(i, most))
	}
	by = max(-n-1, min(by, n+1))
	return clip(bounds[0], lo), clip(bounds[1], hi), by
}

func sliceIndex(v Value) int {
	n, ok := intOf(v)
	if !ok {
		raise(TypeError, "slice indices must be integers or None or have an __index__ method")
	}
	return n
}
