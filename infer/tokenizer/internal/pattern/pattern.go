package pattern

import (
	"fmt"
	"strconv"
	"strings"

	"exl2/infer/tokenizer/internal/chars"
	"exl2/infer/tokenizer/internal/jsonfields"
)

// translate writes a regular expression in Oniguruma's syntax for package
// regexp2. The expression is taken apart and written anew in what the two agree
// on: sets of characters become plain ranges, so that no engine's idea of \w or
// of case counts. What cannot be written so, and what may take exponential
// time, is refused.
func translate(expr string) (part, error) {
	p := &reader{in: []rune(expr)}
	if len(p.in) > maxLength {
		return part{}, fmt.Errorf("regex of %d characters, more than %d: %w", len(p.in), maxLength, jsonfields.ErrUnsupported)
	}
	out, err := p.alternatives(0)
	if err == nil && p.pos < len(p.in) {
		err = p.errorf("unexpected )")
	}
	return out, err
}

// A reader walks an expression by recursive descent.
type reader struct {
	in   []rune
	pos  int
	fold bool // (?i): case does not count
	all  bool // (?m): the dot matches newlines
	wide bool // (?x): white space and comments do not count
}

// A part is a translated part of an expression.
type part struct {
	text   string
	set    chars.Set // what it matches, if that is always one character
	letter rune      // the literal letter that it is where case does not count, else 0
	cost   cost
	reach  reach
	loop   *loop // what it is, if that is a greedy repeat of one set
}

// A loop is s*, s+, s? or s{least,most} with least at most 1.
type loop struct {
	set   chars.Set
	least int
}

// Limits of an expression, and of what it becomes.
const (
	maxLength  = 4096    // characters
	maxRewrite = 1 << 22 // bytes
)

// maxNesting bounds the depth of groups, and so of recursion.
const maxNesting = 200

// errorf returns an error that tells the place.
func (p *reader) errorf(format string, args ...any) error {
	return fmt.Errorf("at character %d: %s", p.pos, fmt.Sprintf(format, args...))
}

// refuse is errorf for what is valid but not supported.
func (p *reader) refuse(format string, args ...any) error {
	return fmt.Errorf("at character %d: %s: %w", p.pos, fmt.Sprintf(format, args...), jsonfields.ErrUnsupported)
}

// peek returns the next character, or -1 at the end.
func (p *reader) peek() rune {
	if p.pos < len(p.in) {
		return p.in[p.pos]
	}
	return -1
}

// accept steps over s if it follows.
func (p *reader) accept(s string) bool {
	runes := []rune(s)
	if len(p.in)-p.pos < len(runes) || string(p.in[p.pos:p.pos+len(runes)]) != s {
		return false
	}
	p.pos += len(runes)
	return true
}

// alternatives reads a|b|c up to a ")" or the end.
func (p *reader) alternatives(depth int) (part, error) {
	if depth > maxNesting {
		return part{}, p.refuse("groups nested deeper than %d", maxNesting)
	}
	first, err := p.sequence(depth)
	if err != nil {
		return part{}, err
	}
	texts, out := []string{first.text}, first
	for p.accept("|") {
		next, err := p.sequence(depth)
		if err != nil {
			return part{}, err
		}
		texts = append(texts, next.text)
		if out.set == nil || next.set == nil {
			out = part{cost: out.cost.or(next.cost), reach: out.reach.or(next.reach)}
			continue
		}
		out.set = out.set.Union(next.set)
		out.reach = character(out.set)
	}
	if len(texts) > 1 {
		out.letter, out.loop, out.text = 0, nil, "(?:"+strings.Join(texts, "|")+")"
		if out.set != nil {
			out.text = setText(out.set)
		}
	}
	return out, nil
}

// sequence reads repeated atoms up to "|", ")" or the end.
func (p *reader) sequence(depth int) (part, error) {
	out := part{reach: reach{empty: true, always: true, skips: true}}
	before := rune(0) // the literal letter just before
	for n := 0; ; n++ {
		p.skipSpace()
		if c := p.peek(); c < 0 || c == '|' || c == ')' {
			return out, nil
		}
		a, err := p.repeated(depth)
		if err != nil {
			return part{}, err
		}
		if multiFold(before, a.letter) {
			return part{}, p.refuse("%q where case does not count", string([]rune{before, a.letter}))
		}
		before = a.letter
		if n == 0 {
			out = a
			continue
		}
		out = part{text: out.text + a.text, cost: out.cost.then(a.cost), reach: out.before(a)}
		if !out.cost.ok() {
			return part{}, p.refuse("too many alternatives or repeats in a row (matching may take exponential time)")
		}
		if len(out.text) > maxRewrite {
			return part{}, p.refuse("too many sets")
		}
	}
}

