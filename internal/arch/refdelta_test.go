package arch_test

import "math"

// recurrent is linear attention, or convolutions, position by position.
func (r reference) recurrent(l int, x stream) stream {
	switch {
	case r.Short.Kernel > 0:
		return r.short(l, x)
	case r.Delta.Plain:
		return each(r.mamba(l, x), func(_ int, v []float64) []float64 { return scaled(v, orOne(r.Delta.Scales.O)) })
	}
	return r.delta(l, x)
}

// convolved adds up the last positions of each column; bias may be nil.
func convolved(x stream, weights, bias []float64, kernel int) stream {
	return each(x, func(p int, v []float64) []float64 {
		row := make([]float64, len(v))
		copy(row, bias)
		for c := range row {
			for i := range kernel {
				if at := p - kernel + 1 + i; at >= 0 {
					row[c] += weights[c*kernel+i] * x[at][c]
				}
			}
		}
		return row
	})
}

func silu(v []float64) []float64 {
	y := make([]float64, len(v))
	for i, x := range v {
		y[i] = x * sigmoid(x)
	}
	return y
}

// states are zeros, by heads of values [value][key].
func (r reference) states() [][][]float64 {
	states := make([][][]float64, r.Delta.ValueHeads)
	for h := range states {
		states[h] = make([][]float64, r.Delta.ValueDim)
		for i := range states[h] {
			states[h][i] = make([]float64, r.Delta.KeyDim)
		}
	}
	return states
}

func (r reference) delta(l int, x stream) stream {
	d, n := r.Delta, r.Names
	var conv []float64
	if d.ConvsApart {
		for _, name := range n.DeltaConvs {
			part, _ := r.tensor(n.Layer(l, name))
			conv = append(conv, part...)
		}
	} else {
		conv, _ = r.tensor(n.Layer(l, n.DeltaConv))
	}
	decay, bias := r.vector(n.Layer(l, n.DeltaDecay)), r.vector(n.Layer(l, n.DeltaBias))
	norm := r.Norm
	norm.Eps, norm.Offset = d.NormEps, 0
	columns := convolved(each(x, func(_ int, v []float64) []float64 {
		in := append(r.linear(l, 0, n.DeltaQ, v), r.linear(l, 0, n.DeltaK, v)...)
		return append(in, r.linear(l, 0, n.DeltaV, v)...)
	}), conv, nil, d.Kernel)
	states := r.states()
	return each(x, func(p int, v []float64) []float64 {
		row := silu(columns[p])
		a, b, z := r.linear(l, 0, n.DeltaA, v), r.linear(l, 0, n.DeltaB, v), r.linear(l, 0, n.DeltaZ, v)
		var out []float64
		for h, s := range states {
			shared := h / (d.ValueHeads / d.KeyHeads) * d.KeyDim
			q, k := unit(row[shared:][:d.KeyDim]), unit(row[d.Keys()+shared:][:d.KeyDim])
			g, beta := math.Exp(-math.Exp(decay[h])*math.Log1p(math.Exp(a[h]+bias[h]))), orOne(d.Most)*sigmoid(b[h])
			head := make([]float64, d.ValueDim)
			for i, state := range s {
				copy(state, scaled(state, g))
				add(state, k, beta*(row[2*d.Keys()+h*d.ValueDim+i]-dot(state, k)))
				head[i] = dot(state, q) / math.Sqrt(float64(d.KeyDim))
			}
			head = normalize(head, r.vector(n.Layer(l, n.DeltaNorm)+".weight"), nil, norm)
			for i, e := range silu(z[h*d.ValueDim:][:d.ValueDim]) {
				head[i] *= e
			}
			out = append(out, head...)
		}
		return r.linear(l, 0, n.DeltaO, out)
	})
}

// mamba is Mamba-2; its columns come as those of v, k and q.
func (r reference) mamba(l int, x stream) stream {
	d, n, f := r.Delta, r.Names, r.Delta.Scales
	conv, _ := r.tensor(n.Layer(l, n.DeltaConv))
	var shift []float64
	if d.ConvBias {
		shift = r.vector(n.Layer(l, n.DeltaConvBias))
	}
	decay, bias, skip := r.vector(n.Layer(l, n.DeltaDecay)), r.vector(n.Layer(l, n.DeltaBias)), r.vector(n.Layer(l, n.DeltaSkip))
	norm := r.Norm
	norm.Eps, norm.Offset = d.NormEps, 0
	columns := convolved(each(x, func(_ int, v []float64) []float64 {
		in := append(scaled(r.linear(l, 0, n.DeltaV, v), orOne(f.V)), scaled(r.linear(l, 0, n.DeltaK, v), orOne(f.K))...)
		return append(in, scaled(r.linear(l, 0, n.DeltaQ, v), orOne(f.Q))...)
	}), conv, shift, d.Kernel)
	states := r.states()
	var weights []float64
	if !d.Bare {
		weights = r.vector(n.Layer(l, n.DeltaNorm) + ".weight")
	}
	return each(x, func(p int, v []float64) []float64 {
		row := silu(columns[p])
		a, z := scaled(r.linear(l, 0, n.DeltaA, v), orOne(f.A)), silu(scaled(r.linear(l, 0, n.DeltaZ, v), orOne(f.Z)))
		out := make([]float64, d.Values())
		for h, s := range states {
			shared := d.Values() + h/(d.ValueHeads/d.KeyHeads)*d.KeyDim
			k, q := row[shared:][:d.KeyDim], row[shared+d.Keys():][:d.KeyDim]
			step := max(math.Log1p(math.Exp(a[h]+bias[h])), float64(d.Least))
			for i, state := range s {
				c := h*d.ValueDim + i
				copy(state, scaled(state, math.Exp(-math.Exp(decay[h])*step)))
				add(state, k, step*row[c])
				out[c] = (dot(state, q) + skip[h]*row[c]) * z[c]
			}
		}
		group := d.Values() / d.Groups
		for c := 0; c < len(out) && !d.Bare; c += group {
			copy(out[c:], normalize(out[c:c+group], weights[c:c+group], nil, norm))
		}
		return r.linear(l, 0, n.DeltaO, out)
	})
}

// short is gated convolutions.
func (r reference) short(l int, x stream) stream {
	n := r.Names
	conv, _ := r.tensor(n.Layer(l, n.ShortConv))
	var bias []float64
	if r.Short.Bias {
		bias = r.vector(n.Layer(l, n.ShortBias))
	}
	sums := convolved(each(x, func(_ int, v []float64) []float64 {
		u := r.linear(l, 0, n.ShortB, v)
		for i, e := range r.linear(l, 0, n.ShortX, v) {
			u[i] *= e
		}
		return u
	}), conv, bias, r.Short.Kernel)
	return each(x, func(p int, v []float64) []float64 {
		c := r.linear(l, 0, n.ShortC, v)
		for i := range c {
			c[i] *= sums[p][i]
		}
		return r.linear(l, 0, n.ShortO, c)
	})
}

func dot(a, b []float64) (sum float64) {
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

// unit has the length 1, but for what keeps it from infinity.
func unit(v []float64) []float64 { return scaled(v, 1/math.Sqrt(dot(v, v)+1e-6)) }
