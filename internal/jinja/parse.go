package jinja

import (
	"fmt"
	"slices"
	"strings"
)

// A parser turns tokens into statements.
type parser struct {
	tokens []token
	pos    int
	nest   int
	tags   []string   // blocks that are open
	ends   [][]string // what may close them
	blocks map[string]bool
}

// parse reads a template's statements.
func (p *parser) parse() []statement {
	p.check()
	body := p.statements()
	return body
}

func (p *parser) token() token { return p.tokens[p.pos] }

// look returns the token behind the next.
func (p *parser) look() token { return p.tokens[min(p.pos+1, len(p.tokens)-1)] }

// next returns the token and goes to the one behind it.
func (p *parser) next() token {
	t := p.tokens[p.pos]
	if p.pos < len(p.tokens)-1 {
		p.pos++
	}
	p.check()
	return t
}

// check raises the lexer's error if the parser has come to it.
func (p *parser) check() {
	if t := p.token(); t.kind == badToken {
		f := *t.value.(*failure)
		f.line = t.line
		panic(&f)
	}
}

// skip goes over the token if it is the given operator or keyword.
func (p *parser) skip(text string) bool {
	if !p.token().is(text) {
		return false
	}
	p.next()
	return true
}

// expect goes over an operator or keyword.
func (p *parser) expect(text string) {
	if !p.skip(text) {
		p.failExpected(text)
	}
}

// expectKind goes over a token of a kind and returns it.
func (p *parser) expectKind(k kind) token {
	if p.token().kind != k {
		p.failExpected(kindNames[k])
	}
	return p.next()
}

func (p *parser) failExpected(what string) {
	if p.token().kind == endOfTemplate {
		p.fail("unexpected end of template, expected '%s'.", what)
	}
	p.fail("expected token '%s', got '%s'", what, p.token())
}

func (p *parser) fail(format string, args ...any) {
	p.failAt(p.token().line, format, args...)
}

func (p *parser) failAt(line int, format string, args ...any) {
	panic(&failure{kind: SyntaxError, line: line, message: fmt.Sprintf(format, args...)})
}

// deeper counts brackets and blocks inside one another.
func (p *parser) deeper() {
	if p.nest++; p.nest > maxNest {
		panic(&failure{kind: LimitError, line: p.token().line, message: fmt.Sprintf("brackets and blocks nested more than %d deep", maxNest)})
	}
}

// statements reads up to the end of the template or to a tag that begins with
// one of the given names, and stops at the name.
func (p *parser) statements(ends ...string) []statement {
	p.deeper()
	if len(ends) > 0 {
		p.ends = append(p.ends, ends)
		defer func() { p.ends = p.ends[:len(p.ends)-1] }()
	}
	defer func() { p.nest-- }()
	var body []statement
	for {
		switch t := p.token(); t.kind {
		case endOfTemplate:
			if len(ends) > 0 {
				p.failTag("")
			}
			return body
		case data:
			body = append(body, text(t.text))
			p.next()
		case printBegin:
			p.next()
			body = append(body, newOutput(p.tuple(withCondition, false), t.line))
			p.expectKind(printEnd)
		default:
			p.expectKind(blockBegin)
			if slices.ContainsFunc(ends, p.token().is) {
				return body
			}
			body = append(body, p.statement()...)
			p.expectKind(blockEnd)
		}
	}
}

// body reads the statements of a block from the end of its first tag to one of
// the given names.
func (p *parser) body(ends ...string) []statement {
	p.skip(":")
	p.expectKind(blockEnd)
	return p.statements(ends...)
}

// closed reads a body and the name that ends it.
func (p *parser) closed(end string) []statement {
	body := p.body(end)
	p.next()
	return body
}

// statement reads a tag that is not an end, from its name on.
func (p *parser) statement() []statement {
	t := p.token()
	if t.kind != nameToken {
		p.fail("tag name expected")
	}
	read := tags[t.text]
	if read == nil {
		p.failTag(t.text)
	}
	p.tags = append(p.tags, t.text)
	p.next()
	s := read(p, t)
	p.tags = p.tags[:len(p.tags)-1]
	return s
}

// failTag refuses a tag that is unknown, or that ends a statement elsewhere; "" is the
// end of the template.
func (p *parser) failTag(tag string) {
	message := "Unexpected end of template."
	if tag != "" {
		message = fmt.Sprintf("Encountered unknown tag '%s'.", tag)
	}
	if n := len(p.ends); n > 0 {
		expected := slices.ContainsFunc(p.ends, func(ends []string) bool { return slices.Contains(ends, tag) })
		looking := "'" + strings.Join(p.ends[n-1], "' or '") + "'"
		if expected {
			message += " You probably made a nesting mistake. Jinja is expecting this tag, but currently looking for " + looking + "."
		} else {
			message += " Jinja was looking for the following tags: " + looking + "."
		}
	}
	if n := len(p.tags); n > 0 {
		message += fmt.Sprintf(" The innermost block that needs to be closed is '%s'.", p.tags[n-1])
	}
	if tag == "" || tag == "else" || tag == "elif" || strings.HasPrefix(tag, "end") {
		p.fail("%s", message)
	}
	raiseMissing(SyntaxError, p.token().line, "tag", tag, message)
}
