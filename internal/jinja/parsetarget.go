package jinja

// target reads what an assignment or a loop assigns to: a name, an attribute of
// a namespace, or a tuple of those. The ends are keywords in front of which it
// stops.
func (p *parser) target(ends ...string) expression {
	t := p.tuple(simple, false, ends...)
	p.checkTarget(t)
	return t
}

// targetName reads a name that can be assigned to.
func (p *parser) targetName() string {
	t := p.expectKind(nameToken)
	if _, ok := constants[t.text]; ok {
		p.failAt(t.line, "can't assign to 'name'")
	}
	return t.text
}

func (p *parser) checkTarget(e expression) {
	switch e := e.(type) {
	case name, *namespaceRef:
		return
	case tupleOf:
		for _, x := range e.items {
			p.checkTarget(x)
		}
		return
	}
	p.fail("can't assign to '%s'", nodeName(e))
}

// nodeName returns what Jinja calls an expression that cannot be assigned to.
func nodeName(e expression) string {
	switch e.(type) {
	case constant:
		return "const"
	case listOf:
		return "list"
	case *dictOf:
		return "dict"
	}
	return "expression"
}
