package distill

import (
	"math"

	"exl2/internal/device"
	"exl2/internal/exl2"
	"exl2/internal/model"
	"exl2/internal/parallel"
	"exl2/internal/tensor"
)

// A latent is a matrix of the model whose codes are trained.
type latent struct {
	device.Latent
	linear        *model.Linear // of the student: its weight is what the latent stands for
	matrix        *exl2.Matrix  // as it was quantized
	first, second tensor.Tensor // moments, as V
}

// newLatent makes the latent of a quantized matrix on d, which begins at its codes
// or, if drawn is set, as near to the source's weights w, [out, in], as rounds to
// them. The linear's weight becomes what it stands for.
func newLatent(d device.Quantize, l *model.Linear, m *exl2.Matrix, w []float32, drawn bool) *latent {
	out, in, groups := l.Out, l.In, len(m.Groups)
	v := make([]float32, out*in)
	scales := matrixScales(m, out)
	zeros, group := make([]float32, groups), make([]int32, in)
	perm := m.Perm()
	for g, of := range m.Groups {
		zeros[g] = float32(int(1) << (of.Bits - 1))
		for _, i := range perm[of.Row : of.Row+of.Rows] {
			group[i] = int32(g)
		}
	}
	eachCode(m, out, func(o, i, g int, code uint8) {
		q := float32(code) - zeros[g]
		if s := scales[o*groups+g]; drawn && s != 0 {
			q += min(max(w[o*in+i]/s-q, -device.Reach), device.Reach)
		}
		v[o*in+i] = q
	})
	t := &latent{linear: l, matrix: m, Latent: device.Latent{
		V: upload(d, tensor.F32, out, in, v), Scale: upload(d, tensor.F32, out, groups, scales),
		Group: upload(d, tensor.I32, 1, in, group), Zero: upload(d, tensor.F32, 1, groups, zeros),
	}}
	t.first, t.second = d.Alloc(tensor.F32, out, in), d.Alloc(tensor.F32, out, in)
	l.Replace(d, model.Dense{Tensor: d.Alloc(d.Activation(), out, in)})
	d.RoundLatent(t.weight(), t.Latent)
	return t
}

// weight is the linear's.
func (t *latent) weight() tensor.Tensor { return t.linear.W.(model.Dense).Tensor }

func (t *latent) free(d device.Quantize) {
	for _, x := range []tensor.Tensor{t.V, t.Scale, t.Group, t.Zero, t.first, t.second} {
		d.Free(x)
	}
}

func upload[E tensor.Element](d device.Device, kind tensor.Type, rows, cols int, v []E) tensor.Tensor {
	t := d.Alloc(kind, rows, cols)
	d.Upload(t, tensor.BytesOf(v))
	return t
}

// matrixScales returns the scales of the first out columns, [out, groups].
func matrixScales(m *exl2.Matrix, out int) []float32 {
	groups := len(m.Groups)
	scales := make([]float32, out*groups)
	for g := range groups {
		table := exl2.ScaleTable(m.ScaleMax[g])
		for o := range out {
			scales[o*groups+g] = table[m.Scale(g, o)].Float32()
		}
	}
	return scales
}

// eachCode calls f for the codes of the first out columns: of output o and input i,
// in group g.
func eachCode(m *exl2.Matrix, out int, f func(o, i, g int, code uint8)) {
	perm := m.Perm()
	parallel.For(len(m.Groups), func(g int) {
		of, codes := m.Groups[g], make([]uint8, out)
		for r := of.Row; r < of.Row+of.Rows; r++ {
			m.Codes(codes, of, r, 0, out)
			for o, code := range codes {
				f(o, int(perm[r]), g, code)
			}
		}
	})
}

// packed returns the matrix with the codes that v, [out, in], rounds to. Columns that
// pad it keep theirs.
func packed(m *exl2.Matrix, v []float32, out int) *exl2.Matrix {
	p := *m
	p.Words = make([]uint32, len(m.Words))
	perm := m.Perm()
	parallel.For(len(m.Groups), func(g int) {
		of := m.Groups[g]
		zero, codes := 1<<(of.Bits-1), make([]uint8, of.Rows*m.Out)
		for r := range of.Rows {
			row := codes[r*m.Out : (r+1)*m.Out]
			m.Codes(row, of, of.Row+r, 0, m.Out)
			for o := range out {
				q := int(math.RoundToEven(float64(v[o*m.In+int(perm[of.Row+r])])))
				row[o] = uint8(min(max(q, -zero), zero-1) + zero)
			}
		}
		exl2.PackGroup(p.Words[of.Word*m.Out:], codes, of, m.Out)
	})
	return &p
}
