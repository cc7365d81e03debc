package model

import (
	"exl2/internal/arch"
	"exl2/internal/device"
)

// recurrent adds what linear attention has, or convolutions.
func (y *moduleLayout) recurrent() {
	if y.Short.Kernel > 0 {
		y.short()
		return
	}
	y.delta()
}

// delta adds what linear attention has. The matrices of decay and β, of a column a head, are never
// quantized.
func (y *moduleLayout) delta() {
	y.deltaFirst(arch.Q)
	y.deltaRest()
}

// deltaFirst adds the matrices that read the stream, the first of which has a role by what is in front of it.
func (y *moduleLayout) deltaFirst(role arch.Role) {
	n, d := y.Names, y.Delta
	y.linear(role, n.DeltaQ, y.Hidden, d.Keys(), d.BiasIn)
	y.linear(arch.K, n.DeltaK, y.Hidden, d.Keys(), d.BiasIn)
	y.linear(arch.V, n.DeltaV, y.Hidden, d.Values(), d.BiasIn)
	y.linear(arch.V, n.DeltaZ, y.Hidden, d.Values(), d.BiasIn)
}

func (y *moduleLayout) deltaRest() {
	n, d := y.Names, y.Delta
	y.linear(arch.O, n.DeltaO, d.Values(), y.Hidden, d.BiasO)
	y.add(&y.m.Fixed, LinearSpec{Role: arch.Router, Part: n.DeltaA, In: y.Hidden, Out: d.ValueHeads, Biased: d.BiasIn})
	norm, columns := NormSpec{Place: NormDelta, Name: n.DeltaNorm, Norm: device.Norm{Eps: d.NormEps}, Rows: 1, Cols: d.ValueDim}, 2*d.Keys()+d.Values()
	convs := []string{n.DeltaConv}
	if d.ConvsApart {
		convs = n.DeltaConvs[:]
	}
	for i, name := range convs {
		all := columns
		if d.ConvsApart {
			all = []int{d.Keys(), d.Keys(), d.Values()}[i]
		}
		y.vector(VectorSpec{Name: name, Cols: all * d.Kernel, Dims: []int{all, 1, d.Kernel}})
	}
	y.vector(VectorSpec{Name: n.DeltaDecay, Cols: d.ValueHeads})
	y.vector(VectorSpec{Name: n.DeltaBias, Cols: d.ValueHeads})
	if d.Plain {
		norm.Cols = d.Values()
		y.vector(VectorSpec{Name: n.DeltaSkip, Cols: d.ValueHeads})
	} else {
		y.add(&y.m.Fixed, LinearSpec{Role: arch.Router, Part: n.DeltaB, In: y.Hidden, Out: d.ValueHeads})
	}
	if d.ConvBias {
		y.vector(VectorSpec{Name: n.DeltaConvBias, Cols: columns})
	}
	if !d.Bare {
		y.norm(norm)
	}
}

// short adds what gated convolutions have.
func (y *moduleLayout) short() {
	n, bias := y.Names, y.Short.Bias
	y.linear(arch.Q, n.ShortB, y.Hidden, y.Hidden, bias)
	y.linear(arch.K, n.ShortC, y.Hidden, y.Hidden, bias)
	y.linear(arch.V, n.ShortX, y.Hidden, y.Hidden, bias)
	y.linear(arch.O, n.ShortO, y.Hidden, y.Hidden, bias)
	y.vector(VectorSpec{Name: n.ShortConv, Cols: y.Hidden * y.Short.Kernel, Dims: []int{y.Hidden, 1, y.Short.Kernel}})
	if bias {
		y.vector(VectorSpec{Name: n.ShortBias, Cols: y.Hidden})
	}
}
