package jinja

import "math/big"

// tests are all of Jinja's by name.
var tests map[string]*builtin

func init() { // the test named test looks into them
	tests = merge(typeTests, valueTests, table(
		function("filter", "value", func(m *machine, a []Value) Value {
			s, _ := m.hash(a[0]).(string)
			return filters[s] != nil
		}),
		function("test", "value", func(m *machine, a []Value) Value {
			s, _ := m.hash(a[0]).(string)
			return tests[s] != nil
		}),
	))
}

// kindTest makes a test of what a value is.
func kindTest(name string, is func(Value) bool) *builtin {
	return function(name, "value", func(m *machine, a []Value) Value { return is(a[0]) })
}

func isInteger(v Value) bool {
	switch v.(type) {
	case int, *big.Int:
		return true
	}
	return false
}

func isUndefined(v Value) bool {
	_, ok := v.(*Undefined)
	return ok
}

var typeTests = table(
	kindTest("defined", func(v Value) bool { return !isUndefined(v) }),
	kindTest("undefined", isUndefined),
	kindTest("none", func(v Value) bool { return v == nil }),
	kindTest("boolean", func(v Value) bool { _, ok := v.(bool); return ok }),
	kindTest("true", func(v Value) bool { return v == true }),
	kindTest("false", func(v Value) bool { return v == false }),
	kindTest("integer", isInteger),
	kindTest("float", func(v Value) bool { _, ok := v.(float64); return ok }),
	kindTest("number", isNumber),
	kindTest("string", func(v Value) bool { _, ok := textOf(v); return ok }),
	kindTest("mapping", func(v Value) bool { _, ok := v.(*Dict); return ok }),
	kindTest("sequence", func(v Value) bool {
		switch v.(type) {
		case string, Markup, Bytes, *List, *Tuple, *Dict, *Range, *Undefined:
			return true
		}
		return false
	}),
	kindTest("iterable", func(v Value) bool { return (&machine{}).iterator(v) != nil }),
	kindTest("callable", callable),
	kindTest("escaped", isMarkup),
)

// comparing makes a test of an operator.
func comparing(name, op string) *builtin {
	return function(name, "a, b", func(m *machine, a []Value) Value { return m.compare(op, a[0], a[1]) })
}

// remainder makes a test of the remainder of a division by two.
func remainder(name string, want int) *builtin {
	return function(name, "value", func(m *machine, a []Value) Value {
		return m.equal(m.arithmetic("%", a[0], 2), want)
	})
}

// casedAs reports whether a value's text has a cased character and every one is of the case.
func (m *machine) casedAs(v Value, want, not func(rune) bool) bool {
	s := m.text(v)
	m.step(len(s) / 8)
	return casedAs(s, want, not)
}

var valueTests = table(
	comparing("eq", "=="), comparing("equalto", "=="), comparing("==", "=="), comparing("ne", "!="), comparing("!=", "!="),
	comparing("lt", "<"), comparing("lessthan", "<"), comparing("<", "<"), comparing("le", "<="), comparing("<=", "<="),
	comparing("gt", ">"), comparing("greaterthan", ">"), comparing(">", ">"), comparing("ge", ">="), comparing(">=", ">="),
	comparing("in", "in"),
	remainder("odd", 1), remainder("even", 0),
	function("divisibleby", "value, num", func(m *machine, a []Value) Value {
		return m.equal(m.arithmetic("%", a[0], a[1]), 0)
	}),
	function("sameas", "value, other", func(m *machine, a []Value) Value {
		m.step(pairSize(a[0], a[1]) / 64)
		return same(a[0], a[1])
	}),
	function("lower", "value", func(m *machine, a []Value) Value { return m.casedAs(a[0], isLower, isUpper) }),
	function("upper", "value", func(m *machine, a []Value) Value { return m.casedAs(a[0], isUpper, isLower) }),
)
