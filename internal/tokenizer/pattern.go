package tokenizer

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/dlclark/regexp2/v2"
)

// compilePattern compiles a regular expression of a tokenizer.json, which is
// in Oniguruma's syntax, for package regexp2. The expression is taken apart
// and written anew in what the two agree on: sets of characters become plain
// ranges, so that no engine's idea of \w or of case counts. What cannot be
// written so, and what may take exponential time, is refused.
func compilePattern(expr string) (*regexp2.Regexp, error) {
	p := &patternReader{in: []rune(expr)}
	if len(p.in) > maxPattern {
		return nil, fmt.Errorf("regex of %d characters, more than %d: %w", len(p.in), maxPattern, ErrUnsupported)
	}
	out, err := p.alternatives(0)
	if err == nil && p.pos < len(p.in) {
		err = p.errorf("unexpected )")
	}
	if err != nil {
		return nil, fmt.Errorf("regex %q: %w", expr, err)
	}
	re, err := regexp2.Compile(out.text, regexp2.OptionMaxBacktrackingStackSize(-1))
	if err != nil {
		return nil, fmt.Errorf("regex %q: %w", expr, err)
	}
	return re, nil
}

// A patternReader walks an expression by recursive descent.
type patternReader struct {
	in   []rune
	pos  int
	fold bool // (?i): case does not count
	all  bool // (?m): the dot matches newlines
	wide bool // (?x): white space and comments do not count
}

// A part is a translated part of an expression.
type part struct {
	text   string
	set    runeSet // what it matches, if that is always one character
	letter rune    // the literal letter that it is where case does not count, else 0
	slack  int     // in how many places it may match in more than one way
}

// maxSlack bounds part.slack: the ways to match a text may be as many as 2^slack.
const maxSlack = 64

// maxNesting bounds the depth of groups, and so of recursion.
const maxNesting = 200

// errorf returns an error that tells the place.
func (p *patternReader) errorf(format string, args ...any) error {
	return fmt.Errorf("at character %d: %s", p.pos, fmt.Sprintf(format, args...))
}

// refuse is errorf for what is valid but not supported.
func (p *patternReader) refuse(format string, args ...any) error {
	return fmt.Errorf("at character %d: %s: %w", p.pos, fmt.Sprintf(format, args...), ErrUnsupported)
}

// peek returns the next character, or -1 at the end.
func (p *patternReader) peek() rune {
	if p.pos < len(p.in) {
		return p.in[p.pos]
	}
	return -1
}

// accept steps over s if it follows.
func (p *patternReader) accept(s string) bool {
	runes := []rune(s)
	if len(p.in)-p.pos < len(runes) || string(p.in[p.pos:p.pos+len(runes)]) != s {
		return false
	}
	p.pos += len(runes)
	return true
}

// alternatives reads a|b|c up to a ")" or the end.
func (p *patternReader) alternatives(depth int) (part, error) {
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
			out = part{slack: max(out.slack, next.slack, 1)}
			continue
		}
		out.set = out.set.union(next.set)
	}
	if len(texts) > 1 {
		out.letter, out.text = 0, "(?:"+strings.Join(texts, "|")+")"
		if out.set != nil {
			out.text = out.set.pattern()
		}
	}
	return out, nil
}

// sequence reads repeated atoms up to "|", ")" or the end.
func (p *patternReader) sequence(depth int) (part, error) {
	var out part
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
		out = part{text: out.text + a.text, slack: out.slack + a.slack}
		if out.slack > maxSlack || len(out.text) > maxRewrite {
			return part{}, p.refuse("too many repeats or sets")
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
func (p *patternReader) skipSpace() {
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
func (p *patternReader) repeated(depth int) (part, error) {
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
func (p *patternReader) quantifier() (least, most int, ok bool) {
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
func (p *patternReader) repeat(a part, least, most int, mode string) (part, error) {
	switch {
	case least > maxRepeat || most > maxRepeat:
		return part{}, p.errorf("repeat of more than %d", maxRepeat)
	case most != endless && most < least:
		return part{}, p.refuse("{%d,%d} with bounds swapped", least, most)
	case a.slack > 0 && (most == endless || most > maxSlack/a.slack):
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
	out := part{slack: a.slack * max(most, 1)}
	if least != most {
		out.slack++
	}
	switch mode {
	case "?":
		text += "?"
	case "+":
		text, out.slack = "(?>"+text+")", 0
	}
	out.text = text
	return out, nil
}

// foldsToMany holds the characters whose case folding is several characters,
// from Unicode's CaseFolding.txt (status F).
var foldsToMany = runeSet{
	{0xDF, 0xDF}, {0x130, 0x130}, {0x149, 0x149}, {0x1F0, 0x1F0}, {0x390, 0x390}, {0x3B0, 0x3B0}, {0x587, 0x587},
	{0x1E96, 0x1E9A}, {0x1E9E, 0x1E9E}, {0x1F50, 0x1F50}, {0x1F52, 0x1F52}, {0x1F54, 0x1F54}, {0x1F56, 0x1F56},
	{0x1F80, 0x1FAF}, {0x1FB2, 0x1FB4}, {0x1FB6, 0x1FB7}, {0x1FBC, 0x1FBC}, {0x1FC2, 0x1FC4}, {0x1FC6, 0x1FC7},
	{0x1FCC, 0x1FCC}, {0x1FD2, 0x1FD3}, {0x1FD6, 0x1FD7}, {0x1FE2, 0x1FE4}, {0x1FE6, 0x1FE7}, {0x1FF2, 0x1FF4},
	{0x1FF6, 0x1FF7}, {0x1FFC, 0x1FFC}, {0xFB00, 0xFB06}, {0xFB13, 0xFB17},
}
