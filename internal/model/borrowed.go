package model

import (
	"exl2/internal/arch"
	"exl2/internal/tensor"
)

// lend sets what a layer lends, or borrows (arch.Spec.KeysOf): the keys and values that attention has made of the rows of
// a pass are handed on in the stream, so that modules know nothing of each other, and every layer stores its own.
func (a *attention) lend(spec arch.Spec, layer int) {
	from := spec.Lender(layer)
	a.lends, a.borrows = spec.Lends(layer), from != layer
	a.lent, _ = spec.Lent(from)
}

// handed returns the columns of keys and values that are lent.
func (a *attention) handed(s *State) (k, v tensor.Tensor) {
	n := a.attend.KVHeads * a.attend.HeadDim
	x := s.At(Stream).Columns(a.lent, a.lent+2*n)
	return x.Columns(0, n), x.Columns(n, 2*n)
}

// mixBorrowed is mix with keys and values that are there.
func (a *attention) mixBorrowed(s *State) {
	d, q, k, v := s.Dev, a.of(s, Query), a.of(s, Key), a.of(s, Value)
	lentKeys, lentValues := a.handed(s)
	d.Copy(k, lentKeys)
	d.Copy(v, lentValues)
	if !a.late {
		a.query.heads(d, q, a.attend.Heads)
	}
	if a.rope.Dims > 0 {
		d.Rope(q, q.Columns(0, 0), a.freqs, a.attend.HeadDim, a.rope, s.Batch)
	}
	if a.late {
		a.query.heads(d, q, a.attend.Heads)
	}
	cache, layer := s.cache.of(a.at)
	d.Store(cache, layer, k, v, s.Batch)
	d.Attend(a.of(s, Mixed), q, cache, layer, a.attend, s.Batch)
}

// handedBack moves gradients of keys and values: a layer that lends has those of all that borrow, whose sum is in the
// stream behind it, and has left no others there.
func (a *attention) handedBack(g *State, dk, dv tensor.Tensor) {
	lentKeys, lentValues := a.handed(g)
	if a.borrows {
		g.Dev.AddScaled(lentKeys, dk, 1)
		g.Dev.AddScaled(lentValues, dv, 1)
		return
	}
	g.Dev.AddScaled(dk, lentKeys, 1)
	g.Dev.AddScaled(dv, lentValues, 1)
	g.Dev.Clear(lentKeys)
	g.Dev.Clear(lentValues)
}

// queryBack goes back through norm and RoPE of queries alone, which were q.
func (a *attention) queryBack(s, g *State, q tensor.Tensor) {
	d, dq := backward(g), a.of(g, Query)
	turns := a.rope.Dims > 0
	if a.late && turns && !a.query.none() {
		d.Rope(q, q.Columns(0, 0), a.freqs, a.attend.HeadDim, a.rope, s.Batch) // what was normalized
		a.query.headsBack(d, dq, q, a.attend.Heads)
	}
	if turns {
		d.RopeBack(dq, dq.Columns(0, 0), a.freqs, a.attend.HeadDim, a.rope, s.Batch)
	}
	if !(a.late && turns) && !a.query.none() {
		a.query.headsBack(d, dq, q, a.attend.Heads)
	}
}
