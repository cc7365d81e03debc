package cuda

import (
	"exl2/internal/device"
	"exl2/internal/half"
	"exl2/internal/tensor"
)

// Operations that have no kernel yet: they are made of others, or fail.

// lacks keeps the failure of an operation that has no kernel.
func (d *Device) lacks(what string) {
	d.failWith("%s: %w; --devices cpu has it", what, device.ErrUnsupported)
}

// actAlone is y = act(gate): times a row of ones, which all rows share.
func (d *Device) actAlone(y, gate tensor.Tensor, a device.Act) {
	want(y.Rows == gate.Rows && y.Cols == gate.Cols, "ActMul", y, gate)
	p, ones := plane{y.Rows, y.Cols}, d.ones(y.Cols)
	actMuls[a](d, p.launch(), y, gate, ones, int32(p.rows), int64(p.cols), int64(y.Stride), int64(gate.Stride), 0)
}

// ones returns a row of n ones.
func (d *Device) ones(n int) tensor.Tensor {
	const one = half.F16(0x3c00)
	if d.oneRow.Cols < n {
		if d.recording {
			panic("cuda: recording an activation wider than was issued before")
		}
		row := make([]half.F16, n)
		for i := range row {
			row[i] = one
		}
		d.oneRow = d.Alloc(tensor.F16, 1, n)
		d.Upload(d.oneRow, tensor.BytesOf(row))
	}
	return d.oneRow.Columns(0, n)
}

// Clip is not there.
func (d *Device) Clip(tensor.Tensor, float32) { d.lacks("clipped queries, keys and values") }

// Gather is y[i] = x[rows[i]]: a look-up in a table, in float32.
func (d *Device) Gather(y, x, rows tensor.Tensor) {
	want(y.Cols == x.Cols && rows.Cols == y.Rows && x.Dense(), "Gather", y, x, rows)
	wide := d.scratch(scratchSums, tensor.F32, y.Rows, y.Cols)
	d.Embed(wide, x, rows, 1)
	d.Copy(y, wide)
}

// Combine is y[r] += Σ weights[r, k]·x[places[r, k]]: a sum for every number, which
// the host reads.
func (d *Device) Combine(y, x, places, weights tensor.Tensor) {
	want(y.Cols == x.Cols && places.Rows == y.Rows && weights.Rows == y.Rows && weights.Cols == places.Cols, "Combine", y, x, places, weights)
	d.forbidWhileRecording("Combine")
	n := places.Cols
	list, factors := make([]int32, y.Rows*n), make([]float32, y.Rows*n)
	d.Download(tensor.BytesOf(list), places)
	d.Download(tensor.BytesOf(factors), weights)
	for i, at := range list {
		if at < 0 || int(at) >= x.Rows {
			d.failWith("Combine: row %d of %d", at, x.Rows)
			return
		}
		r := i / n
		d.AddScaled(y.Slice(r, r+1), x.Slice(int(at), int(at)+1), factors[i])
	}
}
