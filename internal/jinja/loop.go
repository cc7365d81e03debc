package jinja

import "fmt"

// A Loop is the variable loop of a running for.
type Loop struct {
	m       *machine
	next    iterator
	ahead   Value // the next element, if peeked
	peeked  bool
	more    bool // whether ahead is one
	current Value
	prior   Value
	index   int // from 0; -1 in front of the first
	length  int // -1 as long as nobody has asked
	depth   int // of recursion, from 0
	changed []Value
	asked   bool // whether changed was called
	recurse func(over Value) Value
}

func (s *loop) run(m *machine, f *frame) signal {
	m.line = s.line
	_, sig := s.iterate(m, f, m.eval(s.over, f), 0)
	return sig
}

// iterate runs the loop over a value.
func (s *loop) iterate(m *machine, f *frame, over Value, depth int) (finished bool, sig signal) {
	m.line = s.line
	l := &Loop{m: m, next: m.iterate(over), index: -1, length: -1, depth: depth}
	if s.only != nil {
		l.next = s.selected(m, f, l.next)
	}
	if s.recursive {
		l.recurse = func(over Value) Value { return s.again(m, f, over, depth+1) }
	}
	for l.advance() {
		m.step(1)
		inner := m.newFrame(f, s.inner)
		inner.set("loop", l)
		m.line = s.line
		m.assign(s.target, l.current, inner)
		switch m.body(s.body, inner) {
		case goOn:
			finished = true
		case breakLoop:
			return s.end(m, f, finished)
		}
	}
	return s.end(m, f, finished)
}

// end runs the else of a loop of which no iteration has finished.
func (s *loop) end(m *machine, f *frame, finished bool) (bool, signal) {
	if finished || s.other == nil {
		return finished, goOn
	}
	return finished, m.body(s.other, m.newFrame(f, s.elsewise))
}

// selected leaves the elements for which the loop's if holds.
func (s *loop) selected(m *machine, f *frame, next iterator) iterator {
	return func() (Value, bool) {
		for {
			v, ok := next()
			if !ok {
				return nil, false
			}
			inner := m.newFrame(f, nil)
			m.assign(s.target, v, inner)
			if truth(m.eval(s.only, inner)) {
				return v, true
			}
		}
	}
}

// again runs a recursive loop inside itself and returns what it writes.
func (s *loop) again(m *machine, f *frame, over Value, depth int) Value {
	m.enterCall()
	defer func() { m.calls-- }()
	outer := m.out
	m.out = &builder{m: m}
	s.iterate(m, f, over, depth)
	text := m.out.String()
	m.out = outer
	if m.escaping {
		return Markup(text)
	}
	return text
}

// advance goes to the next element.
func (l *Loop) advance() bool {
	v, ok := l.peek()
	l.peeked = false
	if !ok {
		return false
	}
	if l.index >= 0 {
		l.prior = l.current
	}
	l.current = v
	l.index++
	return true
}

// peek returns the element behind the current one.
func (l *Loop) peek() (Value, bool) {
	if !l.peeked {
		l.ahead, l.more = l.next()
		l.peeked = true
	}
	return l.ahead, l.more
}

// count returns how many elements there are, reading all of them.
func (l *Loop) count() int {
	if l.length < 0 {
		var rest []Value
		for v, ok := l.peek(); ok; v, ok = l.peek() {
			l.m.reserve(valueBytes)
			rest = append(rest, v)
			l.peeked = false
		}
		l.length = l.index + 1 + len(rest)
		l.next, l.peeked = sliceIterator(rest), false
	}
	return l.length
}

// attribute returns one of the loop's own, or false.
func (l *Loop) attribute(m *machine, id string) (Value, bool) {
	switch id {
	case "index":
		return l.index + 1, true
	case "index0":
		return l.index, true
	case "revindex":
		return l.count() - l.index, true
	case "revindex0":
		return l.count() - l.index - 1, true
	case "length":
		return l.count(), true
	case "first":
		return l.index == 0, true
	case "last":
		_, more := l.peek()
		return !more, true
	case "depth":
		return l.depth + 1, true
	case "depth0":
		return l.depth, true
	case "previtem":
		if l.index == 0 {
			return &Undefined{hint: "there is no previous item"}, true
		}
		return l.prior, true
	case "nextitem":
		if v, more := l.peek(); more {
			return v, true
		}
		return &Undefined{hint: "there is no next item"}, true
	case "cycle":
		return &Function{loopCycle, l}, true
	case "changed":
		return &Function{loopChanged, l}, true
	}
	return nil, false
}

var loopCycle = function("cycle", "self, *values", func(m *machine, a []Value) Value {
	l, values := a[0].(*Loop), a[1].(*Tuple).items
	if len(values) == 0 {
		raise(TypeError, "no items for cycling given")
	}
	return values[l.index%len(values)]
})

var loopChanged = function("changed", "self, *values", func(m *machine, a []Value) Value {
	l, values := a[0].(*Loop), a[1].(*Tuple).items
	if l.asked && m.equal(&Tuple{items: l.changed}, &Tuple{items: values}) {
		return false
	}
	l.changed, l.asked = values, true
	return true
})

func (l *Loop) String() string {
	return fmt.Sprintf("<LoopContext %d/%d>", l.index+1, l.count())
}
