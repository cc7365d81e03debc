package ptx

import (
	"cmp"
	"fmt"
)

// compare returns a comparison by its name.
func compare(op string, t numeric) (func(a, b uint64) bool, error) {
	if t.letter == 'f' {
		unordered := len(op) == 3 && op[2] == 'u'
		f, ok := map[string]func(a, b float64) bool{
			"eq": func(a, b float64) bool { return a == b }, "ne": func(a, b float64) bool { return a != b && a == a && b == b },
			"lt": func(a, b float64) bool { return a < b }, "le": func(a, b float64) bool { return a <= b },
			"gt": func(a, b float64) bool { return a > b }, "ge": func(a, b float64) bool { return a >= b },
			"num": func(a, b float64) bool { return a == a && b == b }, "nan": func(a, b float64) bool { return a != a || b != b },
		}[op[:min(len(op), 2+flag(op == "num" || op == "nan"))]]
		if !ok {
			return nil, fmt.Errorf("comparison %s is not known", op)
		}
		return func(a, b uint64) bool {
			x, y := t.float(a), t.float(b)
			return f(x, y) || unordered && (x != x || y != y)
		}, nil
	}
	f, ok := map[string]func(n int) bool{"eq": func(n int) bool { return n == 0 }, "ne": func(n int) bool { return n != 0 }, "lt": func(n int) bool { return n < 0 },
		"le": func(n int) bool { return n <= 0 }, "gt": func(n int) bool { return n > 0 }, "ge": func(n int) bool { return n >= 0 }}[op]
	if !ok {
		return nil, fmt.Errorf("comparison %s is not known", op)
	}
	return func(a, b uint64) bool { return f(t.order(a, b)) }, nil
}

// order compares integers, as cmp.Compare.
func (t numeric) order(a, b uint64) int {
	if t.letter == 's' {
		return cmp.Compare(t.signed(a), t.signed(b))
	}
	return cmp.Compare(t.cut(a), t.cut(b))
}
