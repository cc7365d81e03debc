package pattern

import "math"

// A cost says in how many ways a part of an expression may match at one place:
// up to 2^choices times the length of the text to the power of loops.
type cost struct {
	choices float64
	loops   int
}

// Bounds of a cost. The patterns of real tokenizers stay below 10 choices and
// 4 loops; the time that a text may take bounds what these let through.
const (
	maxChoices = 20
	maxLoops   = 12
)

// ok reports whether c is within bounds.
func (c cost) ok() bool { return c.choices <= maxChoices && c.loops <= maxLoops }

// free reports whether there is one way at most.
func (c cost) free() bool { return c == cost{} }

// then is the cost of c followed by d.
func (c cost) then(d cost) cost { return cost{c.choices + d.choices, c.loops + d.loops} }

// or is the cost of c or else d.
func (c cost) or(d cost) cost {
	hi, lo := max(c.choices, d.choices), min(c.choices, d.choices)
	return cost{hi + math.Log2(1+math.Exp2(lo-hi)), max(c.loops, d.loops)}
}

// times is the cost of c repeated; most is endless only if c is free.
func (c cost) times(least, most int) cost {
	if most == endless {
		return cost{loops: 1}
	}
	return cost{c.choices*float64(most) + math.Log2(float64(most-least+1)), c.loops * most}
}

// Quick reports whether a Regex takes no more than about a millisecond for a
// short text, so that no time limit is needed.
func (r *Regex) Quick() bool { return r.cost.choices <= 6 && r.cost.loops <= 1 }
