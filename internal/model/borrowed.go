package model

import (
	"exl2/internal/arch"
	"exl2/internal/tensor"
)

// lend sets what a layer lends, or borrows (arch.Spec.KeysOf): the keys and values that attention has made of the rows of
// a pass are handed on in the stream, so that modules know nothing of each other. Of layers of one cache the first one of those
// that attend to the same stores them, and the others find them there.
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

// own returns the columns of keys that are the layer's own: none of those that it borrows, which have turned.
func (a *attention) own(keys tensor.Tensor) tensor.Tensor {
	if a.borrows {
		return keys.Columns(0, 0)
	}
	return keys
}

// hand hands keys and values on, or takes those that are handed on.
func (a *attention) hand(s *State, k, v tensor.Tensor) {
	if !a.lends && !a.borrows {
		return
	}
	lentKeys, lentValues := a.handed(s)
	if a.borrows {
		k, v, lentKeys, lentValues = lentKeys, lentValues, k, v
	}
	s.Dev.Copy(lentKeys, k)
	s.Dev.Copy(lentValues, v)
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
