package cpu

import (
	"cmp"
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
	t.Run("clamped unit", func(t *testing.T) {
		c := device.Clamp{Limit: 1.2, Up: 1.2, Alpha: 1.702, Added: 1}
		checkSlope(t, d, []grid{away(normal(8, 2, 50), c.Limit), away(normal(9, 2, 50), c.Limit)}, 2, 50, func(x []tensor.Tensor) tensor.Tensor {
			d.ClampMul(x[0], x[0], x[1], c)
			return x[0]
		}, func(dx []tensor.Tensor, dy tensor.Tensor, x []tensor.Tensor) {
			d.ClampMulBack(dx[0], dx[1], dy, x[0], x[1], c)
		})
	})
	t.Run("clip", func(t *testing.T) {
		checkSlope(t, d, []grid{away(normal(10, 3, 40), 0.8)}, 3, 40, func(x []tensor.Tensor) tensor.Tensor {
			d.Clip(x[0], 0.8)
			return x[0]
		}, func(dx []tensor.Tensor, dy tensor.Tensor, x []tensor.Tensor) {
			d.AddScaled(dx[0], dy, 1)
			d.ClipBack(dx[0], x[0], 0.8)
		})
	})
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

// away moves numbers that finite differences would carry over a limit.
func away(g grid, limit float32) grid {
	for i, v := range g.v {
		if math.Abs(math.Abs(v)-float64(limit)) < 1.0/64 {
			g.v[i] = v * 1.1
		}
	}
	return g
}

// Attention over more rows than a tile, with windows, caps, sinks and
// temperatures; of latents, too.
func TestAttendSlopes(t *testing.T) {
	for _, c := range []struct {
		runs, span int
		a          device.Attend
		sinks      []float64
	}{
		{1, attendTile + 9, device.Attend{Heads: 2, KVHeads: 1, HeadDim: 8, Scale: 0.3}, nil},
		{2, 5, device.Attend{Heads: 4, KVHeads: 2, HeadDim: 8, Scale: 0.3, Softcap: 2}, nil},
		{1, attendTile + 40, device.Attend{Heads: 1, KVHeads: 1, HeadDim: 8, Scale: 0.3, Window: 20, Softcap: 3}, nil},
		{2, 12, device.Attend{Heads: 4, KVHeads: 2, HeadDim: 8, Scale: 0.3, Window: 5}, []float64{-1, 0.5, 2, 0}},
		{1, 30, device.Attend{Heads: 2, KVHeads: 1, HeadDim: 8, Scale: 0.3, Temperature: 0.7, TemperatureSpan: 4, Softcap: 3}, nil},
		{2, 20, device.Attend{Heads: 3, KVHeads: 1, HeadDim: 8, Scale: 0.3, Latent: 6}, nil},
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
			if c.sinks != nil {
				c.a.Sinks = upload(d, grid{1, len(c.sinks), c.sinks})
			}
			shape := device.CacheShape{Layers: 1, Pages: c.runs, PageRows: c.span, K: c.a.KVHeads * 8, V: c.a.KVHeads * 8}
			operands, width := []grid{normal(1, rows, c.a.Heads*8), normal(2, rows, c.a.KVHeads*8), normal(3, rows, c.a.KVHeads*8)}, 8
			values := func(x []tensor.Tensor) tensor.Tensor { return x[2] }
			if width = cmp.Or(c.a.Latent, 8); c.a.Latent > 0 {
				shape.V, operands = 0, operands[:2]
				values = func(x []tensor.Tensor) tensor.Tensor { return x[1].Columns(8-width, 8) }
			}
			cache := d.NewCache(shape)
			checkSlope(t, d, operands, rows, c.a.Heads*width, func(x []tensor.Tensor) tensor.Tensor {
				y := d.Alloc(tensor.F32, rows, c.a.Heads*width)
				d.Store(cache, 0, x[1], values(x).Columns(0, shape.V), b)
				d.Attend(y, x[0], cache, 0, c.a, b)
				return y
			}, func(dx []tensor.Tensor, dy tensor.Tensor, x []tensor.Tensor) {
				d.AttendBack(dx[0], dx[1], values(dx), dy, x[0], x[1], values(x), c.a, b)
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
