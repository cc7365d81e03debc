package jinja

// A scope is what is known of a body's variables before it runs.
type scope struct {
	// unset are the variables that the body sets before it reads them, outside of
	// conditions, and that no outer body knows: until then they are undefined,
	// whatever the caller has given.
	unset []string
}

// A level is the analysis of one scope.
type level struct {
	parent *level
	scope  *scope
	known  map[string]bool // read or set here
	later  []func()        // the analysis of inner scopes
}

// place is where a statement or expression stands.
type place struct {
	soft bool // in a condition: an unknown filter or test fails only when reached
	jump bool // in a loop: break and continue are possible
	loop bool // in a loop: its variable cannot be set
	cond bool // in a condition of this level
}

// check analyzes a template, and refuses what Jinja refuses before it renders.
func check(body []statement) *scope {
	s := &scope{}
	analyze(nil, s, func(l *level) { l.body(body, place{}) })
	return s
}

// analyze runs f on a new level, and then the analysis of the levels inside.
func analyze(parent *level, s *scope, f func(*level)) {
	l := &level{parent: parent, scope: s, known: map[string]bool{}}
	f(l)
	for _, inner := range l.later {
		inner()
	}
}

// inner puts the analysis of an inner scope off until this level is known.
func (l *level) inner(s *scope, f func(*level)) {
	l.later = append(l.later, func() { analyze(l, s, f) })
}

func (l *level) knows(id string) bool {
	return l != nil && (l.known[id] || l.parent.knows(id))
}

// set notes that a variable is set.
func (l *level) set(id string, at place) {
	if !l.known[id] && !l.parent.knows(id) && !at.cond {
		l.scope.unset = append(l.scope.unset, id)
	}
	l.known[id] = true
}

// target notes the variables that a target sets; parameters come with a value.
func (l *level) target(e expression, at place, parameter bool, line int) {
	switch e := e.(type) {
	case name:
		if e.id == "loop" && at.loop {
			panic(&failure{kind: AssertionError, line: line, message: "Can't assign to special loop variable in for-loop target"})
		}
		if parameter {
			l.known[e.id] = true
		} else {
			l.set(e.id, at)
		}
	case *namespaceRef:
		l.known[e.id] = true
	case tupleOf:
		for _, x := range e.items {
			l.target(x, at, parameter, line)
		}
	}
}

// read notes the variables that an expression reads, and refuses unknown
// filters and tests.
func (l *level) read(e expression, at place) {
	switch e := e.(type) {
	case nil:
		return
	case name:
		l.known[e.id] = true
		return
	case *choice:
		at.soft = true
	case *filter:
		if filters[e.name] == nil && !at.soft {
			raiseMissing(AssertionError, e.line, "filter", e.name, "No filter named '"+e.name+"'.")
		}
	case *test:
		if tests[e.name] == nil && !at.soft {
			raiseMissing(AssertionError, e.line, "test", e.name, "No test named '"+e.name+"'.")
		}
	}
	for _, part := range e.parts() {
		l.read(part, at)
	}
}

func (l *level) body(body []statement, at place) {
	for _, s := range body {
		l.statement(s, at)
	}
}

// hard is a place in a scope inside this one.
func (at place) hard() place { return place{jump: at.jump, loop: at.loop} }

func (l *level) statement(s statement, at place) {
	switch s := s.(type) {
	case *output:
		l.read(s.x, at)
	case *conditional:
		l.conditional(s, at)
	case *loop:
		l.loop(s, at)
	case *assignment:
		l.read(s.value, at)
		l.target(s.target, at, false, s.line)
	case *capture:
		l.target(s.target, at, false, s.line)
		l.inner(s.inner, func(l *level) { l.body(s.body, at.hard()); l.read(s.filter, at.hard()) })
	case *macro:
		l.set(s.name, at)
		l.macro(s, at)
	case *callBlock:
		if s.call != nil {
			l.read(s.call, at)
		}
		l.macro(s.body, at)
	case *filterBlock:
		l.read(s.filter, at)
		l.inner(s.inner, func(l *level) { l.body(s.body, at.hard()) })
	case *with:
		l.with(s, at)
	case *autoescape:
		l.inner(s.inner, func(l *level) { l.read(s.value, at.hard()); l.body(s.body, at.hard()) })
	case *block:
		l.later = append(l.later, func() { analyze(nil, s.inner, func(l *level) { l.body(s.body, place{}) }) })
	case *jump:
		if !at.jump {
			panic(&failure{kind: SyntaxError, line: s.line, message: "break and continue stand in loops only"})
		}
	}
}

func (l *level) conditional(s *conditional, at place) {
	at.soft = true
	l.read(s.tests[0], at)
	at.cond = true
	for i, body := range s.bodies {
		if i > 0 {
			l.read(s.tests[i], at)
		}
		l.body(body, at)
	}
	l.body(s.other, at)
}

func (l *level) loop(s *loop, at place) {
	l.read(s.over, at)
	in := place{jump: true, loop: true}
	l.inner(s.inner, func(l *level) {
		l.target(s.target, in, true, s.line)
		l.known["loop"] = true
		l.body(s.body, in)
	})
	l.inner(&scope{}, func(l *level) {
		l.target(s.target, in, true, s.line)
		l.read(s.only, in)
	})
	l.inner(s.elsewise, func(l *level) { l.body(s.other, place{jump: at.jump, loop: true}) })
}

// macro analyzes the body of a macro or call block.
func (l *level) macro(s *macro, at place) {
	for _, p := range []struct {
		id  string
		use *bool
	}{{"varargs", &s.varargs}, {"kwargs", &s.kwargs}, {"caller", &s.caller}} {
		*p.use = mentions(s.body, p.id)
	}
	l.inner(s.inner, func(l *level) {
		for _, id := range append([]string{"varargs", "kwargs", "caller"}, s.parameters...) {
			l.known[id] = true
		}
		for _, d := range s.defaults {
			l.read(d, place{})
		}
		l.body(s.body, place{loop: at.loop})
	})
}

func (l *level) with(s *with, at place) {
	for _, v := range s.values {
		l.read(v, at)
	}
	l.inner(s.inner, func(l *level) {
		for _, t := range s.targets {
			l.target(t, place{}, true, s.line)
		}
		l.body(s.body, at.hard())
	})
}
