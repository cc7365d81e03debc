package jinja

// An expression has a value.
type expression interface {
	eval(m *machine, f *frame) Value
	parts() []expression // what it is made of; nil entries are absent
}

// Expressions. A line is that of what may fail.
type (
	constant struct{ value Value }

	name struct{ id string }

	// namespaceRef is a target, as in {% set ns.x = 1 %}.
	namespaceRef struct {
		id, attribute string
		line          int
	}

	tupleOf struct{ items []expression }
	listOf  struct{ items []expression }
	dictOf  struct {
		keys, values []expression
		line         int
	}

	// logic is and, and or.
	logic struct {
		and         bool
		left, right expression
	}
	not   struct{ x expression }
	unary struct {
		op   string
		x    expression
		line int
	}
	binary struct {
		op          string
		left, right expression
		line        int
	}
	// comparison is a chain: first ops[0] rest[0] ops[1] rest[1] ...
	comparison struct {
		first expression
		ops   []string
		rest  []expression
		line  int
	}
	concat struct{ items []expression }

	// choice is YES if TEST else NO; no may be nil.
	choice struct {
		yes, test, no expression
		line          int
	}

	attribute struct {
		x    expression
		name string
		line int
	}
	item struct {
		x, index expression
		line     int
	}
	slicing struct {
		x          expression
		lo, hi, by expression // may be nil
		line       int
	}
	call struct {
		x    expression
		args arguments
		line int
	}
	// filter is x|name(args); x is nil at the start of a block's filters.
	filter struct {
		x    expression
		name string
		args arguments
		line int
	}
	// test is x is name(args).
	test struct {
		x    expression
		name string
		args arguments
		line int
	}
)

// arguments are those of a call: positional, by name, *star and **stars.
type arguments struct {
	positional  []expression
	names       []string
	named       []expression
	star, stars expression
}

func (a arguments) parts() []expression {
	return append(append(append([]expression{}, a.positional...), a.named...), a.star, a.stars)
}

func (constant) parts() []expression      { return nil }
func (name) parts() []expression          { return nil }
func (namespaceRef) parts() []expression  { return nil }
func (e tupleOf) parts() []expression     { return e.items }
func (e listOf) parts() []expression      { return e.items }
func (e *dictOf) parts() []expression     { return append(append([]expression{}, e.keys...), e.values...) }
func (e *logic) parts() []expression      { return []expression{e.left, e.right} }
func (e *not) parts() []expression        { return []expression{e.x} }
func (e *unary) parts() []expression      { return []expression{e.x} }
func (e *binary) parts() []expression     { return []expression{e.left, e.right} }
func (e *comparison) parts() []expression { return append([]expression{e.first}, e.rest...) }
func (e concat) parts() []expression      { return e.items }
func (e *choice) parts() []expression     { return []expression{e.test, e.yes, e.no} }
func (e *attribute) parts() []expression  { return []expression{e.x} }
func (e *item) parts() []expression       { return []expression{e.x, e.index} }
func (e *slicing) parts() []expression    { return []expression{e.x, e.lo, e.hi, e.by} }
func (e *call) parts() []expression       { return append([]expression{e.x}, e.args.parts()...) }
func (e *filter) parts() []expression     { return append([]expression{e.x}, e.args.parts()...) }
func (e *test) parts() []expression       { return append([]expression{e.x}, e.args.parts()...) }

// A statement writes to the machine's output.
type statement interface {
	run(m *machine, f *frame) signal
}

// Statements. A body with a *scope of its own keeps what is set inside to itself.
type (
	text string

	output struct {
		x        expression
		constant bool // has no variables
		line     int
	}
	conditional struct {
		tests  []expression
		bodies [][]statement
		other  []statement
		line   int
	}
	loop struct {
		target          expression
		over, only      expression // only, the if of the loop, may be nil
		recursive       bool
		body, other     []statement
		inner, elsewise *scope
		line            int
	}
	assignment struct {
		target, value expression
		line          int
	}
	// capture is {% set x %}...{% endset %}; filter may be nil.
	capture struct {
		target, filter expression
		body           []statement
		inner          *scope
		line           int
	}
	macro struct {
		name  string // "" for the body of a call block
		line  int
		inner *scope
		signature
		body []statement
	}
	// callBlock is {% call(a) m() %}; call is nil for {% generation %}.
	callBlock struct {
		call *call
		body *macro
		line int
	}
	filterBlock struct {
		filter expression
		body   []statement
		inner  *scope
		line   int
	}
	with struct {
		targets, values []expression
		body            []statement
		inner           *scope
		line            int
	}
	autoescape struct {
		value expression
		body  []statement
		inner *scope
		line  int
	}
	// block is {% block name %}: of the outer variables it sees the template's.
	block struct {
		name  string
		body  []statement
		inner *scope
		line  int
	}
	// jump is break or continue.
	jump struct {
		to   signal
		line int
	}
	// foreign is a statement that wants another template.
	foreign struct {
		tag  string
		line int
	}
)

// signature is what a macro takes. The last defaults are those of the last
// parameters. The bodies that mention varargs, kwargs or caller take those.
type signature struct {
	parameters              []string
	defaults                []expression
	varargs, kwargs, caller bool
}

// A signal says how a statement ended.
type signal uint8

const (
	goOn signal = iota
	breakLoop
	continueLoop
)
