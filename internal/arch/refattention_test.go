package arch_test

import (
	"fmt"
	"math"

	"exl2/internal/arch"
)

func (r reference) attention(l int, x stream) stream {
	if r.Recurs(l) && !r.Beside {
		return r.recurrent(l, x)
	}
	a, n := r.AttnOf(l), r.Names
	var q, k, v stream
	value := a.ValueWidth()
	if r.Latent.KVRank > 0 {
		value = r.Latent.Value
		q, k, v = r.latent(l, x)
	} else {
		q = r.project(l, n.Q, x)
		r.prepare(l, q, n.QNorm, a.Heads)
		if from := r.Lender(l); from != l {
			k, v = r.lent[from][0], r.lent[from][1]
		} else {
			k, v = r.keys(l, x)
			r.lent[l] = [2]stream{k, v}
		}
	}
	for p, v := range q {
		if a.Temperature != 0 {
			f := 1 + float64(a.Temperature)*math.Log(1+math.Floor(float64(p)/float64(a.TemperatureSpan)))
			copy(v, scaled(v, f))
		}
	}
	beside := make(stream, len(x))
	if r.Beside {
		beside = r.recurrent(l, x)
	}
	return each(q, func(p int, q []float64) []float64 {
		out := make([]float64, 0, a.Heads*value)
		for h := range a.Heads {
			out = append(out, r.mix(l, p, h, q[h*a.HeadDim:][:a.HeadDim], k, v, value)...)
		}
		out = scaled(out, orOne(a.ValueScale))
		if a.Gate != arch.NoGates {
			gates := r.linear(l, 0, n.AttnGate, x[p])
			for i := range out {
				out[i] *= activated(gates[i/(len(out)/len(gates))], a.GateAct)
			}
		}
		out = r.linear(l, 0, n.O, out)
		add(out[:len(beside[p])], beside[p], 1)
		return out
	})
}

// keys returns keys and values.
func (r reference) keys(l int, x stream) (k, v stream) {
	a, n := r.AttnOf(l), r.Names
	k = r.project(l, n.K, x)
	if a.KeyValues {
		v = each(k, func(_ int, v []float64) []float64 { return scaled(v, 1) })
	} else {
		v = r.project(l, n.V, x)
	}
	for _, v := range v {
		for h := 0; a.ValueNorm && h < len(v); h += a.HeadDim {
			copy(v[h:], normalize(v[h:][:a.HeadDim], nil, nil, r.Norm))
		}
	}
	r.prepare(l, k, n.KNorm, a.KVHeads)
	return k, v
}

// mix is what head h at position p sees of the values.
func (r reference) mix(l, p, h int, q []float64, k, v stream, value int) []float64 {
	a, first := r.AttnOf(l), 0
	kv := h / (a.Heads / a.KVHeads)
	if r.Window != nil && r.Window(l) > 0 {
		first = max(0, p+1-r.Window(l))
	}
	out, sum := make([]float64, value), 0.0
	for i := first; i <= p; i++ {
		score := 0.0
		for d := range q {
			score += q[d] * k[i][kv*a.HeadDim+d] * float64(a.Scale)
		}
		e := math.Exp(capped(score, a.Softcap))
		sum += e
		add(out, v[i][kv*value:][:value], e)
	}
	if r.Sinks(l) {
		sum += math.Exp(r.vector(r.Names.Layer(l, r.Names.Sinks))[h])
	}
	return scaled(out, 1/sum)
}

// project is a linear, clipped.
func (r reference) project(l int, name string, x stream) stream {
	return each(x, func(_ int, v []float64) []float64 {
		y := r.linear(l, 0, name, v)
		if c := float64(r.Attn.Clip); c > 0 {
			for i := range y {
				y[i] = max(min(y[i], c), -c)
			}
		}
		return y
	})
}

