package jinja

import "strings"

// constants are the names that stand for values.
var constants = map[string]Value{
	"true": true, "True": true, "false": false, "False": false, "none": nil, "None": nil,
}

func (p *parser) primary() expression {
	t := p.token()
	switch t.kind {
	case nameToken:
		p.next()
		if v, ok := constants[t.text]; ok {
			return constant{v}
		}
		return name{t.text}
	case stringToken:
		var b strings.Builder
		for ; p.token().kind == stringToken; p.next() {
			b.WriteString(p.token().value.(string))
		}
		return constant{b.String()}
	case integerToken, floatToken:
		p.next()
		return constant{t.value}
	}
	switch {
	case t.is("("):
		p.next()
		p.deeper()
		x := p.tuple(withCondition, true)
		p.nest--
		p.expect(")")
		return x
	case t.is("["):
		return p.list()
	case t.is("{"):
		return p.dict()
	}
	p.fail("unexpected '%s'", t)
	return nil
}

func (p *parser) list() expression {
	p.expect("[")
	var items []expression
	for !p.token().is("]") {
		if len(items) > 0 {
			p.expect(",")
		}
		if p.token().is("]") {
			break
		}
		items = append(items, p.expression())
	}
	p.expect("]")
	return listOf{items}
}

func (p *parser) dict() expression {
	d := &dictOf{line: p.token().line}
	p.expect("{")
	for !p.token().is("}") {
		if len(d.keys) > 0 {
			p.expect(",")
		}
		if p.token().is("}") {
			break
		}
		d.keys = append(d.keys, p.expression())
		p.expect(":")
		d.values = append(d.values, p.expression())
	}
	p.expect("}")
	return d
}

// postfix reads attributes, subscripts and calls behind an operand.
func (p *parser) postfix(x expression) expression {
	for {
		t := p.token()
		switch {
		case t.is("."):
			p.next()
			x = p.attribute(x, t.line)
		case t.is("["):
			p.next()
			x = p.subscript(x, t.line)
		case t.is("("):
			x = &call{x, p.arguments(), t.line}
		default:
			return x
		}
	}
}

// filterExpression reads filters, tests and calls behind an operand.
func (p *parser) filterExpression(x expression) expression {
	for {
		t := p.token()
		switch {
		case t.is("|"):
			x = p.filters(x)
		case t.is("is"):
			x = p.test(x)
		case t.is("("):
			x = &call{x, p.arguments(), t.line}
		default:
			return x
		}
	}
}

// attribute reads what is behind a dot.
func (p *parser) attribute(x expression, line int) expression {
	t := p.next()
	switch t.kind {
	case nameToken:
		return &attribute{x, t.text, line}
	case integerToken:
		return &item{x, constant{t.value}, line}
	}
	p.failAt(t.line, "expected name or number")
	return nil
}

// subscript reads what is in brackets, and the closing one.
func (p *parser) subscript(x expression, line int) expression {
	var parts []expression
	for !p.token().is("]") {
		if len(parts) > 0 {
			p.expect(",")
		}
		parts = append(parts, p.index(line))
	}
	p.expect("]")
	if len(parts) == 1 {
		if s, ok := parts[0].(*slicing); ok && s.x == nil {
			s.x = x
			return s
		}
		return &item{x, parts[0], line}
	}
	for _, e := range parts {
		if s, ok := e.(*slicing); ok && s.x == nil {
			p.fail("a slice beside other indexes is not supported")
		}
	}
	return &item{x, tupleOf{parts}, line}
}

// index reads one index, or a slice: one without an object.
func (p *parser) index(line int) expression {
	s := &slicing{line: line}
	if !p.token().is(":") {
		x := p.expression()
		if !p.token().is(":") {
			return x
		}
		s.lo = x
	}
	p.next()
	end := func() bool { t := p.token(); return t.is(":") || t.is("]") || t.is(",") }
	if !end() {
		s.hi = p.expression()
	}
	if p.skip(":") && !end() {
		s.by = p.expression()
	}
	return s
}

// arguments reads those of a call, parentheses included.
func (p *parser) arguments() arguments {
	line := p.token().line
	p.expect("(")
	var a arguments
	ok := func(b bool) {
		if !b {
			p.failAt(line, "invalid syntax for function call expression")
		}
	}
	for count := 0; !p.token().is(")"); count++ {
		if count > 0 {
			p.expect(",")
			if p.token().is(")") {
				break
			}
		}
		switch {
		case p.token().is("*"):
			ok(a.star == nil && a.stars == nil)
			p.next()
			a.star = p.expression()
		case p.token().is("**"):
			ok(a.stars == nil)
			p.next()
			a.stars = p.expression()
		case p.token().kind == nameToken && p.look().is("="):
			ok(a.stars == nil)
			a.names = append(a.names, p.next().text)
			p.next()
			a.named = append(a.named, p.expression())
		default:
			ok(a.star == nil && a.stars == nil && len(a.named) == 0)
			a.positional = append(a.positional, p.expression())
		}
	}
	p.expect(")")
	return a
}

// filters reads |name(...) again and again.
func (p *parser) filters(x expression) expression {
	for p.skip("|") {
		x = p.filter(x)
	}
	return x
}

// filter reads a filter from its name on.
func (p *parser) filter(x expression) expression {
	f := &filter{x: x, line: p.token().line, name: p.dotted()}
	if p.token().is("(") {
		f.args = p.arguments()
	}
	return f
}

// dotted reads the name of a filter or test.
func (p *parser) dotted() string {
	s := p.expectKind(nameToken).text
	for p.skip(".") {
		s += "." + p.expectKind(nameToken).text
	}
	return s
}

// test reads is [not] name, with arguments in parentheses or one without.
func (p *parser) test(x expression) expression {
	line := p.next().line
	negated := p.skip("not")
	t := &test{x: x, line: line, name: p.dotted()}
	switch next := p.token(); {
	case next.is("("):
		t.args = p.arguments()
	case next.is("is"):
		p.fail("You cannot chain multiple tests with is")
	case next.kind == stringToken, next.kind == integerToken, next.kind == floatToken, next.is("["), next.is("{"),
		next.kind == nameToken && !next.is("else") && !next.is("or") && !next.is("and"):
		t.args.positional = []expression{p.postfix(p.primary())}
	}
	if negated {
		return &not{t}
	}
	return t
}
