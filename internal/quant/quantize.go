package quant

import (
	"exl2/internal/device"
	"exl2/internal/exl2"
	"exl2/internal/tensor"
)

// A Result is a quantized matrix on the device.
type Result struct {
	f   *Factor
	c   device.Coding
	out int

	words, scales tensor.Tensor // packed, or absent
}

// Quantize stores targets of one factor by a recipe each, all at once, and
// leaves the squared error of each one's outputs in loss, F64 [1, len(targets)]:
// tr(ΔᵀHΔ) with the damped H, or the identity if the factor is Nearest. The results
// use the targets.
func Quantize(targets []*Target, recipes []exl2.Recipe, loss tensor.Tensor) []*Result {
	f := targets[0].f
	list := make([]*Result, len(targets))
	for i, t := range targets {
		list[i] = t.result(recipes[i])
	}
	f.dev.GPTQ(codings(list), f.Factor, loss)
	return list
}

// result makes room for a target's codes.
func (t *Target) result(r exl2.Recipe) *Result {
	f, d, n := t.f, t.f.dev, t.w.Cols
	groups := r.Groups(f.k)
	return &Result{f: f, out: t.out, c: device.Coding{
		W: t.w, Groups: groups,
		Codes: d.Alloc(tensor.U8, f.k, n), Scales: d.Alloc(tensor.U8, len(groups), n), Largest: d.Alloc(tensor.F16, len(groups), 1),
	}}
}

func codings(list []*Result) []device.Coding {
	out := make([]device.Coding, len(list))
	for i, r := range list {
		out[i] = r.c
	}
	return out
}

// Descend improves the codes of results of one factor by passes of coordinate
// descent: each row's codes are set to the best ones with all other rows fixed. After
// them codes of two rows change at a time.
func Descend(list []*Result, passes int) {
	if f := list[0].f; !f.Nearest && passes > 0 {
		descend(f.dev, codings(list), f.ready(), passes)
	}
}

func descend(d device.Quantize, list []device.Coding, f device.Factor, passes int) {
	d.Descend(list, f, passes)
	d.Pairs(list, f)
}

// Free frees the result's device memory.
func (r *Result) Free() {
	for _, t := range []tensor.Tensor{r.c.Codes, r.c.Scales, r.c.Largest, r.words, r.scales} {
		r.f.dev.Free(t)
	}
}

// Judge leaves tr(ΔᵀHΔ) and tr(WᵀHW), Δ the errors of the codes, with the moments of
// other rows than those of the factor, undamped, in sums, F64 [1, 2].
func (r *Result) Judge(h *Hessian, sums tensor.Tensor) {
	f, d := r.f, r.f.dev
	moments, y, v := d.Alloc(tensor.F32, f.k, f.k), d.Alloc(tensor.F32, f.k, r.c.W.Cols), d.Alloc(tensor.F32, f.k, r.c.W.Cols)
	defer func() { d.Free(moments); d.Free(y); d.Free(v) }()
	d.Take(moments, h.h, f.perm, f.perm)
	d.Values(v, r.c)
	d.AddScaled(v, r.c.W, -1)
	for i, x := range []tensor.Tensor{v, r.c.W} {
		d.Clear(y)
		d.SubtractProduct(y, moments, x)
		d.Dot(sums.Columns(i, i+1), y, x)
	}
}
