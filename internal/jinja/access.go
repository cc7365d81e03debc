package jinja

import "strings"

// attribute is x.id: an attribute, or else an item.
func (m *machine) attribute(x Value, id string) Value {
	if v, ok := m.own(x, id); ok {
		return v
	}
	if d, ok := x.(*Dict); ok {
		if v, ok := d.find(id); ok {
			return v
		}
	}
	return &Undefined{name: id, object: x, inside: true}
}

// item is x[index]: an item, or else an attribute.
func (m *machine) item(x, index Value) Value {
	if v, ok := m.subscript(x, index); ok {
		return v
	}
	if id, ok := textOf(index); ok {
		if v, ok := m.own(x, id); ok {
			return v
		}
	}
	return &Undefined{name: index, object: x, inside: true}
}

// longestName bounds the names of the attributes that objects have themselves.
const longestName = 64

// mutators are the methods of lists and dicts that would change them.
var mutators = map[string]string{
	"list": " append clear pop reverse insert sort extend remove ",
	"dict": " clear pop popitem setdefault update ",
}

// own returns an attribute of the object itself, as Python's getattr in Jinja's
// sandbox does, or false.
func (m *machine) own(x Value, id string) (Value, bool) {
	switch x := x.(type) {
	case *Undefined:
		x.fail()
	case *Template:
		raise(Unsupported, "self.%s: the blocks of templates", id)
	case *Loop:
		if v, ok := x.attribute(m, id); ok {
			return v, true
		}
	case *Macro:
		if v, ok := x.attribute(id); ok {
			return v, true
		}
	case *Function:
		if f, ok := globals["dict"].(*Function); ok && x.builtin == f.builtin && id == "fromkeys" { // a method of the class
			return &Function{dictMethods[id], &Dict{}}, true
		}
	case *Namespace:
		return m.find(x.attributes, id)
	case *Cycler:
		if v, ok := x.attribute(id); ok {
			return v, true
		}
	case *Tuple:
		for i, n := range x.names {
			if n == id {
				return x.items[i], true
			}
		}
	}
	if len(id) > longestName {
		return nil, false
	}
	if strings.HasPrefix(id, "__") && dunder(x, id) || strings.Contains(mutators[typeName(x)], " "+id+" ") {
		return &Undefined{name: id, object: x, unsafe: true}, true
	}
	if v, ok := numberAttribute(x, id); ok {
		return v, true
	}
	if method := methodsOf(x)[id]; method != nil {
		return &Function{method, x}, true
	}
	return nil, false
}

// everyObject are Python's internal attributes of all objects, objectsWith those
// of some. Templates cannot use them, but print them as nothing.
const everyObject = " __class__ __delattr__ __dir__ __doc__ __eq__ __format__ __ge__ __getattribute__ __getstate__ __gt__ __hash__ __init__ " +
	"__init_subclass__ __le__ __lt__ __ne__ __new__ __reduce__ __reduce_ex__ __repr__ __setattr__ __sizeof__ __str__ __subclasshook__ "

var objectsWith = map[string]string{
	"__len__": "str Markup list tuple dict range", "__iter__": "str Markup list tuple dict range generator",
	"__getitem__": "str Markup list tuple dict range", "__contains__": "str Markup list tuple dict range",
	"__add__": "str Markup list tuple int float bool", "__mod__": "str Markup int float bool", "__dict__": "function Macro LoopContext",
	"__globals__": "function", "__code__": "function", "__call__": "function Macro", "__name__": "function", "__html__": "Markup",
}

func dunder(x Value, id string) bool {
	return strings.Contains(everyObject, " "+id+" ") || strings.Contains(" "+objectsWith[id]+" ", " "+typeName(x)+" ")
}

// numberAttribute returns the parts that numbers have.
func numberAttribute(x Value, id string) (Value, bool) {
	if r, ok := x.(*Range); ok {
		v, ok := map[string]Value{"start": r.start, "stop": r.stop, "step": r.step}[id]
		return v, ok
	}
	if !isNumber(x) {
		return nil, false
	}
	_, isFloat := x.(float64)
	switch {
	case id == "real":
		if b, ok := bigOf(x); ok {
			return integer(b), true
		}
		return x, true
	case id == "imag" && isFloat:
		return 0.0, true
	case id == "imag":
		return 0, true
	case id == "numerator" && !isFloat:
		b, _ := bigOf(x)
		return integer(b), true
	case id == "denominator" && !isFloat:
		return 1, true
	}
	return nil, false
}

// subscript returns x[index], or false where Python raises TypeError, IndexError
// or KeyError.
func (m *machine) subscript(x, index Value) (Value, bool) {
	switch x := x.(type) {
	case *Undefined:
		x.fail()
	case *Dict:
		hash, bad := m.tryHash(index)
		if bad != nil {
			return nil, false
		}
		return x.find(hash)
	}
	at, isInt := intOf(index)
	if !isInt {
		return nil, false
	}
	if s, ok := textOf(x); ok {
		m.step(len(s) / 32)
		n := runeCount(s)
		if at < 0 {
			at += n
		}
		if at < 0 || at >= n {
			return nil, false
		}
		return sameKind(x, runeSlice(s, at, at+1)), true
	}
	n, ok := length(x)
	if !ok {
		return nil, false
	}
	if at < 0 {
		at += n
	}
	if at < 0 || at >= n {
		return nil, false
	}
	switch x := x.(type) {
	case *List:
		return x.items[at], true
	case *Tuple:
		return x.items[at], true
	case *Range:
		return x.start + at*x.step, true
	case Bytes:
		return int(x[at]), true
	}
	return nil, false
}

// runeSlice returns characters lo to hi of a string.
func runeSlice(s string, lo, hi int) string {
	if len(s) == runeCount(s) {
		return s[lo:hi]
	}
	start, i := len(s), 0
	for at := range s {
		if i == lo {
			start = at
		}
		if i == hi {
			return s[start:at]
		}
		i++
	}
	return s[start:]
}
