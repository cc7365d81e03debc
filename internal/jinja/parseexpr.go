package jinja

// How tuple reads its elements: as primaries (targets), with or without inline if.
type tupleMode uint8

const (
	withoutCondition tupleMode = iota
	withCondition
	simple
)

// tuple reads expressions separated by commas: one alone is itself. Empty it is
// only in parentheses of its own. The ends are keywords in front of which it
// stops.
func (p *parser) tuple(mode tupleMode, parenthesized bool, ends ...string) expression {
	read := p.or
	switch mode {
	case withCondition:
		read = p.expression
	case simple:
		read = p.primaryTarget
	}
	var items []expression
	isTuple := false
	for {
		if len(items) > 0 {
			p.expect(",")
		}
		if p.tupleEnds(ends) {
			break
		}
		items = append(items, read())
		if !p.token().is(",") {
			break
		}
		isTuple = true
	}
	if isTuple {
		return tupleOf{items}
	}
	if len(items) > 0 {
		return items[0]
	}
	if !parenthesized {
		p.fail("Expected an expression, got '%s'", p.token())
	}
	return tupleOf{}
}

func (p *parser) tupleEnds(ends []string) bool {
	t := p.token()
	if t.kind == printEnd || t.kind == blockEnd || t.is(")") {
		return true
	}
	for _, e := range ends {
		if t.is(e) {
			return true
		}
	}
	return false
}

// primaryTarget reads an element of a target.
func (p *parser) primaryTarget() expression {
	t := p.token()
	if t.kind == nameToken && p.look().is(".") {
		p.next()
		p.next()
		return &namespaceRef{t.text, p.expectKind(nameToken).text, t.line}
	}
	return p.primary()
}

// expression reads any expression but a tuple without parentheses.
func (p *parser) expression() expression {
	p.deeper()
	defer func() { p.nest-- }()
	x := p.or()
	for p.token().is("if") {
		c := &choice{yes: x, line: p.next().line}
		c.test = p.or()
		if p.skip("else") {
			c.no = p.expression()
		}
		x = c
	}
	return x
}

func (p *parser) or() expression {
	x := p.and()
	for p.skip("or") {
		x = &logic{false, x, p.and()}
	}
	return x
}

func (p *parser) and() expression {
	x := p.not()
	for p.skip("and") {
		x = &logic{true, x, p.not()}
	}
	return x
}

func (p *parser) not() expression {
	if !p.skip("not") {
		return p.comparison()
	}
	p.deeper()
	defer func() { p.nest-- }()
	return &not{p.not()}
}

func (p *parser) comparison() expression {
	c := &comparison{line: p.token().line}
	c.first = p.sum()
	for {
		t := p.token()
		switch {
		case t.kind == operator && (t.text == "==" || t.text == "!=" || t.text == "<" || t.text == "<=" || t.text == ">" || t.text == ">="), t.is("in"):
			p.next()
			c.ops = append(c.ops, t.text)
		case t.is("not") && p.look().is("in"):
			p.next()
			p.next()
			c.ops = append(c.ops, "not in")
		case len(c.ops) == 0:
			return c.first
		default:
			return c
		}
		c.rest = append(c.rest, p.sum())
	}
}

// chain reads operands joined by binary operators, from the left.
func (p *parser) chain(operand func() expression, ops ...string) expression {
	x := operand()
	for {
		t := p.token()
		found := false
		for _, op := range ops {
			found = found || t.kind == operator && t.text == op
		}
		if !found {
			return x
		}
		p.next()
		x = &binary{t.text, x, operand(), t.line}
	}
}

func (p *parser) sum() expression { return p.chain(p.concat, "+", "-") }

func (p *parser) concat() expression {
	items := []expression{p.product()}
	for p.skip("~") {
		items = append(items, p.product())
	}
	if len(items) == 1 {
		return items[0]
	}
	return concat{items}
}

func (p *parser) product() expression { return p.chain(p.power, "*", "/", "//", "%") }

func (p *parser) power() expression {
	return p.chain(func() expression { return p.unary(true) }, "**")
}

// unary reads an operand with its signs and all that follows it.
func (p *parser) unary(filters bool) expression {
	t := p.token()
	var x expression
	if t.is("-") || t.is("+") {
		p.deeper()
		p.next()
		x = &unary{t.text, p.unary(false), t.line}
		p.nest--
	} else {
		x = p.primary()
	}
	x = p.postfix(x)
	if filters {
		x = p.filterExpression(x)
	}
	return x
}
