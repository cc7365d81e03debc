package cpu

import (
	"exl2/internal/device"
	"exl2/internal/parallel"
	"exl2/internal/tensor"
)

// ShortConv is y = c·(bias + Σ w[i]·u[t-Kernel+1+i]), u = b·x.
func (d *Device) ShortConv(y, b, c, x tensor.Tensor, s device.ShortConv, inputs tensor.Tensor, batch device.Batch) {
	const op = "ShortConv"
	j := newShortConv(op, b, c, x, s, batch)
	want(y.Rows == c.Rows && y.Cols == c.Cols && inputs.Cols == (s.Kernel-1)*y.Cols, op, y, c, inputs)
	if s.Kernel > 1 {
		j.inputs = floats(op, inputs)
	}
	out := rowsOf(op, y)
	d.sums(j, y.Rows, func(sum []float32, r int) {
		row, gate := out.row(r), j.c.row(r)
		for i, v := range sum {
			row[i] = v * gate[i]
		}
	})
	parallel.For(len(j.pos)/j.span, j.keep)
}

// shortConv is what goroutines share of a ShortConv or its gradient.
type shortConv struct {
	b, c, x    strided
	conv, bias []float32
	kernel     int
	pos, seq   []int32
	span, cols int
	inputs     []float32 // of sequences
}

func newShortConv(op string, b, c, x tensor.Tensor, s device.ShortConv, batch device.Batch) *shortConv {
	for _, t := range []tensor.Tensor{b, x} {
		want(t.Rows == c.Rows && t.Cols == c.Cols, op, t, c)
	}
	want(s.Conv.Rows*s.Conv.Cols == c.Cols*s.Kernel && (s.Bias.Nil() || s.Bias.Cols == c.Cols), op, s.Conv, s.Bias)
	want(c.Rows == batch.Pos.Cols && c.Rows%batch.Span == 0, op, c, batch.Pos)
	j := &shortConv{b: rowsOf(op, b), c: rowsOf(op, c), x: rowsOf(op, x), conv: floats(op, s.Conv), kernel: s.Kernel,
		pos: ints(op, batch.Pos), seq: ints(op, batch.Seq), span: batch.Span, cols: c.Cols}
	if !s.Bias.Nil() {
		j.bias = floats(op, s.Bias)
	}
	return j
}

// input is element i of u at a row, or so many positions in front of its run.
func (j *shortConv) input(run, at, i int) float32 {
	first := run * j.span
	switch {
	case at >= first:
		return j.b.row(at)[i] * j.x.row(at)[i]
	case j.pos[first] == 0 || j.inputs == nil:
		return 0
	}
	return j.kept(run)[(j.kernel-1-first+at)*j.cols+i]
}

// kept is what a run's sequence has in front of it.
func (j *shortConv) kept(run int) []float32 {
	n := (j.kernel - 1) * j.cols
	return j.inputs[int(j.seq[run*j.span])*n:][:n]
}

// sum is the convolution at a row.
func (j *shortConv) sum(y []float32, r int) {
	clear(y)
	copy(y, j.bias)
	for k := range j.kernel {
		at := r - j.kernel + 1 + k
		for i := range y {
			y[i] += j.conv[i*j.kernel+k] * j.input(r/j.span, at, i)
		}
	}
}

// sums calls f with the convolution at each row.
func (d *Device) sums(j *shortConv, rows int, f func(sum []float32, r int)) {
	parallel.Runs(rows, rowTile, func(lo, hi int) {
		sum, release := d.borrowed(j.cols)
		defer release()
		for r := lo; r < hi; r++ {
			j.sum(sum, r)
			f(sum, r)
		}
	})
}

// keep leaves a run's last inputs to what goes on behind it.
func (j *shortConv) keep(run int) {
	if j.kernel == 1 {
		return
	}
	last, end := make([]float32, (j.kernel-1)*j.cols), (run+1)*j.span
	for k := range j.kernel - 1 {
		for i := range j.cols {
			last[k*j.cols+i] = j.input(run, end-j.kernel+1+k, i)
		}
	}
	copy(j.kept(run), last)
}

// ShortConvBack adds the gradients of b, c and x.
func (d *Device) ShortConvBack(db, dc, dx, room, dy, b, c, x tensor.Tensor, s device.ShortConv, batch device.Batch) {
	const op = "ShortConvBack"
	for _, t := range []tensor.Tensor{db, dc, dx, room, dy} {
		want(t.Rows == c.Rows && t.Cols == c.Cols, op, t, c)
	}
	j := newShortConv(op, b, c, x, s, batch)
	sums, gates, grad := rowsOf(op, room), rowsOf(op, dc), rowsOf(op, dy)
	d.sums(j, c.Rows, func(sum []float32, r int) {
		to, gate := sums.row(r), j.c.row(r)
		for i, v := range grad.row(r) {
			gates.row(r)[i] += v * sum[i]
			to[i] = v * gate[i]
		}
	})
	toB, toX := rowsOf(op, db), rowsOf(op, dx)
	parallel.Runs(c.Rows, rowTile, func(lo, hi int) {
		for r := lo; r < hi; r++ {
			j.inputBack(toB.row(r), toX.row(r), sums, r)
		}
	})
}

// inputBack adds the gradients of b and x at a row, given those of the sums behind it.
func (j *shortConv) inputBack(db, dx []float32, sums strided, r int) {
	b, x := j.b.row(r), j.x.row(r)
	for i := range b {
		var du float32
		for k := range j.kernel {
			if behind := r + j.kernel - 1 - k; behind/j.span == r/j.span {
				du += j.conv[i*j.kernel+k] * sums.row(behind)[i]
			}
		}
		db[i] += du * x[i]
		dx[i] += du * b[i]
	}
}
