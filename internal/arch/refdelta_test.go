package arch_test

import "math"

// delta is linear attention, position by position.
func (r reference) delta(l int, x stream) stream {
	d, n := r.Delta, r.Names
	columns := 2*d.Keys() + d.Values()
	conv, _ := r.tensor(n.Layer(l, n.DeltaConv))
	decay, bias := r.vector(n.Layer(l, n.DeltaDecay)), r.vector(n.Layer(l, n.DeltaBias))
	norm := r.Norm
	norm.Eps, norm.Offset = d.NormEps, 0
	inputs := each(x, func(_ int, v []float64) []float64 {
		in := append(r.linear(l, 0, n.DeltaQ, v), r.linear(l, 0, n.DeltaK, v)...)
		return append(in, r.linear(l, 0, n.DeltaV, v)...)
	})
	states := make([][][]float64, d.ValueHeads) // by heads [value][key]
	for h := range states {
		states[h] = make([][]float64, d.ValueDim)
		for i := range states[h] {
			states[h][i] = make([]float64, d.KeyDim)
		}
	}
	return each(x, func(p int, v []float64) []float64 {
		row := make([]float64, columns)
		for c := range row {
			for i := range d.Kernel {
				if at := p - d.Kernel + 1 + i; at >= 0 {
					row[c] += conv[c*d.Kernel+i] * inputs[at][c]
				}
			}
			row[c] *= sigmoid(row[c])
		}
		a, b, z := r.linear(l, 0, n.DeltaA, v), r.linear(l, 0, n.DeltaB, v), r.linear(l, 0, n.DeltaZ, v)
		var out []float64
		for h, s := range states {
			shared := h / (d.ValueHeads / d.KeyHeads) * d.KeyDim
			q, k := unit(row[shared:][:d.KeyDim]), unit(row[d.Keys()+shared:][:d.KeyDim])
			g, beta := math.Exp(-math.Exp(decay[h])*math.Log1p(math.Exp(a[h]+bias[h]))), sigmoid(b[h])
			head := make([]float64, d.ValueDim)
			for i, state := range s {
				copy(state, scaled(state, g))
				add(state, k, beta*(row[2*d.Keys()+h*d.ValueDim+i]-dot(state, k)))
				head[i] = dot(state, q) / math.Sqrt(float64(d.KeyDim))
			}
			head = normalize(head, r.vector(n.Layer(l, n.DeltaNorm)+".weight"), nil, norm)
			for i, e := range z[h*d.ValueDim:][:d.ValueDim] {
				head[i] *= e * sigmoid(e)
			}
			out = append(out, head...)
		}
		return r.linear(l, 0, n.DeltaO, out)
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
