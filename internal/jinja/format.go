package jinja

import (
	"strconv"
	"strings"
)

// A formatter applies str.format.
type formatter struct {
	builder
	args   []Value
	named  *Dict
	next   int  // the next automatic number
	manual bool // numbers are written
	html   bool
}

// format is format.format(*args, **named).
func (m *machine) format(format Value, args []Value, named *Dict) Value {
	s, _ := textOf(format)
	f := &formatter{builder: builder{m: m}, args: args, named: named, html: isMarkup(format)}
	f.run(s, 2)
	return sameKind(format, f.String())
}

// run writes a format; depth says how often fields may contain fields.
func (f *formatter) run(s string, depth int) {
	if depth == 0 {
		raise(ValueError, "Max string recursion exceeded")
	}
	f.m.step(len(s) / 64)
	for s != "" {
		at := strings.IndexAny(s, "{}")
		if at < 0 {
			f.write(s)
			return
		}
		f.write(s[:at])
		if strings.HasPrefix(s[at+1:], s[at:at+1]) {
			f.write(s[at : at+1])
			s = s[at+2:]
			continue
		}
		if s[at] == '}' {
			raise(ValueError, "Single '}' encountered in format string")
		}
		end := closingBrace(s[at:])
		if end < 0 {
			raise(ValueError, "expected '}' before end of string")
		}
		f.field(s[at+1:at+end], depth)
		s = s[at+end+1:]
	}
}

// closingBrace returns where the brace is that closes the first.
func closingBrace(s string) int {
	open := 0
	for i := range len(s) {
		switch s[i] {
		case '{':
			open++
		case '}':
			if open--; open == 0 {
				return i
			}
		}
	}
	return -1
}

// field writes {name!conversion:spec}.
func (f *formatter) field(s string, depth int) {
	f.m.step(4)
	name, rest, specified := s, "", false
	if i := strings.IndexAny(s, "!:"); i >= 0 {
		name, rest, specified = s[:i], s[i:], true
	}
	v := f.value(name)
	if strings.HasPrefix(rest, "!") {
		if len(rest) < 2 {
			raise(ValueError, "end of string while looking for conversion specifier")
		}
		v = f.convert(v, rest[1])
		rest = rest[2:]
	}
	rest = strings.TrimPrefix(rest, ":")
	if specified && strings.Contains(rest, "{") {
		inner := &formatter{builder: builder{m: f.m}, args: f.args, named: f.named, next: f.next, manual: f.manual}
		inner.run(rest, depth-1)
		f.next, rest = inner.next, inner.String()
	}
	text := f.m.apply(parseSpec(rest), v)
	if f.html {
		if isMarkup(v) {
			text = string(f.m.escape(Markup(text)))
		} else {
			text = string(f.m.escape(text))
		}
	}
	f.write(text)
}

func (f *formatter) convert(v Value, c byte) Value {
	switch c {
	case 's':
		return f.m.text(v)
	case 'r':
		return f.m.repr(v)
	case 'a':
		return f.m.asciiOnly(f.m.repr(v))
	}
	raise(ValueError, "Unknown conversion specifier '%c'", c)
	return nil
}

// value returns what a field names: an argument, with .attributes and [items].
func (f *formatter) value(name string) Value {
	head, rest := name, ""
	if i := strings.IndexAny(name, ".["); i >= 0 {
		head, rest = name[:i], name[i:]
	}
	v := f.argument(head)
	for rest != "" {
		if rest[0] == '.' {
			id := rest[1:]
			if i := strings.IndexAny(id, ".["); i >= 0 {
				id = id[:i]
			}
			v = f.m.attribute(v, id)
			rest = rest[1+len(id):]
			continue
		}
		end := strings.IndexByte(rest, ']')
		if end < 0 || rest[0] != '[' {
			raise(ValueError, "Missing ']' in format string")
		}
		v = f.m.item(v, indexOf(rest[1:end]))
		rest = rest[end+1:]
	}
	return v
}

// indexOf returns a number if a text is one.
func indexOf(s string) Value {
	if n, err := strconv.Atoi(s); err == nil && n >= 0 {
		return n
	}
	return s
}

// argument returns one by name or number, the next one for none.
func (f *formatter) argument(name string) Value {
	n, err := strconv.Atoi(name)
	switch {
	case name == "" && f.manual:
		raise(ValueError, "cannot switch from manual field specification to automatic field numbering")
	case name == "":
		n, err = f.next, nil
		f.next++
	case err == nil && f.next > 0:
		raise(ValueError, "cannot switch from automatic field numbering to manual field specification")
	case err == nil:
		f.manual = true
	}
	if err == nil {
		if n < 0 || n >= len(f.args) {
			raise(ValueError, "Replacement index %d out of range for positional args tuple", n)
		}
		return f.args[n]
	}
	v, ok := f.m.find(f.named, name)
	if !ok {
		raise(ValueError, "no argument is called %s", repr(name))
	}
	return v
}
