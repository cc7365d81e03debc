package jinja

// tags has a reader for every tag that begins a statement. It reads from behind
// the tag's name, t.
var tags map[string]func(p *parser, t token) []statement

func init() { // a literal would refer to itself
	tags = map[string]func(p *parser, t token) []statement{
		"if": (*parser).parseIf, "for": (*parser).parseFor, "set": (*parser).parseSet, "macro": (*parser).parseMacro,
		"call": (*parser).parseCall, "generation": (*parser).parseGeneration, "filter": (*parser).parseFilterBlock,
		"with": (*parser).parseWith, "autoescape": (*parser).parseAutoescape, "block": (*parser).parseBlock,
		"print": (*parser).parsePrint, "break": (*parser).parseJump, "continue": (*parser).parseJump,
		"include": (*parser).parseForeign, "import": (*parser).parseForeign, "from": (*parser).parseForeign, "extends": (*parser).parseForeign,
	}
}

func (p *parser) parseIf(t token) []statement {
	s := &conditional{line: t.line}
	for {
		s.tests = append(s.tests, p.tuple(0, false))
		s.bodies = append(s.bodies, p.body("elif", "else", "endif"))
		end := p.next().text
		if end == "elif" {
			continue
		}
		if end == "else" {
			s.other = p.closed("endif")
		}
		return []statement{s}
	}
}

func (p *parser) parseFor(t token) []statement {
	s := &loop{line: t.line, inner: &scope{}, elsewise: &scope{}}
	s.target = p.target("in")
	p.expect("in")
	s.over = p.tuple(0, false, "recursive")
	if p.skip("if") {
		s.only = p.expression()
	}
	s.recursive = p.skip("recursive")
	s.body = p.body("endfor", "else")
	if p.next().text == "else" {
		s.other = p.closed("endfor")
	}
	return []statement{s}
}

func (p *parser) parseSet(t token) []statement {
	target := p.target()
	if p.skip("=") {
		return []statement{&assignment{target, p.tuple(withCondition, false), t.line}}
	}
	s := &capture{target: target, inner: &scope{}, line: t.line}
	if p.token().is("|") {
		s.filter = p.filters(nil)
	}
	s.body = p.closed("endset")
	return []statement{s}
}

func (p *parser) parseMacro(t token) []statement {
	s := &macro{name: p.targetName(), line: t.line, inner: &scope{}}
	s.signature = p.signature()
	s.body = p.closed("endmacro")
	return []statement{s}
}

func (p *parser) parseCall(t token) []statement {
	s := &callBlock{body: &macro{line: t.line, inner: &scope{}}, line: t.line}
	if p.token().is("(") {
		s.body.signature = p.signature()
	}
	c, ok := p.expression().(*call)
	if !ok {
		p.failAt(t.line, "expected call")
	}
	s.call = c
	s.body.body = p.closed("endcall")
	return []statement{s}
}

func (p *parser) parseGeneration(t token) []statement {
	body := &macro{line: t.line, inner: &scope{}}
	body.body = p.closed("endgeneration")
	return []statement{&callBlock{body: body, line: t.line}}
}

// signature reads the parameters of a macro or call block.
func (p *parser) signature() signature {
	var s signature
	p.expect("(")
	for !p.token().is(")") {
		if len(s.parameters) > 0 {
			p.expect(",")
		}
		s.parameters = append(s.parameters, p.targetName())
		if p.skip("=") {
			s.defaults = append(s.defaults, p.expression())
		} else if len(s.defaults) > 0 {
			p.fail("non-default argument follows default argument")
		}
	}
	p.expect(")")
	return s
}

func (p *parser) parseFilterBlock(t token) []statement {
	s := &filterBlock{inner: &scope{}, line: t.line}
	s.filter = p.filters(p.filter(nil))
	s.body = p.closed("endfilter")
	return []statement{s}
}

func (p *parser) parseWith(t token) []statement {
	s := &with{inner: &scope{}, line: t.line}
	for p.token().kind != blockEnd {
		if len(s.targets) > 0 {
			p.expect(",")
		}
		s.targets = append(s.targets, p.target())
		p.expect("=")
		s.values = append(s.values, p.expression())
	}
	s.body = p.closed("endwith")
	return []statement{s}
}

func (p *parser) parseAutoescape(t token) []statement {
	s := &autoescape{value: p.expression(), inner: &scope{}, line: t.line}
	s.body = p.closed("endautoescape")
	return []statement{s}
}

func (p *parser) parseBlock(t token) []statement {
	name := p.expectKind(nameToken).text
	if p.blocks[name] {
		panic(&failure{kind: AssertionError, line: t.line, message: "block '" + name + "' defined twice"})
	}
	p.blocks[name] = true
	p.skip("scoped")
	p.skip("required")
	s := &block{name: name, inner: &scope{}, line: t.line}
	s.body = p.body("endblock")
	p.next()
	p.skip(name)
	return []statement{s}
}

func (p *parser) parsePrint(t token) []statement {
	var list []statement
	for p.token().kind != blockEnd {
		if len(list) > 0 {
			p.expect(",")
		}
		list = append(list, newOutput(p.expression(), t.line))
	}
	return list
}

func (p *parser) parseJump(t token) []statement {
	to := breakLoop
	if t.text == "continue" {
		to = continueLoop
	}
	return []statement{&jump{to, t.line}}
}

// parseForeign reads a tag that needs other files. It is refused when it is
// reached.
func (p *parser) parseForeign(t token) []statement {
	for p.token().kind != blockEnd && p.token().kind != endOfTemplate {
		p.next()
	}
	return []statement{&foreign{t.text, t.line}}
}
