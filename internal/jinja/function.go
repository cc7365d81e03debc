package jinja

import (
	"fmt"
	"strconv"
	"strings"
)

// A builtin is a filter, test, function or method: what it takes, and what it
// does with that.
type builtin struct {
	name        string
	parameters  []parameter
	star, stars bool // takes more positional arguments, more by name
	run         func(m *machine, a []Value) Value
}

type parameter struct {
	name     string
	value    Value
	optional bool
}

// A Function is a builtin as a value; self is the object of a method.
type Function struct {
	*builtin
	self Value
}

// A Keyword is an argument given by name.
type Keyword struct {
	Name  string
	Value Value
}

// function makes a builtin. The signature is Python's, as "s, width=4, *rest,
// **named". The function gets a value for every parameter in order; a tuple for
// *rest and a dict for **named.
func function(name, signature string, run func(m *machine, a []Value) Value) *builtin {
	b := &builtin{name: name, run: run}
	for _, p := range strings.Split(signature, ", ") {
		id, value, optional := strings.Cut(p, "=")
		switch {
		case p == "":
		case strings.HasPrefix(id, "**"):
			b.stars = true
		case strings.HasPrefix(id, "*"):
			b.star = true
		case optional:
			b.parameters = append(b.parameters, parameter{id, defaultOf(value), true})
		default:
			b.parameters = append(b.parameters, parameter{name: id})
		}
	}
	return b
}

// defaultOf reads a default in a signature.
func defaultOf(s string) Value {
	if v, ok := constants[s]; ok {
		return v
	}
	if n, err := strconv.Atoi(s); err == nil {
		return n
	}
	if f, err := strconv.ParseFloat(s, 64); err == nil {
		return f
	}
	text, err := strconv.Unquote(s)
	if err != nil {
		panic(fmt.Sprintf("jinja: default %s: %v", s, err))
	}
	return text
}

// callBuiltin binds arguments and runs a builtin.
func (m *machine) callBuiltin(b *builtin, args []Value, named []Keyword) Value {
	a := make([]Value, len(b.parameters), len(b.parameters)+2)
	given := make([]bool, len(a))
	rest := &Tuple{}
	if n := len(b.parameters); len(args) > n {
		if !b.star {
			raise(TypeError, "%s() takes %d arguments, %d were given", b.name, n, len(args))
		}
		rest.items, args = args[n:], args[:n]
	}
	for i, v := range args {
		a[i], given[i] = v, true
	}
	more := &Dict{}
	for _, k := range named {
		i := b.parameter(k.Name)
		switch {
		case i < 0 && b.stars:
			m.set(more, k.Name, k.Value)
		case i < 0:
			raise(TypeError, "%s() got an unexpected keyword argument '%s'", b.name, k.Name)
		case given[i]:
			raise(TypeError, "%s() got multiple values for argument '%s'", b.name, k.Name)
		default:
			a[i], given[i] = k.Value, true
		}
	}
	for i, p := range b.parameters {
		switch {
		case given[i]:
		case !p.optional:
			raise(TypeError, "%s() missing 1 required positional argument: '%s'", b.name, p.name)
		default:
			a[i] = p.value
		}
	}
	if b.star {
		a = append(a, rest)
	}
	if b.stars {
		a = append(a, more)
	}
	m.step(1)
	return b.run(m, a)
}

// parameter returns which one has a name, or -1.
func (b *builtin) parameter(name string) int {
	for i, p := range b.parameters {
		if p.name == name {
			return i
		}
	}
	return -1
}

// call calls a value.
func (m *machine) call(x Value, args []Value, named []Keyword) Value {
	switch x := x.(type) {
	case *Function:
		if x.self != nil {
			args = append([]Value{x.self}, args...)
		}
		return m.callBuiltin(x.builtin, args, named)
	case *Macro:
		return m.callMacro(x, args, named)
	case *Undefined:
		x.failCall()
	case *Loop:
		if x.recurse == nil {
			raise(TypeError, "The loop must have the 'recursive' marker to be called recursively.")
		}
		if len(args) != 1 || len(named) > 0 {
			raise(TypeError, "loop() takes 1 argument, %d were given", len(args)+len(named))
		}
		return x.recurse(args[0])
	}
	raise(TypeError, "'%s' object is not callable", typeName(x))
	return nil
}
