package quant

import (
	"fmt"

	"exl2/internal/device"
	"exl2/internal/exl2"
	"exl2/internal/half"
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
// descent: each row's codes are set to the best ones with all other rows fixed.
func Descend(list []*Result, passes int) {
	if f := list[0].f; !f.Nearest && passes > 0 {
		f.dev.Descend(codings(list), f.Factor, passes)
	}
}

// Matrix makes a matrix for products of the result, where it is.
func (r *Result) Matrix() device.Matrix {
	r.pack()
	return r.f.dev.Assemble(r.c, r.words, r.scales, r.f.perm, r.out)
}

// pack packs codes and scales, once.
func (r *Result) pack() {
	if !r.words.Nil() {
		return
	}
	last, n := r.c.Groups[len(r.c.Groups)-1], r.c.Codes.Cols
	r.words = r.f.dev.Alloc(tensor.I32, last.Word+last.Rows*last.Bits/32, n)
	r.scales = r.f.dev.Alloc(tensor.I32, len(r.c.Groups), n/8)
	r.f.dev.Pack(r.words, r.scales, r.c)
}

// Download brings the packed matrix to the host, after it was decoded again on
// the device and compared with the codes: m is its Matrix.
func (r *Result) Download(m device.Matrix) (*exl2.Matrix, error) {
	r.pack()
	if err := r.verify(m); err != nil {
		return nil, err
	}
	d := r.f.dev
	out := &exl2.Matrix{
		In: r.f.k, Out: r.c.Codes.Cols, Groups: r.c.Groups, InvPerm: exl2.Inverse(r.f.Perm),
		Words: make([]uint32, r.words.Rows*r.words.Cols), Scales: make([]uint32, r.scales.Rows*r.scales.Cols),
		ScaleMax: make([]half.F16, len(r.c.Groups)),
	}
	d.Download(tensor.BytesOf(out.Words), r.words)
	d.Download(tensor.BytesOf(out.Scales), r.scales)
	d.Download(tensor.BytesOf(out.ScaleMax), r.c.Largest)
	if err := d.Sync(); err != nil {
		return nil, err
	}
	if err := out.Check(); err != nil {
		return nil, fmt.Errorf("packed matrix: %w", err)
	}
	return out, nil
}

// verify decodes m and compares it with the values of the codes.
func (r *Result) verify(m device.Matrix) error {
	d, k := r.f.dev, r.f.k
	decoded := d.Alloc(tensor.F16, r.out, k)
	defer d.Free(decoded)
	d.Decode(decoded, m)
	got, want := d.Alloc(tensor.F32, k, r.c.Codes.Cols), d.Alloc(tensor.F32, k, r.c.Codes.Cols)
	defer d.Free(got)
	defer d.Free(want)
	d.TakeT(got, decoded, r.f.perm)
	d.Values(want, r.c)
	// Columns that pad the matrix are not decoded.
	got, want = got.Columns(0, r.out), want.Columns(0, r.out)
	d.AddScaled(got, want, -1)
	s := NewScalars(d, 1)
	defer s.Free()
	at := s.Take(1)
	d.Dot(at, got, got)
	if err := s.Fetch(); err != nil {
		return err
	}
	if v := s.Values(at)[0]; v != 0 {
		return fmt.Errorf("packed matrix: it does not decode to what was packed (squared difference %v)", v)
	}
	return nil
}

// Free frees the result's device memory.
func (r *Result) Free() {
	for _, t := range []tensor.Tensor{r.c.Codes, r.c.Scales, r.c.Largest, r.words, r.scales} {
		r.f.dev.Free(t)
	}
}
