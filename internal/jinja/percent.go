package jinja

import (
	"math"
	"math/big"
	"regexp"
	"strings"
	"unicode/utf8"
)

// percentPattern is a conversion of the % operator.
var percentPattern = regexp.MustCompile(`^%(\([^()]*\))?([-+ #0]*)(\*|\d*)(\.(\*|\d*))?[hlL]?(.)`)

// A percenter applies the % operator.
type percenter struct {
	builder
	args    []Value // of a tuple, or one
	mapping *Dict   // if the conversions name keys
	next    int
	html    bool
}

// percent is text % values.
func (m *machine) percent(format, values Value) Value {
	s, _ := textOf(format)
	m.step(len(s) / 64)
	p := &percenter{builder: builder{m: m}, args: []Value{values}, html: isMarkup(format)}
	exhausted := false // whether arguments may be left over
	switch v := values.(type) {
	case *Tuple:
		p.args = v.items
	case *Dict:
		p.mapping, exhausted = v, true
	case *List, *Range, *Undefined:
		exhausted = true
	}
	for {
		at := strings.IndexByte(s, '%')
		if at < 0 {
			break
		}
		p.write(s[:at])
		match := percentPattern.FindStringSubmatch(s[at:])
		if match == nil {
			raise(ValueError, "incomplete format")
		}
		p.conversion(match)
		s = s[at+len(match[0]):]
	}
	p.write(s)
	if p.next < len(p.args) && !exhausted {
		raise(TypeError, "not all arguments converted during string formatting")
	}
	return sameKind(format, p.String())
}

// argument returns the next value.
func (p *percenter) argument() Value {
	if p.next >= len(p.args) {
		raise(TypeError, "not enough arguments for format string")
	}
	p.next++
	return p.args[p.next-1]
}

// conversion writes one.
func (p *percenter) conversion(match []string) {
	p.m.step(4)
	key, flags, verb := match[1], match[2], match[6][0]
	f := spec{fill: ' ', align: '>', sign: '-', precision: -1, alternate: strings.Contains(flags, "#"), verb: verb}
	size := func(s string) int {
		if s == "*" {
			return wantInt(p.argument())
		}
		n, _ := leadingInt(s)
		return n
	}
	f.width = size(match[3])
	if match[4] != "" {
		f.precision = max(size(match[5]), 0)
	}
	if strings.Contains(flags, "-") || f.width < 0 {
		f.align, f.width = '<', max(f.width, -f.width)
	} else if strings.Contains(flags, "0") && strings.IndexByte("sracu", verb) < 0 {
		f.fill, f.align = '0', '='
	}
	if strings.Contains(flags, " ") {
		f.sign = ' '
	}
	if strings.Contains(flags, "+") {
		f.sign = '+'
	}
	if verb == '%' {
		p.write("%")
		return
	}
	p.write(p.converted(f, p.valueFor(key)))
}

// valueFor returns the value that a conversion takes.
func (p *percenter) valueFor(key string) Value {
	if key == "" {
		return p.argument()
	}
	if p.mapping == nil {
		raise(TypeError, "format requires a mapping")
	}
	v, ok := p.m.find(p.mapping, key[1:len(key)-1])
	if !ok {
		raise(ValueError, "no key %s in the mapping", repr(key[1:len(key)-1]))
	}
	return v
}

func (p *percenter) converted(f spec, v Value) string {
	switch f.verb {
	case 's', 'r', 'a':
		return p.m.pad(f, "", p.text(f, v), '>')
	case 'c':
		if s, ok := textOf(v); ok && runeCount(s) == 1 {
			return p.m.pad(f, "", s, '>')
		}
		b, ok := bigOf(v)
		if !ok {
			raise(TypeError, "%%c requires int or char")
		}
		return p.m.pad(f, "", characterOf(b), '>')
	case 'd', 'i', 'u', 'x', 'X', 'o':
		return p.integer(f, v)
	case 'e', 'E', 'f', 'F', 'g', 'G':
		if u, ok := v.(*Undefined); ok {
			u.fail()
		}
		if !isNumber(v) {
			raise(TypeError, "must be real number, not %s", typeName(v))
		}
		return p.m.formatFloat(f, floatOf(v))
	}
	raise(ValueError, "unsupported format character '%c'", f.verb)
	return ""
}

// text is %s, %r and %a.
func (p *percenter) text(f spec, v Value) string {
	var s string
	switch {
	case p.html:
		s = string(p.m.escape(v))
	case f.verb == 's':
		s = p.m.text(v)
	default:
		s = p.m.repr(v)
	}
	if f.verb == 'a' {
		s = p.m.asciiOnly(s)
	}
	if f.precision >= 0 {
		s = runeSlice(s, 0, min(f.precision, runeCount(s)))
	}
	return s
}

// asciiOnly escapes all other characters.
func (m *machine) asciiOnly(s string) string {
	b := builder{m: m}
	for i, r := range s {
		if r < utf8.RuneSelf {
			b.write(s[i : i+1])
		} else {
			b.write(escapeRune(r))
		}
	}
	return b.String()
}

// integer is %d, %x and the like.
func (p *percenter) integer(f spec, v Value) string {
	if x, ok := v.(float64); ok && strings.IndexByte("diu", f.verb) >= 0 {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			raise(OverflowError, "cannot convert float to integer")
		}
		b, _ := big.NewFloat(x).Int(nil)
		v = integer(b)
	}
	b, ok := bigOf(v)
	if !ok {
		raise(TypeError, "%%%c format: an integer is required, not %s", f.verb, typeName(v))
	}
	if strings.IndexByte("iu", f.verb) >= 0 {
		f.verb = 'd'
	}
	least := f.precision
	f.precision = -1
	base := map[byte]int{'x': 16, 'X': 16, 'o': 8, 'd': 10}[f.verb]
	if least > 0 && least > len(strings.TrimPrefix(p.m.digits(b, base), "-")) {
		digits := p.m.formatInt(spec{fill: '0', align: '=', sign: '-', precision: -1, verb: f.verb, width: least}, new(big.Int).Abs(b))
		return p.m.pad(f, f.signOf(b.Sign() < 0), digits, '>')
	}
	return p.m.formatInt(f, b)
}