// multiFold reports whether two letters are the case folding of one
// character: where case does not count, Oniguruma matches "ß" with "ss".
func multiFold(a, b rune) bool {
	switch string([]rune{a, b}) {
	case "ss", "ff", "fi", "fl", "st":
		return true
	}
	return false
}

// skipSpace skips comments, and white space where (?x) is on.
func (p *reader) skipSpace() {
	for {
		switch {
		case p.accept("(?#"):
			for p.peek() >= 0 && !p.accept(")") {
				p.pos++
			}
		case p.wide && strings.ContainsRune(" \t\n\v\f\r", p.peek()):
			p.pos++
		case p.wide && p.peek() == '#':
			for p.peek() >= 0 && p.peek() != '\n' {
				p.pos++
			}
		default:
			return
		}
	}
}

// repeated reads an atom and its quantifiers.
func (p *reader) repeated(depth int) (part, error) {
	out, err := p.atom(depth)
	for err == nil {
		p.skipSpace()
		least, most, ok := p.quantifier()
		if !ok {
			return out, nil
		}
		mode := ""
		interval := p.in[p.pos-1] == '}'
		switch {
		case interval && least == most: // {n}? is {n} made optional, {n}+ is {n} repeated
		case p.accept("?"):
			mode = "?"
		case !interval && p.accept("+"):
			mode = "+"
		}
		out, err = p.repeat(out, least, most, mode)
	}
	return part{}, err
}

// endless is the upper bound of a quantifier that has none.
const endless = -1

// maxRepeat is Oniguruma's own limit of the numbers in {n,m}.
const maxRepeat = 100000

// quantifier reads *, +, ?, {n}, {n,}, {,m} or {n,m}; any other brace is a character.
func (p *reader) quantifier() (least, most int, ok bool) {
	switch {
	case p.accept("*"):
		return 0, endless, true
	case p.accept("+"):
		return 1, endless, true
	case p.accept("?"):
		return 0, 1, true
	case p.peek() != '{':
		return 0, 0, false
	}
	end := p.pos
	for end < len(p.in) && p.in[end] != '}' {
		end++
	}
	if end == len(p.in) {
		return 0, 0, false
	}
	low, high, comma := strings.Cut(string(p.in[p.pos+1:end]), ",")
	if !comma {
		high = low
	}
	least, most, ok = bounds(low, high)
	if ok {
		p.pos = end + 1
	}
	return least, most, ok
}

// bounds reads the numbers of {low,high}, of which one may be empty.
func bounds(low, high string) (least, most int, ok bool) {
	if low == "" && high == "" {
		return 0, 0, false
	}
	least, most = 0, endless
	for _, n := range []struct {
		text string
		to   *int
	}{{low, &least}, {high, &most}} {
		if n.text == "" {
			continue
		}
		v, err := strconv.ParseUint(n.text, 10, 31)
		if err != nil {
			return 0, 0, false
		}
		*n.to = int(v)
	}
	return least, most, true
}

// repeat applies a quantifier; mode is "" (greedy), "?" (lazy) or "+" (possessive).
func (p *reader) repeat(a part, least, most int, mode string) (part, error) {
	switch {
	case least > maxRepeat || most > maxRepeat:
		return part{}, p.errorf("repeat of more than %d", maxRepeat)
	case most != endless && most < least:
		return part{}, p.refuse("{%d,%d} with bounds swapped", least, most)
	case a.loop != nil && most == endless && least < 2 && mode != "?":
		// (s{0,3})* and the like match what s* does: from each place on all lengths, longer ones first.
		return p.repeat(setPart(a.loop.set), min(least, a.loop.least), endless, mode)
	case !a.cost.free() && (most == endless || !a.cost.times(least, most).ok()):
		return part{}, p.refuse("a repeat inside a repeat, or alternatives inside one (matching may take exponential time)")
	}
	text := a.text
	if a.set == nil {
		text = "(?:" + text + ")"
	}
	switch {
	case most == endless && least < 2:
		text += string("*+"[least])
	case least == 0 && most == 1:
		text += "?"
	case most == endless:
		text += fmt.Sprintf("{%d,}", least)
	default:
		text += fmt.Sprintf("{%d,%d}", least, most)
	}
	out := part{cost: a.cost.times(least, most)}
	out.reach = a.repeated(least, out.cost, mode == "+")
	if a.set != nil && least < 2 && mode == "" {
		out.loop = &loop{a.set, least}
	}
	switch mode {
	case "?":
		text += "?"
	case "+":
		text, out.cost = "(?>"+text+")", cost{}
	}
	out.text = text
	return out, nil
}
