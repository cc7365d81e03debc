package quant

import (
	"exl2/internal/device"
	"exl2/internal/exl2"
	"exl2/internal/tensor"
)

// Corrections make up for the drift of the inputs of linears that read the same,
// Xᵀ(X̃-X)·W of each, or, where its output is added to the residual stream, for all
// that this lacks, Xᵀ((X̃-X)·W + r̃-r): [k, n], in the order of the source; or what they are
// made of, if that is smaller.
type Corrections struct {
	dev     device.Quantize
	weights []tensor.Tensor // [out, in] as files have them
	made    []tensor.Tensor // of each weight, or none
	drift   tensor.Tensor   // the Hessian's, or absent
}

// Early reports whether corrections of outs columns in all are made before the Hessian
// of k inputs is factored, and its drift then freed.
func Early(k, outs int) bool { return outs < k }

// CorrectedColumns is how many columns of a target are corrected at a time.
const CorrectedColumns = 16384

// Corrections returns those of some weights. The Hessian has no other use for the
// moments that they are made of, and gives them away.
func (h *Hessian) Corrections(weights []tensor.Tensor) *Corrections {
	c := &Corrections{dev: h.dev, weights: weights, drift: h.drift}
	short := h.short
	h.drift, h.short = tensor.Tensor{}, tensor.Tensor{}
	if !short.Nil() {
		c.made = []tensor.Tensor{c.padded(short)}
		return c
	}
	outs := 0
	for _, w := range weights {
		outs += exl2.Pad(w.Rows)
	}
	if !c.drift.Nil() && Early(h.k, outs) {
		made := make([]tensor.Tensor, len(weights))
		c.each(func(i int) { made[i] = c.columns(i, 0, weights[i].Rows) })
		c.made = made
		c.freeMoments()
	}
	return c
}

// padded returns a correction with as many columns as the matrix will have.
func (c *Corrections) padded(short tensor.Tensor) tensor.Tensor {
	n := exl2.Pad(short.Cols)
	if n == short.Cols {
		return short
	}
	y := c.dev.Alloc(tensor.F32, short.Rows, n)
	c.dev.AddScaled(y.Columns(0, short.Cols), short, 1)
	c.dev.Free(short)
	return y
}

// sideBytes is the most memory that work on weights side by side takes: only those of
// small models leave cores idle one by one.
const sideBytes = 256 << 20

// each calls f for all weights, at once where that takes little memory.
func (c *Corrections) each(f func(i int)) {
	bytes := 0
	for _, w := range c.weights {
		bytes += 3 * 4 * w.Cols * exl2.Pad(w.Rows)
	}
	if bytes <= sideBytes {
		device.SideBySide(c.dev, len(c.weights), f)
		return
	}
	for i := range c.weights {
		f(i)
	}
}

// columns returns the correction of some columns of a weight.
func (c *Corrections) columns(i, lo, hi int) tensor.Tensor {
	w := c.weights[i]
	d, k, n := c.dev, w.Cols, exl2.Pad(hi-lo)
	if c.made != nil {
		y := c.made[i]
		c.made[i] = tensor.Tensor{}
		return y
	}
	y, source := d.Alloc(tensor.F32, k, n), device.Blank(d, tensor.F32, k, n)
	defer d.Free(source)
	d.TakeT(source, w.Slice(lo, hi), tensor.Tensor{})
	d.SubtractProduct(y, c.drift, source)
	return y
}

func (c *Corrections) freeMoments() {
	c.dev.Free(c.drift)
	c.drift = tensor.Tensor{}
}

// Free frees what is left.
func (c *Corrections) Free() {
	c.freeMoments()
	for i, y := range c.made {
		c.dev.Free(y)
		c.made[i] = tensor.Tensor{}
	}
}

// Corrected returns the weights of c as those to be stored.
func (f *Factor) Corrected(c *Corrections) []*Target {
	list := make([]*Target, len(c.weights))
	c.each(func(i int) { list[i] = f.corrected(c, i) })
	return list
}

// corrected returns weight i of c as the one to be stored: W + (H+λ)⁻¹·c.
func (f *Factor) corrected(c *Corrections, i int) *Target {
	w := c.weights[i]
	t := f.Target(w)
	if f.Nearest || c.drift.Nil() && c.made == nil {
		return t
	}
	d, tile := f.dev, CorrectedColumns
	if c.made != nil {
		tile = w.Rows
	}
	for lo := 0; lo < w.Rows; lo += tile {
		y := c.columns(i, lo, min(lo+tile, w.Rows))
		more := device.Blank(d, tensor.F32, y.Rows, y.Cols)
		d.Take(more, y, f.perm, tensor.Tensor{})
		d.Free(y)
		d.Solve(more, f.U)
		d.AddScaled(t.w.Columns(lo, lo+more.Cols), more, 1)
		d.Free(more)
	}
	return t
}
