package pattern

import "exl2/infer/tokenizer/internal/chars"

// A reach says where a part of an expression can match, and how far a search
// for it goes in vain. It is on the safe side.
type reach struct {
	first  chars.Set // what it may begin with, if it does not match nothing
	sure   chars.Set // where one of these comes next it matches, whatever follows
	empty  bool      // it may match nothing
	always bool      // it never fails
	skips  bool      // it may match nothing in the end, whatever it took first
	tail   cost      // in how many ways it is tried if nothing after it can fail
	steep  bool      // something in it that is tried once may take long
}

// character is the reach of a set.
func character(s chars.Set) reach { return reach{first: s, sure: s} }

// look is the reach of what takes no character; inside is that of what it looks for.
func look(inside part) reach {
	return reach{empty: true, steep: inside.reach.steep || !inside.cost.free()}
}

// before is the reach of a, then b.
func (a part) before(b part) reach {
	x, y := a.reach, b.reach
	r := reach{
		first: x.first, empty: x.empty && y.empty, always: x.always && y.always, skips: x.skips && y.skips,
		tail: x.tail.then(y.tail), steep: x.steep || y.steep,
	}
	if x.empty {
		r.first = x.first.Union(y.first)
	}
	if y.always {
		r.sure = x.sure
	} else {
		r.tail = a.cost.then(y.tail)
	}
	switch {
	case x.skips:
		r.sure = r.sure.Union(y.sure)
	case x.always:
		r.sure = r.sure.Union(y.sure.And(x.first.Not()))
	}
	return r
}

// or is the reach of r or else s.
func (r reach) or(s reach) reach {
	return reach{
		first: r.first.Union(s.first), sure: r.sure.Union(s.sure), empty: r.empty || s.empty, always: r.always || s.always,
		skips: r.skips || s.skips, tail: r.tail.or(s.tail), steep: r.steep || s.steep,
	}
}

// repeated is the reach of a repeated; atomic repeats give nothing back.
func (a part) repeated(least int, all cost, atomic bool) reach {
	r := a.reach
	r.empty, r.always, r.skips = r.empty || least == 0, r.always || least == 0, (r.skips || least == 0) && !atomic
	if least > 1 {
		r.sure = nil
	}
	if r.tail = (cost{}); !a.cost.free() {
		r.tail = all
	}
	return r
}

// once is the reach of an atomic group.
func (r reach) once() reach {
	r.skips, r.steep = false, r.steep || r.tail.loops > 0 || r.tail.choices > maxPrompt
	return r
}

// maxPrompt bounds the choices of a prompt expression.
const maxPrompt = 10

// prompt reports whether the search for the next match is over after a time that
// is proportional to the text, times 2^maxPrompt at worst: where the expression
// may begin to match it does match. The patterns of GPT-2 and its successors are
// like that.
func (r reach) prompt() bool {
	return !r.steep && r.tail.loops <= 1 && r.tail.choices <= maxPrompt && (r.always || !r.empty && !r.first.Overlaps(r.sure.Not()))
}
