package quant

import (
	"bytes"
	"fmt"
	"iter"

	"exl2/internal/device"
	"exl2/internal/exl2"
	"exl2/internal/half"
	"exl2/internal/tensor"
)

// A Target is a weight to be stored: [k, n] in stored order, n padded.
type Target struct {
	f   *Factor
	w   tensor.Tensor
	out int // before padding
}

// Target returns the weight w, [out, in] as files have it, as it should be
// stored: if the Hessian has a reference, with what makes up for the drift of
// its inputs, W + (H+λ)⁻¹·(Xᵀ(X̃-X)·W + Xᵀ(r̃-r)).
func (f *Factor) Target(w tensor.Tensor) *Target {
	d := f.dev
	n := exl2.Pad(w.Rows)
	t := &Target{f: f, w: d.Alloc(tensor.F32, f.k, n), out: w.Rows}
	if !f.drift.Nil() {
		source := d.Alloc(tensor.F32, f.k, n)
		d.TakeT(source, w, tensor.Tensor{})
		d.Feedback(t.w, f.drift, source, 0, 0)
		if !f.residual.Nil() && f.residual.Cols == n {
			d.AddScaled(t.w, f.residual, 1)
		}
		d.Solve(t.w, f.u)
		d.TakeT(source, w, f.perm)
		d.AddScaled(t.w, source, 1)
		d.Free(source)
		return t
	}
	d.TakeT(t.w, w, f.perm)
	return t
}

// Free frees the target.
func (t *Target) Free() { t.f.dev.Free(t.w) }

// A Result is a quantized matrix on the device.
type Result struct {
	// Error is the squared error of the outputs that GPTQ has left, summed over
	// the calibration rows: tr(ΔᵀHΔ) with the damped H, or the identity if the
	// factor is Plain.
	Error float64

	f       *Factor
	out     int
	groups  []exl2.Group
	codes   tensor.Tensor // U8 [k, n]
	scales  tensor.Tensor // U8 [groups, n]
	largest tensor.Tensor // F16 [groups, 1]
}

// Quantize stores t by recipe r: group after group of rows it chooses scales,
// rounds, and passes the error on to the rows that are left.
func (t *Target) Quantize(r exl2.Recipe) *Result {
	f, d, n := t.f, t.f.dev, t.w.Cols
	q := &Result{f: f, out: t.out, groups: r.Groups(f.k)}
	q.codes = d.Alloc(tensor.U8, f.k, n)
	q.scales = d.Alloc(tensor.U8, len(q.groups), n)
	q.largest = d.Alloc(tensor.F16, len(q.groups), 1)
	w := d.Alloc(tensor.F32, f.k, n)
	d.Copy(w, t.w)
	for b := range q.blocks() {
		for i := b.first; i <= b.last; i++ {
			q.quantizeGroup(i, w, b.end)
		}
		d.Feedback(w.Slice(b.end, f.k), f.u, w.Slice(b.row, b.end), b.row, b.end)
	}
	q.Error = d.Dot(w, w)
	d.Free(w)
	return q
}

// quantizeGroup chooses scales for the rows of w that are group i's, quantizes
// them, and passes the error on to the rows after them, up to end.
func (q *Result) quantizeGroup(i int, w tensor.Tensor, end int) {
	f, d, g := q.f, q.f.dev, q.groups[i]
	next := g.Row + g.Rows
	c, rows := q.group(i), w.Slice(g.Row, next)
	importance := f.importance.Reshape(f.k, 1).Slice(g.Row, next).Reshape(1, g.Rows)
	d.SearchScale(c.Scale, c.Largest, rows, importance, g.Bits)
	d.QuantizeRows(c, rows, f.u)
	d.Feedback(w.Slice(next, end), f.u, rows, g.Row, next)
}

// blockRows is how many rows' errors are passed on to the rest of the matrix at
// a time: one product with a deep sum instead of several that read and write
// all of it for a shallow one.
const blockRows = 256

// A block is groups first to last of a matrix: rows row to end.
type block struct{ first, last, row, end int }

// blocks cuts the groups into blocks of at least blockRows rows, but for the last.
func (q *Result) blocks() iter.Seq[block] {
	return func(yield func(block) bool) {
		b := block{}
		for i, g := range q.groups {
			b.last, b.end = i, g.Row+g.Rows
			if b.end-b.row < blockRows && i+1 < len(q.groups) {
				continue
			}
			if !yield(b) {
				return
			}
			b = block{first: i + 1, row: b.end}
		}
	}
}

