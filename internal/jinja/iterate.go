package jinja

import (
	"math/big"
	"unicode/utf8"
)

// An iterator returns the next value, or false at the end.
type iterator func() (Value, bool)

func sliceIterator(items []Value) iterator {
	i := 0
	return func() (Value, bool) {
		if i == len(items) {
			return nil, false
		}
		i++
		return items[i-1], true
	}
}

// iterate returns the elements of a value, or raises if it has none.
func (m *machine) iterate(v Value) iterator {
	next := m.iterator(v)
	if next == nil {
		raise(TypeError, "'%s' object is not iterable", typeName(v))
	}
	return func() (Value, bool) {
		m.step(1)
		return next()
	}
}

// iterator returns the elements of a value, or nil.
func (m *machine) iterator(v Value) iterator {
	switch v := v.(type) {
	case *List:
		return sliceIterator(v.items)
	case *Tuple:
		return sliceIterator(v.items)
	case string:
		return runeIterator(v)
	case Markup:
		return runeIterator(string(v))
	case *Undefined:
		return sliceIterator(nil)
	case *Dict:
		return v.iterator("keys")
	case *View:
		return v.dict.iterator(v.kind)
	case *Range:
		i, n := 0, v.length()
		return func() (Value, bool) {
			i++
			return v.start + (i-1)*v.step, i <= n
		}
	case *Generator:
		return func() (Value, bool) {
			m.enter()
			x, ok := v.next()
			m.leave()
			return x, ok
		}
	case *Loop:
		return func() (Value, bool) {
			if !v.advance() {
				return nil, false
			}
			return &Tuple{items: []Value{v.current, v}}, true
		}
	}
	return nil
}

// runeIterator returns the characters of a string. Those of HTML are plain.
func runeIterator(s string) iterator {
	return func() (Value, bool) {
		if s == "" {
			return nil, false
		}
		_, n := utf8.DecodeRuneInString(s)
		c := s[:n]
		s = s[n:]
		return c, true
	}
}

// iterator returns a dict's keys, values or items.
func (d *Dict) iterator(kind string) iterator {
	i := 0
	return func() (Value, bool) {
		if i >= len(d.entries) {
			return nil, false
		}
		e := d.entries[i]
		i++
		switch kind {
		case "keys":
			return e.key, true
		case "values":
			return e.value, true
		}
		return &Tuple{items: []Value{e.key, e.value}}, true
	}
}

// list returns the elements of a value.
func (m *machine) list(v Value) []Value {
	size, n := sizeOfElements(v)
	m.reserveTimes(size, n)
	items := make([]Value, 0, n)
	next := m.iterate(v)
	for x, ok := next(); ok; x, ok = next() {
		if len(items) >= n {
			m.reserve(2 * valueBytes) // where it grows, there are two of it
		}
		items = append(items, x)
	}
	return items
}

// sizeOfElements returns how many elements a value has, if it can be told before they are
// there, and what each costs.
func sizeOfElements(v Value) (size, n int) {
	size = valueBytes
	switch v := v.(type) {
	case *View:
		if v.kind == "items" {
			size = dictBytes
		}
	case string, Markup, *List, *Tuple, *Dict, *Range:
	default:
		return 0, 0
	}
	n, _ = length(v)
	return size, n
}

// generate returns a generator of the elements of v for which f returns true, as
// f returns them. Nothing happens before the first is asked for.
func (m *machine) generate(v Value, f func(Value) (Value, bool)) *Generator {
	var next iterator
	return &Generator{next: func() (Value, bool) {
		if next == nil {
			next = m.iterate(v)
		}
		for {
			x, ok := next()
			if !ok {
				return nil, false
			}
			if y, keep := f(x); keep {
				return y, true
			}
		}
	}}
}

// integer returns a big integer as a value.
func integer(b *big.Int) Value {
	if b.BitLen() < 63 {
		return int(b.Int64())
	}
	if b.BitLen() > maxBits {
		raise(LimitError, "an integer of more than %d bits", maxBits)
	}
	return b
}

// bigOf returns the integer that a value is, and whether it is one; bools are.
func bigOf(v Value) (*big.Int, bool) {
	switch v := v.(type) {
	case bool:
		if v {
			return big.NewInt(1), true
		}
		return new(big.Int), true
	case int:
		return big.NewInt(int64(v)), true
	case *big.Int:
		return v, true
	}
	return nil, false
}

// intOf returns a small integer, as an index or count is, and whether v is one.
// What is too large becomes as large as can be.
func intOf(v Value) (int, bool) {
	b, ok := bigOf(v)
	if !ok {
		return 0, false
	}
	const most = 1 << 60
	switch {
	case b.BitLen() < 61:
		return int(b.Int64()), true
	case b.Sign() < 0:
		return -most, true
	}
	return most, true
}

// wantInt returns the integer that an argument must be.
func wantInt(v Value) int {
	n, ok := intOf(v)
	if !ok {
		if u, is := v.(*Undefined); is {
			u.fail()
		}
		raise(TypeError, "'%s' object cannot be interpreted as an integer", typeName(v))
	}
	return n
}
