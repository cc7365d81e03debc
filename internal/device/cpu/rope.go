package cpu

import (
	"math"

	"exl2/internal/device"
	"exl2/internal/parallel"
	"exl2/internal/tensor"
)

// Rope rotates the leading dimensions of the heads of q and k.
func (d *Device) Rope(q, k, freqs tensor.Tensor, headDim int, r device.Rope, b device.Batch) {
	want(q.Rows == k.Rows && q.Rows == b.Pos.Cols && r.Dims <= headDim && freqs.Cols == r.Dims/2, "Rope", q, k, freqs, b.Pos)
	d.rotate("Rope", q, k, freqs, headDim, r, b, 1)
}

// rotate rotates heads by the angles of their positions times sign.
func (d *Device) rotate(op string, q, k, freqs tensor.Tensor, headDim int, r device.Rope, b device.Batch, sign float32) {
	pos, f := ints(op, b.Pos), floats(op, freqs)
	qs, ks := rowsOf(op, q), rowsOf(op, k)
	parallel.Runs(q.Rows, rowTile, func(lo, hi int) {
		buf, release := d.borrowed(2 * len(f))
		defer release()
		sin, cos := buf[:len(f)], buf[len(f):]
		for row := lo; row < hi; row++ {
			angles(sin, cos, f, pos[row], r.Scale)
			scaleRow(sin, sign)
			turnHeads(qs.row(row), sin, cos, headDim, r)
			turnHeads(ks.row(row), sin, cos, headDim, r)
		}
	})
}

func angles(sin, cos, freqs []float32, pos int32, scale float32) {
	if scale == 0 {
		scale = 1
	}
	for i, f := range freqs {
		s, c := math.Sincos(float64(pos) * float64(f))
		sin[i], cos[i] = float32(s)*scale, float32(c)*scale
	}
}

func turnHeads(x, sin, cos []float32, headDim int, r device.Rope) {
	for h := 0; h < len(x); h += headDim {
		head := x[h : h+r.Dims]
		for i := range sin {
			a, b := i, i+r.Dims/2
			if r.Interleaved {
				a, b = 2*i, 2*i+1
			}
			head[a], head[b] = head[a]*cos[i]-head[b]*sin[i], head[b]*cos[i]+head[a]*sin[i]
		}
	}
}