// group returns the codes of group i.
func (q *Result) group(i int) device.Codes {
	g := q.groups[i]
	return device.Codes{
		Bits: g.Bits, First: g.Row, Codes: q.codes.Slice(g.Row, g.Row+g.Rows),
		Scale: q.scales.Slice(i, i+1), Largest: q.largest.Slice(i, i+1),
	}
}

// Descend improves the codes by passes of coordinate descent: each row's codes
// are set to the best ones with all other rows fixed.
func (q *Result) Descend(t *Target, passes int) {
	f, d, n := t.f, t.f.dev, t.w.Cols
	if f.Plain || passes == 0 {
		return
	}
	e := d.Alloc(tensor.F32, f.k, n)
	for i, g := range q.groups {
		d.Values(e.Slice(g.Row, g.Row+g.Rows), q.group(i))
	}
	d.AddScaled(e, t.w, -1)
	rest := d.Alloc(tensor.F32, f.k, n) // H·(target - values)
	d.Feedback(rest, f.h, e, 0, 0)
	for pass := range passes {
		for b := range q.blocks() {
			steps, from := q.descendBlock(b, e, rest), 0
			if pass+1 == passes {
				from = b.end // nothing reads the rows before it any more
			}
			d.Feedback(rest.Slice(from, f.k), f.h, steps, b.row, from)
		}
	}
	d.Free(rest)
	d.Free(e)
}

// descendBlock improves the codes of a block and returns the changes of its
// values, rows of scratch, which rest does not know of yet.
func (q *Result) descendBlock(b block, scratch, rest tensor.Tensor) (steps tensor.Tensor) {
	d := q.f.dev
	d.Copy(scratch.Slice(b.row, b.end), rest.Slice(b.row, b.end))
	for i := b.first; i <= b.last; i++ {
		row, next := q.groups[i].Row, q.groups[i].Row+q.groups[i].Rows
		d.DescendRows(q.group(i), scratch.Slice(row, next), q.f.h)
		d.Feedback(scratch.Slice(next, b.end), q.f.h, scratch.Slice(row, next), row, next)
	}
	return scratch.Slice(b.row, b.end)
}

// Pack brings the matrix to the host and packs it.
func (q *Result) Pack() (*exl2.Matrix, error) {
	n := q.codes.Cols
	p := &exl2.Quantized{
		In: q.f.k, Out: n, Groups: q.groups, Perm: q.f.Perm,
		Codes:    make([]uint8, q.f.k*n),
		Scales:   make([]uint8, len(q.groups)*n),
		ScaleMax: make([]half.F16, len(q.groups)),
	}
	q.f.dev.Download(p.Codes, q.codes)
	q.f.dev.Download(p.Scales, q.scales)
	q.f.dev.Download(tensor.BytesOf(p.ScaleMax), q.largest)
	if err := q.f.dev.Sync(); err != nil {
		return nil, err
	}
	m := p.Pack()
	return m, verify(m, p)
}

// verify decodes the packed codes again and compares.
func verify(m *exl2.Matrix, p *exl2.Quantized) error {
	if err := m.Check(); err != nil {
		return fmt.Errorf("packed matrix: %w", err)
	}
	row := make([]uint8, m.Out)
	for i, g := range m.Groups {
		for r := g.Row; r < g.Row+g.Rows; r++ {
			m.Codes(row, g, r, 0, m.Out)
			if r > g.Row && bytes.Equal(row, p.Codes[r*m.Out:(r+1)*m.Out]) {
				continue // the scales, which are the group's, are those of its first row
			}
			for c, code := range row {
				if code != p.Codes[r*m.Out+c] || m.Scale(i, c) != int(p.Scales[i*m.Out+c]) {
					return fmt.Errorf("packed matrix: stored row %d, column %d does not decode to what was packed", r, c)
				}
			}
		}
	}
	return nil
}

// Free frees the result's device memory.
func (q *Result) Free() {
	for _, t := range []tensor.Tensor{q.codes, q.scales, q.largest} {
		q.f.dev.Free(t)
	}
}

// Square returns tr(WᵀHW) with the H of Error: what Error is relative to.
func (t *Target) Square() float64 {
	f, d := t.f, t.f.dev
	y := d.Alloc(tensor.F32, t.w.Rows, t.w.Cols)
	defer d.Free(y)
	d.Feedback(y, f.h, t.w, 0, 0)
	return -d.Dot(y, t.w)
}
