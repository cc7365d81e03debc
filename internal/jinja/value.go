package jinja

import "math/big"

// A Value is one of Python's: nil (None), bool, int or *big.Int (what an int does
// not hold), float64, string, Markup, Bytes, *List, *Tuple, *Dict, *View, *Range,
// *Generator, *Undefined, *Namespace, *Function, *Macro, *Loop, *Cycler.
type Value = any

// Values that Go has no type for.
type (
	// Markup is a string that is HTML already, which escaping leaves alone.
	Markup string

	// Bytes is what str.encode returns.
	Bytes string

	// A List is a list. It never changes.
	List struct{ items []Value }

	// A Tuple is a tuple; names are those of a named tuple's fields.
	Tuple struct {
		items []Value
		names []string
	}

	// A View is what a dict's keys, values and items return.
	View struct {
		dict *Dict
		kind string // "keys", "values" or "items"
	}

	// A Range is a range of integers.
	Range struct{ start, stop, step int }

	// A Generator gives values one at a time, once.
	Generator struct {
		next iterator
		kind string // its type in Python, if that is not generator
	}

	// Undefined is the value of what does not exist. Printing it gives nothing,
	// most other uses fail.
	Undefined struct {
		hint   string // the whole message, if there is one
		name   Value  // of what is missing
		object Value  // in which it is missing
		inside bool   // whether it is missing in an object
		unsafe bool   // it exists, but not for templates
	}

	// A Namespace is what namespace() returns: the one thing with attributes that
	// a template can set.
	Namespace struct{ attributes *Dict }

	// A Cycler is what cycler() returns.
	Cycler struct {
		items []Value
		at    int
	}
)

// NewList returns a list of values.
func NewList(items ...Value) *List { return &List{items} }

// fail raises what every use of an undefined value but printing raises.
func (u *Undefined) fail() {
	kind := UndefinedError
	if u.unsafe {
		kind = SecurityError
	}
	raise(kind, "%s", u.message())
}

// failCall raises what a call of an undefined value raises. What was to be called is
// missing; what it was to be a method of may be.
func (u *Undefined) failCall() {
	id, isText := textOf(u.name)
	switch {
	case u.hint != "" || u.unsafe || !isText || u.inside && u.object == nil:
		u.fail()
	case u.inside:
		raiseMissing(UndefinedError, 0, "method of a "+typeName(u.object)+" called", id, u.message())
	}
	raiseMissing(UndefinedError, 0, "function", id, u.message())
}

// message says what is undefined.
func (u *Undefined) message() string {
	id, isText := textOf(u.name)
	switch {
	case u.hint != "":
		return u.hint
	case u.unsafe:
		return "access to attribute " + repr(id) + " of " + repr(typeName(u.object)) + " object is unsafe."
	case !u.inside:
		return repr(id) + " is undefined"
	case isText:
		return repr(objectName(u.object)) + " has no attribute " + repr(id)
	}
	return objectName(u.object) + " has no element " + shortText(u.name)
}

// shortText returns what messages show of a value: its repr, or if that is long
// its type.
func shortText(v Value) (s string) {
	defer func() {
		if _, ok := recover().(*failure); ok {
			s = "of type " + typeName(v)
		}
	}()
	return (&machine{limits: Limits{Steps: 1000, Bytes: 20_000}}).repr(v)
}

// typeNames are Python's names for the types of values.
func typeName(v Value) string {
	switch v := v.(type) {
	case nil:
		return "NoneType"
	case bool:
		return "bool"
	case int, *big.Int:
		return "int"
	case float64:
		return "float"
	case string:
		return "str"
	case Bytes:
		return "bytes"
	case *List:
		return "list"
	case *Tuple:
		return "tuple"
	case *Dict:
		return "dict"
	case *View:
		return "dict_" + v.kind
	case *Range:
		return "range"
	case *Generator:
		if v.kind != "" {
			return v.kind
		}
		return "generator"
	case *Loop:
		return "LoopContext"
	case *Function:
		return "function"
	case Markup:
		return "Markup"
	case *Undefined:
		return "Undefined"
	case *Namespace:
		return "Namespace"
	case *Macro:
		return "Macro"
	case *Cycler:
		return "Cycler"
	case *Template:
		return "TemplateReference"
	}
	return "object"
}

// objectName is how messages about missing attributes call an object.
func objectName(v Value) string {
	switch v.(type) {
	case nil:
		return "None"
	case Markup:
		return "markupsafe.Markup object"
	case *Namespace, *Cycler:
		return "jinja2.utils." + typeName(v) + " object"
	case *Macro, *Loop, *Undefined, *Template:
		return "jinja2.runtime." + typeName(v) + " object"
	}
	return typeName(v) + " object"
}

// textOf returns the text of a string, and whether v is one.
func textOf(v Value) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case Markup:
		return string(v), true
	}
	return "", false
}

// sameKind returns s as Markup if like is.
func sameKind(like Value, s string) Value {
	if _, ok := like.(Markup); ok {
		return Markup(s)
	}
	return s
}

// truth returns what a value means as a condition.
func truth(v Value) bool {
	switch v := v.(type) {
	case nil, *Undefined:
		return false
	case bool:
		return v
	case int:
		return v != 0
	case float64:
		return v != 0
	case string:
		return v != ""
	case Markup:
		return v != ""
	case Bytes:
		return v != ""
	}
	if n, ok := length(v); ok {
		return n > 0
	}
	return true
}

// length returns what len does, and whether it does.
func length(v Value) (int, bool) {
	switch v := v.(type) {
	case string:
		return runeCount(v), true
	case Markup:
		return runeCount(string(v)), true
	case Bytes:
		return len(v), true
	case *List:
		return len(v.items), true
	case *Tuple:
		return len(v.items), true
	case *Dict:
		return len(v.entries), true
	case *View:
		return len(v.dict.entries), true
	case *Range:
		return v.length(), true
	case *Loop:
		return v.count(), true
	case *Undefined:
		return 0, true
	}
	return 0, false
}

func (r *Range) length() int {
	switch {
	case r.step > 0 && r.start < r.stop:
		return (r.stop-r.start-1)/r.step + 1
	case r.step < 0 && r.start > r.stop:
		return (r.start-r.stop-1)/-r.step + 1
	}
	return 0
}

// callable reports whether a value can be called.
func callable(v Value) bool {
	switch v := v.(type) {
	case *Function, *Macro, *Undefined:
		return true
	case *Loop:
		return v.recurse != nil
	}
	return false
}

// isMarkup reports whether escaping leaves a value alone.
func isMarkup(v Value) bool {
	_, ok := v.(Markup)
	return ok
}

// Len returns how many elements a list has; nil has none.
func (l *List) Len() int {
	if l == nil {
		return 0
	}
	return len(l.items)
}

// At returns element i.
func (l *List) At(i int) Value { return l.items[i] }

// With returns the list with v in place of element i.
func (l *List) With(i int, v Value) *List {
	items := append([]Value{}, l.items...)
	items[i] = v
	return &List{items}
}

// Append returns the list with more elements at its end.
func (l *List) Append(v ...Value) *List {
	var items []Value
	if l != nil {
		items = append(items, l.items...)
	}
	return &List{append(items, v...)}
}
