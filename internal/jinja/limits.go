package jinja

// Limits bound what a rendering may use.
type Limits struct {
	Steps int // expressions, statements and elements looked at
	Bytes int // of all texts and lists that are made, and of the buffers for them
	Calls int // macros inside one another
}

// DefaultLimits leave room for conversations of thousands of messages, and end a
// hostile template within seconds. Python gives up at about 190 macros inside one
// another.
var DefaultLimits = Limits{Steps: 10_000_000, Bytes: 256 << 20, Calls: 200}

const (
	maxSource = 4 << 20 // bytes of a template
	maxNest   = 200     // brackets and blocks inside one another
	maxDepth  = 10_000  // evaluations inside one another, generators included
	maxBits   = 1 << 16 // of an integer
	maxDigits = 4300    // of an integer as text, as in Python
	maxRange  = 100_000 // of a range, as in Jinja's sandbox
)

// step counts work: that of reading a text is a step for 64 bytes, and for fewer
// bytes where reading is slow.
func (m *machine) step(n int) {
	if m.steps += n; m.steps > m.limits.Steps || n < 0 {
		raise(LimitError, "the template does not come to an end: more than %d steps", m.limits.Steps)
	}
}

// reserve counts bytes before they are made.
func (m *machine) reserve(n int) {
	if n < 0 || n > m.limits.Bytes-m.bytes {
		raise(LimitError, "the template makes more than %d bytes of text and lists", m.limits.Bytes)
	}
	m.bytes += n
}

// reserveTimes counts count pieces of size bytes each.
func (m *machine) reserveTimes(size, count int) { m.reserve(m.times(size, count)) }

// times returns how many bytes count pieces of size bytes are, or if that is over
// the limit a number that is.
func (m *machine) times(size, count int) int {
	if count > 0 && size > m.limits.Bytes/count {
		return m.limits.Bytes + 1
	}
	return size * max(count, 0)
}

// enter goes one evaluation deeper; leave comes back.
func (m *machine) enter() {
	if m.depth++; m.depth > maxDepth {
		raise(LimitError, "evaluations nested more than %d deep", maxDepth)
	}
}

func (m *machine) leave() { m.depth-- }
