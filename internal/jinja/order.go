package jinja

import (
	"math"
	"math/big"
	"sort"
	"strings"
)

// compare applies a comparison operator.
func (m *machine) compare(op string, left, right Value) bool {
	switch op {
	case "==":
		return m.equal(left, right)
	case "!=":
		return !m.equal(left, right)
	case "in":
		return m.contains(right, left)
	case "not in":
		return !m.contains(right, left)
	}
	for _, v := range []Value{left, right} {
		if u, ok := v.(*Undefined); ok {
			u.fail()
		}
	}
	switch op {
	case "<":
		return m.order(op, left, right) < 0
	case "<=":
		return m.order(op, left, right) <= 0
	case ">":
		return m.order(op, left, right) == 1
	}
	n := m.order(op, left, right)
	return n == 0 || n == 1
}

// equal reports whether values are equal in Python.
func (m *machine) equal(a, b Value) bool {
	m.step(1 + pairSize(a, b)/64)
	if x, ok := textOf(a); ok {
		y, ok := textOf(b)
		return ok && x == y
	}
	if isNumber(a) && isNumber(b) {
		return orderNumbers(a, b) == 0
	}
	switch a := a.(type) {
	case *List:
		b, ok := b.(*List)
		return ok && m.equalItems(a.items, b.items)
	case *Tuple:
		b, ok := b.(*Tuple)
		return ok && m.equalItems(a.items, b.items)
	case *Dict:
		b, ok := b.(*Dict)
		return ok && m.equalDicts(a, b)
	case *Range:
		b, ok := b.(*Range)
		return ok && equalRanges(a, b)
	case *Undefined:
		_, ok := b.(*Undefined)
		return ok
	case *Function:
		b, ok := b.(*Function)
		return ok && a.builtin == b.builtin && a.self == b.self
	}
	return a == b
}

func (m *machine) equalItems(a, b []Value) bool {
	if len(a) != len(b) {
		return false
	}
	m.enter()
	defer m.leave()
	for i := range a {
		if !m.alike(a[i], b[i]) {
			return false
		}
	}
	return true
}

// equalRanges reports whether two ranges have the same numbers.
func equalRanges(a, b *Range) bool {
	n := a.length()
	return n == b.length() && (n == 0 || a.start == b.start) && (n <= 1 || a.step == b.step)
}

func (m *machine) equalDicts(a, b *Dict) bool {
	if len(a.entries) != len(b.entries) {
		return false
	}
	m.enter()
	defer m.leave()
	for _, e := range a.entries {
		m.step(1 + hashSize(e.hash)/64)
		v, ok := b.find(e.hash)
		if !ok || !m.alike(e.value, v) {
			return false
		}
	}
	return true
}

// alike reports whether values are one object or equal, as elements are compared.
func (m *machine) alike(a, b Value) bool {
	if same(a, b) {
		m.step(1 + pairSize(a, b)/64)
		return true
	}
	return m.equal(a, b)
}

// pairSize returns how many bytes it takes to compare two texts or large integers.
func pairSize(a, b Value) int { return min(sizeOf(a), sizeOf(b)) }

func sizeOf(v Value) int {
	if b, ok := v.(*big.Int); ok {
		return b.BitLen() / 8
	}
	s, _ := textOf(v)
	return len(s)
}

// same reports whether two values are one object, as far as that can be told:
// equal texts and numbers of one type are.
func same(a, b Value) bool {
	if x, ok := a.(*big.Int); ok {
		y, ok := b.(*big.Int)
		return ok && x.Cmp(y) == 0
	}
	if x, ok := a.(float64); ok {
		y, ok := b.(float64)
		return ok && math.Float64bits(x) == math.Float64bits(y)
	}
	return a == b
}

func isNumber(v Value) bool {
	switch v.(type) {
	case bool, int, *big.Int, float64:
		return true
	}
	return false
}

// orderNumbers compares two numbers exactly: -1, 0, 1, or 2 if one is not a number.
func orderNumbers(a, b Value) int {
	x, isX := a.(float64)
	y, isY := b.(float64)
	switch {
	case isX && math.IsNaN(x) || isY && math.IsNaN(y):
		return 2
	case isX && isY:
		return compareFloats(x, y)
	case isX && math.IsInf(x, 0):
		return compareFloats(x, 0)
	case isY && math.IsInf(y, 0):
		return compareFloats(0, y)
	}
	return exact(a).Cmp(exact(b))
}

func compareFloats(x, y float64) int {
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}

// exact returns a finite number as a fraction.
func exact(v Value) *big.Rat {
	if f, ok := v.(float64); ok {
		return new(big.Rat).SetFloat64(f)
	}
	b, _ := bigOf(v)
	return new(big.Rat).SetInt(b)
}

// order compares two values as < does: -1, 0, 1, or 2 if neither is. The operator
// is for the message if they cannot be compared.
func (m *machine) order(op string, a, b Value) int {
	m.step(1 + pairSize(a, b)/64)
	if isNumber(a) && isNumber(b) {
		return orderNumbers(a, b)
	}
	if x, ok := textOf(a); ok {
		if y, ok := textOf(b); ok {
			return strings.Compare(x, y)
		}
	}
	var x, y []Value
	switch a := a.(type) {
	case *List:
		if b, ok := b.(*List); ok {
			x, y = a.items, b.items
			return m.orderItems(op, x, y)
		}
	case *Tuple:
		if b, ok := b.(*Tuple); ok {
			x, y = a.items, b.items
			return m.orderItems(op, x, y)
		}
	}
	for _, v := range []Value{a, b} {
		if u, ok := v.(*Undefined); ok {
			u.fail()
		}
	}
	raise(TypeError, "'%s' not supported between instances of '%s' and '%s'", op, typeName(a), typeName(b))
	return 0
}

func (m *machine) orderItems(op string, a, b []Value) int {
	m.enter()
	defer m.leave()
	for i := range min(len(a), len(b)) {
		if !m.alike(a[i], b[i]) {
			return m.order(op, a[i], b[i])
		}
	}
	return compareFloats(float64(len(a)), float64(len(b)))
}

// contains is Python's in.
func (m *machine) contains(in, v Value) bool {
	if s, ok := textOf(in); ok {
		x, ok := textOf(v)
		if !ok {
			raise(TypeError, "'in <string>' requires string as left operand, not %s", typeName(v))
		}
		return m.finder(s, x, false).index(s) >= 0
	}
	switch in := in.(type) {
	case *Dict:
		_, ok := m.find(in, v)
		return ok
	case *View:
		if in.kind == "keys" {
			_, ok := m.find(in.dict, v)
			return ok
		}
	}
	next := m.iterator(in)
	if next == nil {
		raise(TypeError, "argument of type '%s' is not iterable", typeName(in))
	}
	for x, ok := next(); ok; x, ok = next() {
		if m.alike(x, v) {
			return true
		}
	}
	return false
}

// sort sorts values stably by a key, as sorted does.
func (m *machine) sort(items []Value, key func(Value) Value, reverse bool) []Value {
	m.reserve(3 * valueBytes * len(items))
	type keyed struct{ key, value Value }
	list := make([]keyed, len(items))
	for i, v := range items {
		list[i] = keyed{key(v), v}
	}
	sort.SliceStable(list, func(i, j int) bool {
		if reverse {
			i, j = j, i
		}
		return m.order("<", list[i].key, list[j].key) == -1
	})
	sorted := make([]Value, len(items))
	for i, k := range list {
		sorted[i] = k.value
	}
	return sorted
}
