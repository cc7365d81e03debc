package cpu

import (
	"fmt"
	"math"
	"testing"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// checkSlope compares gradients with finite differences: forward computes a
// result from operands, backward adds to their gradients, given the result's.
func checkSlope(t *testing.T, d *Device, operands []grid, rows, cols int, forward func(x []tensor.Tensor) tensor.Tensor, backward func(dx []tensor.Tensor, dy tensor.Tensor, x []tensor.Tensor)) {
	t.Helper()
	upload1 := func() (x []tensor.Tensor) {
		for _, g := range operands {
			x = append(x, upload(d, g))
		}
		return x
	}
	weights := normal(99, rows, cols)
	loss := func() (sum float64) {
		for i, v := range download(d, forward(upload1())).v {
			sum += v * weights.v[i]
		}
		return sum
	}
	var dx []tensor.Tensor
	for _, g := range operands {
		dx = append(dx, d.Alloc(tensor.F32, g.rows, g.cols))
	}
	backward(dx, upload(d, weights), upload1())
	for n, g := range operands {
		got, largest := download(d, dx[n]), 0.0
		for _, v := range got.v {
			largest = max(largest, math.Abs(v))
		}
		for i := 0; i < len(g.v); i += 1 + len(g.v)/37 {
			const step = 1.0 / 128
			old := g.v[i]
			g.v[i] = old + step
			above := loss()
			g.v[i] = old - step
			slope := (above - loss()) / (2 * step)
			g.v[i] = old
			if math.Abs(slope-got.v[i]) > 5e-3*largest {
				t.Errorf("operand %d, element %d: gradient %v, the slope is %v", n, i, got.v[i], slope)
			}
		}
	}
}

func TestSlopes(t *testing.T) {
	d := open(t)
	for _, n := range []device.Norm{{Eps: 1e-5, Offset: 1}, {Kind: device.Layer, Eps: 1e-5}} {
		t.Run(fmt.Sprintf("norm %+v", n), func(t *testing.T) {
			w := upload(d, normal(1, 1, 40))
			checkSlope(t, d, []grid{normal(2, 3, 40)}, 3, 40, func(x []tensor.Tensor) tensor.Tensor {
				d.Norm(x[0], x[0], w, tensor.Tensor{}, n)
				return x[0]
			}, func(dx []tensor.Tensor, dy tensor.Tensor, x []tensor.Tensor) { d.NormBack(dx[0], dy, x[0], w, n) })
		})
	}
	for _, a := range []device.Act{device.SiLU, device.GELU, device.GELUTanh} {
		t.Run(fmt.Sprintf("act %d", a), func(t *testing.T) {
			checkSlope(t, d, []grid{normal(3, 2, 50), normal(4, 2, 50)}, 2, 50, func(x []tensor.Tensor) tensor.Tensor {
				d.ActMul(x[0], x[0], x[1], a)
				return x[0]
			}, func(dx []tensor.Tensor, dy tensor.Tensor, x []tensor.Tensor) {
				d.ActMulBack(dx[0], dx[1], dy, x[0], x[1], a)
			})
		})
	}
	t.Run("linear of many inputs", func(t *testing.T) {
		w := upload(d, normal(5, 600, 70))
		checkSlope(t, d, []grid{normal(6, 2, 70)}, 2, 600, func(x []tensor.Tensor) tensor.Tensor {
			y := d.Alloc(tensor.F32, 2, 600)
			d.MatMul(y, x[0], w, tensor.Tensor{})
			return y
		}, func(dx []tensor.Tensor, dy tensor.Tensor, _ []tensor.Tensor) { d.MatMulBack(dx[0], dy, w) })
	})
	t.Run("cap", func(t *testing.T) {
		checkSlope(t, d, []grid{normal(7, 2, 30)}, 2, 30, func(x []tensor.Tensor) tensor.Tensor {
			d.Cap(x[0], 2, 3)
			return x[0]
		}, func(dx []tensor.Tensor, dy tensor.Tensor, x []tensor.Tensor) {
			d.Cap(x[0], 2, 3)
			d.AddScaled(dx[0], dy, 1)
			d.CapBack(dx[0], x[0], 2, 3)
		})
	})
}

// Attention over more rows than a tile, with windows and caps.
func TestAttendSlopes(t *testing.T) {
	for _, c := range []struct {
		runs, span int
		a          device.Attend
	}{
		{1, attendTile + 9, device.Attend{Heads: 2, KVHeads: 1, HeadDim: 8, Scale: 0.3}},
		{2, 5, device.Attend{Heads: 4, KVHeads: 2, HeadDim: 8, Scale: 0.3, Softcap: 2}},
		{1, attendTile + 40, device.Attend{Heads: 1, KVHeads: 1, HeadDim: 8, Scale: 0.3, Window: 20, Softcap: 3}},
	} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			d, rows := open(t), c.runs*c.span
			var pos, seq, pages []int32
			for r := range rows {
				pos, seq = append(pos, int32(r%c.span)), append(seq, int32(r/c.span))
			}
			for s := range c.runs {
				pages = append(pages, int32(s))
			}
			b := device.Batch{Pos: indexTensor(d, pos...), Seq: indexTensor(d, seq...), Span: c.span, Table: indexTensor(d, pages...).Reshape(c.runs, 1)}
			cache := d.NewCache(device.CacheShape{Layers: 1, Pages: c.runs, PageRows: c.span, K: c.a.KVHeads * 8, V: c.a.KVHeads * 8})
			operands := []grid{normal(1, rows, c.a.Heads*8), normal(2, rows, c.a.KVHeads*8), normal(3, rows, c.a.KVHeads*8)}
			checkSlope(t, d, operands, rows, c.a.Heads*8, func(x []tensor.Tensor) tensor.Tensor {
				d.Store(cache, 0, x[1], x[2], b)
				d.Attend(x[0], x[0], cache, 0, c.a, b)
				return x[0]
			}, func(dx []tensor.Tensor, dy tensor.Tensor, x []tensor.Tensor) {
				d.AttendBack(dx[0], dx[1], dx[2], dy, x[0], x[1], x[2], c.a, b)
			})
		})
	}
}

// Columns are drawn by their probabilities.
func TestSampleBackDraws(t *testing.T) {
	d := open(t)
	const rows, cols = 4000, 3
	want := [cols]float64{0.2, 0.5, 0.3}
	logits, random := newGrid(rows, cols), newGrid(1, rows)
	for r := range rows {
		random.v[r] = (float64(r) + 0.5) / rows
		for c, p := range want {
			logits.set(r, c, math.Log(p)+float64(r%7)) // a constant changes nothing
		}
	}
	x := upload(d, logits)
	d.SampleBack(x, upload(d, random))
	var drawn [cols]float64
	for i, v := range download(d, x).v {
		if p := want[i%cols]; v < p-0.5 {
			drawn[i%cols]++
		} else if math.Abs(v-p) > 1e-6 {
			t.Fatalf("row %d, column %d: gradient %v, want %v", i/cols, i%cols, v, p)
		}
	}
	for c, p := range want {
		if math.Abs(drawn[c]/rows-p) > 1e-3 {
			t.Errorf("column %d is drawn with probability %v, want %v", c, drawn[c]/rows, p)
		}
	}
}
