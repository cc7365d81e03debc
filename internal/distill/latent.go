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
	source        *model.Linear // of the teacher
	matrix        *exl2.Matrix  // as it was quantized
	scales        []float32     // [out, groups]
	zeros         []float32     // by group
	first, second tensor.Tensor // moments, BF16 [out, in]
	kept          changing      // where those three are kept; a module that is away has them elsewhere while it works
	away          bool          // in the host's memory
	original      tensor.Tensor // the source's weight, where that is kept
}

// changing is what training changes of a latent.
type changing struct{ v, first, second tensor.Tensor }

// newLatent makes room for the latent of a quantized matrix on d, and, with what alloc
// returns, for what changes of it. The linear's weight becomes what it stands for.
func newLatent(d device.Quantize, l, source *model.Linear, m *exl2.Matrix, alloc func(kind tensor.Type, rows, cols int) tensor.Tensor) *latent {
	out, in, groups := l.Out, l.In, len(m.Groups)
	t := &latent{linear: l, source: source, matrix: m, scales: matrixScales(m, out), zeros: make([]float32, groups)}
	group, perm := make([]int32, in), m.Perm()
	for g, of := range m.Groups {
		t.zeros[g] = float32(int(1) << (of.Bits - 1))
		for _, i := range perm[of.Row : of.Row+of.Rows] {
			group[i] = int32(g)
		}
	}
	t.Latent = device.Latent{
		V: alloc(tensor.F32, out, in), Scale: upload(d, tensor.F32, out, groups, t.scales),
		Group: upload(d, tensor.I32, 1, in, group), Zero: upload(d, tensor.F32, 1, groups, t.zeros),
	}
	t.first, t.second = alloc(tensor.BF16, out, in), alloc(tensor.BF16, out, in)
	t.kept, t.original = changing{t.V, t.first, t.second}, source.W.(model.Dense).Tensor
	return t
}

// reset brings the latent to where it begins: at the codes or, if drawn is set, as
// near to the source's weights as rounds to them.
func (t *latent) reset(d device.Quantize, drawn bool) {
	out, in, groups := t.linear.Out, t.linear.In, len(t.zeros)
	var w []float32
	if drawn {
		data := make([]byte, t.original.Bytes())
		d.Download(data, t.original)
		w = tensor.Widen(t.original.Type, data)
	}
	v := make([]float32, out*in)
	eachCode(t.matrix, out, func(o, i, g int, code uint8) {
		q := float32(code) - t.zeros[g]
		if s := t.scales[o*groups+g]; drawn && s != 0 {
			q += min(max(w[o*in+i]/s-q, -device.Reach), device.Reach)
		}
		v[o*in+i] = q
	})
	d.Upload(t.kept.v, tensor.BytesOf(v))
	for _, x := range []tensor.Tensor{t.kept.first, t.kept.second} {
		if t.away {
			d.Upload(x, make([]byte, x.Bytes()))
			continue
		}
		d.Clear(x)
	}
}

// weight is the linear's.
func (t *latent) weight() tensor.Tensor { return t.linear.W.(model.Dense).Tensor }

func (t *latent) free(d device.Quantize) {
	for _, x := range []tensor.Tensor{t.kept.v, t.Scale, t.Group, t.Zero, t.kept.first, t.kept.second} {
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