// prepare norms heads and rotates them, in the order of the architecture.
func (r reference) prepare(l int, x stream, norm string, heads int) {
	if !r.Attn.QKNorm.AfterRope {
		r.normHeads(l, x, norm, heads)
	}
	dim := r.AttnOf(l).HeadDim
	for p, v := range x {
		for h := range heads {
			r.rotate(l, p, v[h*dim:][:dim])
		}
	}
	if r.Attn.QKNorm.AfterRope {
		r.normHeads(l, x, norm, heads)
	}
}

func (r reference) normHeads(l int, x stream, name string, heads int) {
	over := r.Attn.QKNorm.Over
	if !r.HeadNorms(l) {
		return
	}
	w, b := r.headWeights(l, name, heads)
	width := r.AttnOf(l).HeadDim
	if over == arch.AllHeads {
		width *= heads
	}
	for _, v := range x {
		for i := 0; i < len(v); i += width {
			at := 0
			if over == arch.EachHeadsOwn {
				at = i
			}
			var bias []float64
			if b != nil {
				bias = b[at:][:width]
			}
			var weight []float64
			if w != nil {
				weight = w[at:][:width]
			}
			copy(v[i:], normalize(v[i:][:width], weight, bias, r.Norm))
		}
	}
}

// headWeights returns the weights and biases of a norm of heads.
func (r reference) headWeights(l int, name string, heads int) (w, b []float64) {
	name = r.Names.Layer(l, name)
	if r.Attn.QKNorm.Plain {
		return nil, nil
	}
	for h := range heads {
		one := arch.Expert(name, h)
		if h > 0 && one == name {
			break
		}
		w = append(w, r.vector(one+".weight")...)
		if r.Attn.QKNorm.Bias {
			b = append(b, r.vector(one+".bias")...)
		}
	}
	return w, b
}

// rotate rotates the leading dimensions of v as at position p.
func (r reference) rotate(l, p int, v []float64) {
	if r.Rope == nil {
		return
	}
	rope := r.Rope(l)
	freqs, scale := rope.Frequencies()
	for i, f := range freqs {
		a, b := i, i+rope.Dims/2
		if rope.Interleaved {
			a, b = 2*i, 2*i+1
		}
		sin, cos := math.Sincos(float64(p) * float64(f))
		x, y := v[a], v[b]
		v[a], v[b] = float64(scale)*(x*cos-y*sin), float64(scale)*(y*cos+x*sin)
	}
}

// latent returns queries, keys and values of latent attention.
func (r reference) latent(l int, x stream) (q, k, v stream) {
	m, n, a := r.Latent, r.Names, r.Attn
	for p, in := range x {
		query := in
		if m.QRank > 0 {
			query = r.latentNorm(l, n.QLatentNorm, r.linear(l, 0, n.Q1, in))
			query = r.linear(l, 0, n.Q2, query)
		} else {
			query = r.linear(l, 0, n.Q, in)
		}
		for h := range a.Heads {
			r.rotate(l, p, query[h*a.HeadDim+m.Nope:][:m.Rope])
		}
		c := r.linear(l, 0, n.KV1, in)
		kr := c[m.KVRank:]
		r.rotate(l, p, kr)
		kv := r.linear(l, 0, n.KV2, r.latentNorm(l, n.KVLatentNorm, c[:m.KVRank]))
		var keys, values []float64
		for h := range a.Heads {
			head := kv[h*(m.Nope+m.Value):][:m.Nope+m.Value]
			keys = append(append(keys, head[:m.Nope]...), kr...)
			values = append(values, head[m.Nope:]...)
		}
		q, k, v = append(q, query), append(k, keys), append(v, values)
	}
	return q, k, v
}

func (r reference) latentNorm(l int, name string, v []float64) []float64 {
	n := r.Norm
	n.Eps = r.Latent.NormEps
	return normalize(v, r.vector(fmt.Sprint(r.Names.Layer(l, name), ".weight")), nil, n)
}
