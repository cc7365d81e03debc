package jinja

// children returns what a statement is made of, of all its scopes.
func children(s statement) (expressions []expression, bodies [][]statement) {
	switch s := s.(type) {
	case *output:
		return []expression{s.x}, nil
	case *conditional:
		return s.tests, append(append([][]statement{}, s.bodies...), s.other)
	case *loop:
		return []expression{s.target, s.over, s.only}, [][]statement{s.body, s.other}
	case *assignment:
		return []expression{s.target, s.value}, nil
	case *capture:
		return []expression{s.target, s.filter}, [][]statement{s.body}
	case *macro:
		return s.defaults, [][]statement{s.body}
	case *callBlock:
		expressions, bodies = children(s.body)
		if s.call != nil {
			expressions = append([]expression{s.call}, expressions...)
		}
		return expressions, bodies
	case *filterBlock:
		return []expression{s.filter}, [][]statement{s.body}
	case *with:
		return append(append([]expression{}, s.targets...), s.values...), [][]statement{s.body}
	case *autoescape:
		return []expression{s.value}, [][]statement{s.body}
	}
	return nil, nil
}

// mentions reports whether a body names a variable, at any depth.
func mentions(body []statement, id string) bool {
	for _, s := range body {
		expressions, bodies := children(s)
		for _, e := range expressions {
			if names(e, id) {
				return true
			}
		}
		for _, b := range bodies {
			if mentions(b, id) {
				return true
			}
		}
	}
	return false
}

// names reports whether an expression names a variable.
func names(e expression, id string) bool {
	if e == nil {
		return false
	}
	if n, ok := e.(name); ok {
		return n.id == id
	}
	for _, part := range e.parts() {
		if names(part, id) {
			return true
		}
	}
	return false
}
