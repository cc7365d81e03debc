package cpu

import (
	"path/filepath"
	"slices"
	"testing"

	"exl2/internal/device"
	"exl2/internal/goldens"
	"exl2/internal/safetensors"
	"exl2/internal/tensor"
)

// A golden is what PyTorch gives for one operation (scripts/golden-ops.py).
type golden struct {
	t    *testing.T
	d    *Device
	file *safetensors.File
	name string
}

// eachGolden runs a test for some of the file's cases.
func eachGolden(t *testing.T, prefix string, names []string, f func(g golden, i int)) {
	t.Helper()
	file, err := safetensors.Open(filepath.Join(goldens.Repository(t), "testdata", "golden", "ops", "ops.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for i, name := range names {
		t.Run(name, func(t *testing.T) { f(golden{t, open(t), file, prefix + name}, i) })
	}
}

var goldenTypes = map[string]tensor.Type{"F32": tensor.F32, "F16": tensor.F16, "BF16": tensor.BF16, "I32": tensor.I32}

// tensor uploads one of the case's tensors. A new one each time.
func (g golden) tensor(name string) tensor.Tensor {
	g.t.Helper()
	x, err := g.file.Get(g.name + "." + name)
	if err != nil {
		g.t.Fatal(err)
	}
	t := g.d.Alloc(goldenTypes[x.DType], x.Shape[0], x.Shape[1])
	g.d.Upload(t, x.Data)
	return t
}

// wide is tensor as a range of columns of a wider one.
func (g golden) wide(name string) tensor.Tensor {
	x := g.tensor(name)
	w := g.d.Alloc(x.Type, x.Rows, x.Cols+7).Columns(3, 3+x.Cols)
	g.d.Copy(w, x)
	return w
}

// like allocates a tensor of another's shape.
func (g golden) like(x tensor.Tensor) tensor.Tensor { return g.d.Alloc(tensor.F32, x.Rows, x.Cols) }

// check fails the test unless got is the case's tensor.
func (g golden) check(what string, got tensor.Tensor, name string, tolerance float64) {
	g.t.Helper()
	dense := g.like(got)
	g.d.Copy(dense, got)
	g.t.Run(what, func(t *testing.T) { near(t, download(g.d, dense), download(g.d, g.tensor(name)), tolerance) })
}

// checkAdded fails the test unless back, which adds to a gradient, adds the
// case's tensor to what is there.
func (g golden) checkAdded(what, name string, tolerance float64, back func(dx tensor.Tensor)) {
	g.t.Helper()
	dx := g.wide(name)
	back(dx)
	g.d.AddScaled(dx, g.tensor(name), -1)
	g.check(what, dx, name, tolerance)
}

func TestGoldenNorm(t *testing.T) {
	norms := []device.Norm{{Eps: 1e-5}, {Eps: 1e-6, Offset: 1}, {Kind: device.Layer, Eps: 1e-5}}
	eachGolden(t, "norm.", []string{"rms", "offset", "layer"}, func(g golden, i int) {
		x, w := g.wide("x"), g.tensor("w")
		y := g.like(x)
		g.d.Norm(y, x, w, g.tensor("b"), norms[i])
		g.check("forward", y, "y", 1e-6)
		g.checkAdded("backward", "dx", 1e-5, func(dx tensor.Tensor) { g.d.NormBack(dx, g.wide("dy"), x, w, norms[i]) })
	})
	heads := []device.Norm{{Eps: 1e-6}, {Kind: device.Layer, Eps: 1e-6}}
	eachGolden(t, "headnorm.", []string{"rms", "layer"}, func(g golden, i int) {
		x := g.wide("x")
		g.d.HeadNorm(x, g.tensor("w"), 3, heads[i])
		g.check("forward", x, "y", 1e-6)
	})
}

func TestGoldenRope(t *testing.T) {
	ropes := []device.Rope{{Dims: 32}, {Dims: 32, Interleaved: true}, {Dims: 20}, {Dims: 12, Interleaved: true, Scale: 1.25}}
	eachGolden(t, "rope.", []string{"half", "interleaved", "partial", "partial-interleaved"}, func(g golden, i int) {
		q, k, freqs := g.wide("q"), g.wide("k"), g.tensor("freqs")
		b := device.Batch{Pos: g.tensor("pos"), Span: 1}
		g.d.Rope(q, k, freqs, 32, ropes[i], b)
		g.check("q", q, "y", 1e-6)
		g.check("k", k, "z", 1e-6)
		dy, dz := g.wide("dy"), g.wide("dz")
		g.d.RopeBack(dy, dz, freqs, 32, ropes[i], b)
		g.check("backward of q", dy, "dq", 1e-6)
		g.check("backward of k", dz, "dk", 1e-6)
	})
}

func TestGoldenAct(t *testing.T) {
	acts := []device.Act{device.SiLU, device.GELU, device.GELUTanh, device.ReLU, device.Logistic, device.Softplus}
	eachGolden(t, "act.", []string{"silu", "gelu", "gelu_tanh", "relu", "sigmoid", "softplus"}, func(g golden, i int) {
		gate, up, dy := g.wide("gate"), g.tensor("up"), g.wide("dy")
		y, unused := g.like(gate), g.like(gate)
		g.d.ActMul(y, gate, up, acts[i])
		g.check("forward", y, "y", 1e-6)
		g.checkAdded("gradient of the gate", "dgate", 1e-6, func(dx tensor.Tensor) { g.d.ActMulBack(dx, unused, dy, gate, up, acts[i]) })
		g.checkAdded("gradient of the other", "dup", 1e-6, func(dx tensor.Tensor) { g.d.ActMulBack(unused, dx, dy, gate, up, acts[i]) })
	})
}

func TestGoldenHeadGates(t *testing.T) {
	eachGolden(t, "headgates.", []string{"sigmoid", "softplus"}, func(g golden, i int) {
		x, gate, dy, act := g.wide("x"), g.tensor("gate"), g.wide("dy"), []device.Act{device.Logistic, device.Softplus}[i]
		y, unused, few := g.like(x), g.like(x), g.like(gate)
		g.d.HeadGates(y, x, gate, act)
		g.check("forward", y, "y", 1e-6)
		g.checkAdded("gradient of x", "dx", 1e-6, func(dx tensor.Tensor) { g.d.HeadGatesBack(dx, few, dy, x, gate, act) })
		g.checkAdded("gradient of gates", "dgate", 1e-5, func(dx tensor.Tensor) { g.d.HeadGatesBack(unused, dx, dy, x, gate, act) })
	})
}

func TestGoldenXIELU(t *testing.T) {
	eachGolden(t, "xielu.", []string{"layer"}, func(g golden, _ int) {
		x, dy, u := g.wide("x"), g.wide("dy"), device.XIELU{Positive: 1.1, Negative: 0.7, Beta: 0.5, Least: -1e-6}
		y := g.like(x)
		g.d.XIELU(y, x, u)
		g.check("forward", y, "y", 1e-6)
		g.checkAdded("backward", "dx", 1e-6, func(dx tensor.Tensor) { g.d.XIELUBack(dx, dy, x, u) })
	})
}

func TestGoldenCap(t *testing.T) {
	eachGolden(t, "cap.", []string{"cap", "scale"}, func(g golden, i int) {
		scale, softcap := []float32{0.5, 0.0625}[i], []float32{30, 0}[i]
		x, dy := g.wide("x"), g.wide("dy")
		g.d.Cap(x, scale, softcap)
		g.check("forward", x, "y", 1e-6)
		g.d.CapBack(dy, x, scale, softcap)
		g.check("backward", dy, "dx", 1e-5)
	})
}

func TestGoldenUnits(t *testing.T) {
	clamps := []device.Clamp{{Limit: 7, Up: 7, Alpha: 1.702, Added: 1}, {Limit: 3.1310197201653196, Up: 3, Alpha: 1}} // of the second silu is 3 at the limit
	eachGolden(t, "unit.", []string{"clamped", "limited"}, func(g golden, i int) {
		gate, up, dy, c := g.wide("gate"), g.tensor("up"), g.wide("dy"), clamps[i]
		y, unused := g.like(gate), g.like(gate)
		g.d.ClampMul(y, gate, up, c)
		g.check("forward", y, "y", 1e-6)
		g.checkAdded("gradient of the gate", "dgate", 1e-6, func(dx tensor.Tensor) { g.d.ClampMulBack(dx, unused, dy, gate, up, c) })
		g.checkAdded("gradient of the other", "dup", 1e-6, func(dx tensor.Tensor) { g.d.ClampMulBack(unused, dx, dy, gate, up, c) })
	})
	eachGolden(t, "unit.", []string{"clipped"}, func(g golden, _ int) {
		y, dx := g.wide("x"), g.wide("dy")
		g.d.Clip(y, 1.5)
		g.check("forward", y, "y", 0)
		g.d.ClipBack(dx, g.wide("x"), 1.5)
		g.check("backward", dx, "dx", 0)
	})
}

// attendCase is a cache and a batch for goldens of attention.
func (g golden) attendCase(k, v int) (device.Cache, device.Batch) {
	const runs, span, pageRows = 2, 9, 4
	var pos, seq []int32
	for r := range runs * span {
		pos, seq = append(pos, int32(r%span)), append(seq, int32(r/span))
	}
	b := device.Batch{Pos: indexTensor(g.d, pos...), Seq: indexTensor(g.d, seq...), Span: span, Table: indexTensor(g.d, 5, 0, 2, 1, 4, 3).Reshape(2, 3)}
	return g.d.NewCache(device.CacheShape{Layers: 1, Pages: 6, PageRows: pageRows, K: k, V: v}), b
}

func TestGoldenAttend(t *testing.T) {
	attends := []device.Attend{{}, {Window: 4}, {Softcap: 5}, {Window: 3, Softcap: 5}, {}, {Temperature: 0.3, TemperatureSpan: 4}}
	eachGolden(t, "attend.", []string{"plain", "window", "softcap", "both", "sinks", "temperature"}, func(g golden, i int) {
		a := attends[i]
		a.Heads, a.KVHeads, a.HeadDim, a.Scale = 4, 2, 16, 0.5
		if g.name == "attend.sinks" {
			a.Sinks = g.tensor("sinks")
		}
		c, b := g.attendCase(32, 32)
		q, k, v, dy := g.wide("q"), g.wide("k"), g.wide("v"), g.wide("dy")
		y := g.wide("q")
		g.d.Store(c, 0, k, v, b)
		g.d.Attend(y, q, c, 0, a, b)
		g.check("forward", y, "y", 1e-5)
		none := [3]tensor.Tensor{g.like(q), g.like(k), g.like(v)}
		for n, name := range []string{"dq", "dk", "dv"} {
			g.checkAdded(name, name, 1e-5, func(dx tensor.Tensor) {
				all := none
				all[n] = dx
				g.d.AttendBack(all[0], all[1], all[2], dy, q, k, v, a, b)
			})
		}
	})
	eachGolden(t, "attend.", []string{"latent"}, func(g golden, _ int) {
		a := device.Attend{Heads: 4, KVHeads: 1, HeadDim: 16, Scale: 0.5, Latent: 12}
		c, b := g.attendCase(16, 0)
		q, k, dy, y := g.wide("q"), g.wide("k"), g.wide("dy"), g.wide("dy")
		g.d.Store(c, 0, k, k.Columns(0, 0), b)
		g.d.Attend(y, q, c, 0, a, b)
		g.check("forward", y, "y", 1e-5)
		back := func(dq, dk tensor.Tensor) {
			g.d.AttendBack(dq, dk, dk.Columns(4, 16), dy, q, k, k.Columns(4, 16), a, b)
		}
		g.checkAdded("dq", "dq", 1e-5, func(dx tensor.Tensor) { back(dx, g.like(k)) })
		g.checkAdded("dk", "dk", 1e-5, func(dx tensor.Tensor) { back(g.like(q), dx) })
	})
}

func TestGoldenGatedDelta(t *testing.T) {
	eachGolden(t, "delta.", []string{"plain", "grouped", "alone", "twice"}, func(g golden, i int) {
		goldenDelta(g, deltas[i], g.wide("b"), deltaRuns[i])
	})
}

func TestGoldenMamba2(t *testing.T) {
	eachGolden(t, "scan.", []string{"plain", "grouped", "alone"}, func(g golden, i int) {
		d := deltas[i]
		d.Plain, d.Skip, d.ConvBias, d.Least = true, g.tensor("skip"), g.tensor("shift"), []float32{0, 0.5, 0}[i]
		goldenDelta(g, d, tensor.Tensor{}, deltaRuns[i])
	})
	eachGolden(t, "", []string{"gatednorm"}, func(g golden, _ int) {
		y, x := g.wide("y"), g.wide("x")
		g.d.GatedNorm(y, x, g.wide("gate"), g.tensor("w"), 16, device.Norm{Eps: 1e-5})
		g.check("forward", y, "y", 1e-5)
	})
}

var (
	deltas = []device.GatedDelta{
		{KeyHeads: 2, ValueHeads: 2, KeyDim: 8, ValueDim: 8, Kernel: 4}, {KeyHeads: 2, ValueHeads: 6, KeyDim: 8, ValueDim: 12, Kernel: 4},
		{KeyHeads: 1, ValueHeads: 2, KeyDim: 16, ValueDim: 4, Kernel: 1}, {KeyHeads: 2, ValueHeads: 2, KeyDim: 8, ValueDim: 16, Kernel: 4, Most: 2},
	}
	deltaRuns = []int{2, 1, 3, 2}
)

// goldenDelta compares whole sequences, sequences in two runs, and gradients; b may be absent.
func goldenDelta(g golden, d device.GatedDelta, b tensor.Tensor, runs int) {
	d.Conv, d.Decay, d.Bias = g.tensor("conv"), g.tensor("decay"), g.tensor("bias")
	q, k, v, a := g.wide("q"), g.wide("k"), g.wide("v"), g.wide("a")
	batch, span := batchOfRuns(g.d, runs, q.Rows/runs), q.Rows/runs
	m := device.DeltaState{State: g.d.Alloc(tensor.F32, runs, d.StateSize()), Inputs: g.d.Alloc(tensor.F32, runs, (d.Kernel-1)*d.Columns())}
	dirty(g.d, m.State, m.Inputs)
	y, columns := g.wide("y"), g.d.Alloc(tensor.F32, q.Rows, d.Columns())
	g.d.GatedDelta(y, columns, q, k, v, a, b, d, m, batch)
	g.check("forward", y, "y", 1e-5)
	g.check("state", m.State, "state", 1e-5)
	if d.Kernel > 1 && !d.Plain {
		g.check("inputs", m.Inputs, "inputs", 0)
	}
	for _, first := range []int{1, span - 1} { // each sequence by itself, in two runs
		dirty(g.d, m.State, m.Inputs, y)
		for r := range runs {
			for _, part := range [][2]int{{0, first}, {first, span}} {
				lo, hi := r*span+part[0], r*span+part[1]
				rates := b
				if !b.Nil() {
					rates = b.Slice(lo, hi)
				}
				few := device.Batch{Pos: batch.Pos.Columns(lo, hi), Seq: batch.Seq.Columns(lo, hi), Span: hi - lo}
				g.d.GatedDelta(y.Slice(lo, hi), columns.Slice(lo, hi), q.Slice(lo, hi), k.Slice(lo, hi), v.Slice(lo, hi), a.Slice(lo, hi), rates, d, m, few)
			}
		}
		g.check("forward in parts", y, "y", 1e-5)
		g.check("state", m.State, "state", 1e-5)
	}
	g.d.GatedDelta(y, columns, q, k, v, a, b, d, m, batch)
	none, names, dcolumns := []tensor.Tensor{g.like(q), g.like(k), g.like(v), g.like(a), {}}, []string{"dq", "dk", "dv", "da"}, g.like(columns)
	if !b.Nil() {
		none[4], names = g.like(b), append(names, "db")
	}
	dirty(g.d, dcolumns)
	for n, name := range names {
		g.checkAdded(name, name, 2e-5, func(dx tensor.Tensor) {
			all := slices.Clone(none)
			all[n] = dx
			g.d.GatedDeltaBack(all[0], all[1], all[2], all[3], all[4], dcolumns, g.wide("dy"), columns, q, k, v, a, b, d, batch)
		})
	}
}

func TestGoldenShortConv(t *testing.T) {
	kernels, runs := []int{3, 1}, []int{2, 3}
	eachGolden(t, "short.", []string{"plain", "alone"}, func(g golden, i int) {
		s := device.ShortConv{Kernel: kernels[i], Conv: g.tensor("conv"), Bias: g.tensor("bias")}
		b, c, x, y := g.wide("b"), g.wide("c"), g.wide("x"), g.wide("y")
		span := b.Rows / runs[i]
		batch, inputs := batchOfRuns(g.d, runs[i], span), g.d.Alloc(tensor.F32, runs[i], (s.Kernel-1)*b.Cols)
		dirty(g.d, inputs)
		g.d.ShortConv(y, b, c, x, s, inputs, batch)
		g.check("forward", y, "y", 1e-5)
		dirty(g.d, inputs, y)
		for r := range runs[i] { // each sequence by itself, row by row
			for lo := r * span; lo < (r+1)*span; lo++ {
				one := device.Batch{Pos: batch.Pos.Columns(lo, lo+1), Seq: batch.Seq.Columns(lo, lo+1), Span: 1}
				g.d.ShortConv(y.Slice(lo, lo+1), b.Slice(lo, lo+1), c.Slice(lo, lo+1), x.Slice(lo, lo+1), s, inputs, one)
			}
		}
		g.check("forward in parts", y, "y", 1e-5)
		for n, name := range []string{"db", "dc", "dx"} {
			g.checkAdded(name, name, 1e-5, func(dx tensor.Tensor) {
				all, room := []tensor.Tensor{g.like(b), g.like(b), g.like(b)}, g.like(b)
				dirty(g.d, room)
				all[n] = dx
				g.d.ShortConvBack(all[0], all[1], all[2], room, g.wide("dy"), b, c, x, s, batch)
			})
		}
	})
}

// batchOfRuns is runs of whole sequences.
func batchOfRuns(d *Device, runs, span int) device.Batch {
	pos, seq := make([]int32, runs*span), make([]int32, runs*span)
	for i := range pos {
		pos[i], seq[i] = int32(i%span), int32(i/span)
	}
	b := device.Batch{Pos: d.Alloc(tensor.I32, 1, len(pos)), Seq: d.Alloc(tensor.I32, 1, len(pos)), Span: span}
	d.Upload(b.Pos, tensor.BytesOf(pos))
	d.Upload(b.Seq, tensor.BytesOf(seq))
	return b
}

// dirty fills tensors with what nobody may read.
func dirty(d *Device, list ...tensor.Tensor) {
	for _, x := range list {
		for r := range x.Rows {
			row := rowsOf("dirty", x).row(r)
			for i := range row {
				row[i] = 77
			}
		}
	}
}

func TestGoldenLinear(t *testing.T) {
	eachGolden(t, "linear.", []string{"f32", "f16", "bf16"}, func(g golden, _ int) {
		x, w, b := g.wide("x"), g.tensor("w"), g.tensor("b")
		y := g.wide("y")
		g.d.MatMul(y, x, w, b)
		g.check("forward", y, "y", 1e-5)
		g.d.MatMul(y.Slice(0, 2), x.Slice(0, 2), w, b) // few rows go another way
		g.check("forward of two rows", y, "y", 1e-5)
		g.checkAdded("backward", "dx", 1e-5, func(dx tensor.Tensor) { g.d.MatMulBack(dx, g.wide("dy"), w) })
	})
}

func TestGoldenSample(t *testing.T) {
	eachGolden(t, "sampl", []string{"e"}, func(g golden, _ int) {
		logits := g.wide("logits")
		g.d.SampleBack(logits, g.tensor("random"))
		g.check("gradient", logits, "d", 1e-6)
	})
}
