package pattern

import (
	"slices"
	"strconv"
	"strings"
	"unicode"

	"exl2/infer/tokenizer/internal/chars"
)

// anchor returns the translation of one of Oniguruma's anchors. "^" and "$" are
// always those of lines.
func anchor(c rune) (text string, ok bool) {
	switch c {
	case '^':
		return `(?:\A|(?<=\x{A})(?!\z))`, true
	case '$':
		return `(?=\x{A}|\z)`, true
	case 'A', 'z':
		return `\` + string(c), true
	case 'Z':
		return `(?=\x{A}?\z)`, true
	}
	if c != 'b' && c != 'B' {
		return "", false
	}
	w := setText(types().looseWord)
	if c == 'b' {
		return `(?:(?<=` + w + `)(?!` + w + `)|(?<!` + w + `)(?=` + w + `))`, true
	}
	return `(?:(?<=` + w + `)(?=` + w + `)|(?<!` + w + `)(?!` + w + `))`, true
}

// escapedChars are the escapes of control characters.
var escapedChars = map[rune]rune{'t': '\t', 'v': '\v', 'n': '\n', 'r': '\r', 'f': '\f', 'a': '\a', 'e': '\x1b'}

// escapedSet returns the set of the escape of a character type.
func escapedSet(c rune) (s chars.Set, ok bool) {
	t := types()
	switch c {
	case 'w', 'W':
		s = t.word
	case 's', 'S':
		s = t.space
	case 'd', 'D':
		s = t.digit
	case 'h', 'H':
		s = t.hex
	case 'N':
		return newline.Not(), true
	case 'O':
		return chars.All, true
	default:
		return nil, false
	}
	if unicode.IsUpper(c) {
		s = s.Not()
	}
	return s, true
}

// atom reads one character, set, anchor or group.
func (p *reader) atom(depth int) (part, error) {
	c := p.peek()
	p.pos++
	switch c {
	case '(':
		return p.group(depth)
	case '[':
		s, err := p.class(0)
		return setPart(s), err
	case '.':
		if p.all {
			return setPart(chars.All), nil
		}
		return setPart(newline.Not()), nil
	case '^', '$':
		text, _ := anchor(c)
		return part{text: text, reach: look(part{})}, nil
	case '*', '+', '?':
		return part{}, p.errorf("nothing to repeat before %c", c)
	case '\\':
		return p.escape()
	}
	return p.literal(c)
}

// setPart is the part that matches one character of s.
func setPart(s chars.Set) part { return part{text: setText(s), set: s, reach: character(s)} }

// literal is the part that matches the character c.
func (p *reader) literal(c rune) (part, error) {
	s := chars.Of(c)
	if !p.fold {
		return setPart(s), nil
	}
	if s.Overlaps(chars.FoldsToMany) {
		return part{}, p.refuse("%q where case does not count", string(c))
	}
	out := setPart(s.Fold())
	out.letter = unicode.ToLower(c)
	return out, nil
}

// escape reads what follows a backslash outside of a class.
func (p *reader) escape() (part, error) {
	c := p.peek()
	if text, ok := anchor(c); ok && c != '^' && c != '$' {
		p.pos++
		return part{text: text, reach: look(part{})}, nil
	}
	s, isChar, err := p.escaped()
	if err != nil {
		return part{}, err
	}
	if r, ok := s.One(); ok && isChar {
		return p.literal(r)
	}
	switch t := types(); {
	case slices.Equal(s, t.word):
		s = t.looseWord
	case slices.Equal(s, t.word.Not()):
		s = t.looseWord.Not()
	}
	return setPart(s), nil
}

// escaped reads what follows a backslash in or out of a class; char tells a
// character from a set.
func (p *reader) escaped() (s chars.Set, char bool, err error) {
	c := p.peek()
	p.pos++
	if r, ok := escapedChars[c]; ok {
		return chars.Of(r), true, nil
	}
	if s, ok := escapedSet(c); ok {
		return s, false, nil
	}
	switch {
	case c < 0:
		return nil, false, p.errorf("ends in a backslash")
	case c == 'p' || c == 'P':
		s, err := p.property(c)
		return s, false, err
	case c == 'x' || c == 'u':
		r, err := p.hex(c)
		return chars.Of(r), true, err
	case c == '0':
		return chars.Of(0), true, p.noOctal()
	case c < unicode.MaxASCII && (unicode.IsLetter(c) || unicode.IsDigit(c)):
		return nil, false, p.refuse(`\%c`, c)
	}
	return chars.Of(c), true, nil
}

// noOctal refuses an octal number that is longer than \0.
func (p *reader) noOctal() error {
	if c := p.peek(); c >= '0' && c <= '7' {
		return p.refuse("an octal number")
	}
	return nil
}

// hex reads the number of \xH, \xHH, \x{H...} or \uHHHH.
func (p *reader) hex(kind rune) (rune, error) {
	var digits string
	switch {
	case kind == 'x' && p.accept("{"):
		start := p.pos
		for p.peek() >= 0 && p.peek() != '}' {
			p.pos++
		}
		digits = string(p.in[start:p.pos])
		if !p.accept("}") {
			return 0, p.errorf(`\x{ without }`)
		}
	default:
		most := 2
		if kind == 'u' {
			most = 4
		}
		start := p.pos
		for p.pos < start+most && p.peek() < unicode.MaxASCII && strings.ContainsRune("0123456789abcdefABCDEF", p.peek()) {
			p.pos++
		}
		digits = string(p.in[start:p.pos])
		if kind == 'u' && len(digits) != most {
			return 0, p.errorf(`\u wants four digits`)
		}
		if kind == 'x' && (digits == "" || len(digits) == 2 && digits[0] >= '8') {
			return 0, p.refuse(`\x%s`, digits) // a byte of UTF-8, not a character
		}
	}
	v, err := strconv.ParseUint(digits, 16, 32)
	if err != nil || v > unicode.MaxRune || v >= 0xD800 && v <= 0xDFFF {
		return 0, p.errorf("%q is not the number of a character", digits)
	}
	return rune(v), nil
}

// property reads {Name} or {^Name} after \p or \P, whose letter is given.
func (p *reader) property(letter rune) (chars.Set, error) {
	negated := letter == 'P'
	if !p.accept("{") {
		return nil, p.refuse(`\p without {`)
	}
	if p.accept("^") {
		negated = !negated
	}
	start := p.pos
	for p.peek() >= 0 && p.peek() != '}' {
		p.pos++
	}
	name := string(p.in[start:p.pos])
	if !p.accept("}") {
		return nil, p.errorf(`\p{ without }`)
	}
	s, ok := property(name)
	if !ok {
		return nil, p.refuse("property %q", name)
	}
	if negated {
		s = s.Not()
	}
	return s, nil
}

// groups are the openings of groups without options, and what they become.
// Captures are not kept: nothing can refer to them.
var groups = []struct{ open, text string }{
	{"?:", plainGroup}, {"?=", "(?="}, {"?!", "(?!"}, {"?<=", "(?<="}, {"?<!", "(?<!"}, {"?>", "(?>"},
}

// plainGroup opens a group that may match in more than one way; all others
// keep to the first that they find.
const plainGroup = "(?:"

// group reads what follows "(".
func (p *reader) group(depth int) (part, error) {
	fold, all, wide := p.fold, p.all, p.wide
	for _, g := range groups {
		if p.accept(g.open) {
			return p.body(depth, g.text)
		}
	}
	if p.accept("?<") || p.accept("?'") {
		for p.peek() >= 0 && p.peek() != '>' && p.peek() != '\'' {
			p.pos++
		}
		p.pos++
		return p.body(depth, plainGroup)
	}
	if !p.accept("?") {
		if p.peek() == '*' {
			return part{}, p.refuse("(*")
		}
		return p.body(depth, plainGroup)
	}
	rest, err := p.options()
	if err != nil {
		return part{}, err
	}
	var out part
	if rest { // (?i) holds up to the end of the group that it stands in, alternatives included
		out, err = p.alternatives(depth + 1)
		out = part{text: "(?:" + out.text + ")", cost: out.cost, reach: out.reach}
	} else {
		out, err = p.body(depth, plainGroup)
	}
	p.fold, p.all, p.wide = fold, all, wide
	return out, err
}

// body reads the inside of a group and its ")".
func (p *reader) body(depth int, open string) (part, error) {
	fold, all, wide := p.fold, p.all, p.wide
	in, err := p.alternatives(depth + 1)
	if err != nil {
		return part{}, err
	}
	p.fold, p.all, p.wide = fold, all, wide
	if !p.accept(")") {
		return part{}, p.errorf("( without )")
	}
	out := part{text: open + in.text + ")", cost: in.cost, reach: in.reach}
	if open == "(?>" {
		out.cost, out.reach = cost{}, in.reach.once()
	} else if open != plainGroup {
		out.cost, out.reach = cost{}, look(in)
	} else if in.set != nil {
		out.text, out.set = in.text, in.set
	} else {
		out.loop = in.loop
	}
	return out, nil
}

// options reads the letters of (?imx-imx:...) or (?imx-imx); rest tells the second.
func (p *reader) options() (rest bool, err error) {
	on := true
	for {
		c := p.peek()
		p.pos++
		switch c {
		case 'i':
			p.fold = on
		case 'm':
			p.all = on
		case 'x':
			p.wide = on
		case '-':
			on = false
		case ':', ')':
			return c == ')', nil
		case -1:
			return false, p.errorf("(? without )")
		default:
			return false, p.refuse("(?%c", c)
		}
	}
}
