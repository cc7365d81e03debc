package model_test

import (
	"testing"

	"exl2/internal/arch"
	"exl2/internal/device"
	"exl2/internal/device/devtest"
	"exl2/internal/goldens"
	"exl2/internal/model"
	"exl2/internal/tensor"
)

// fusing is a device that makes products with what is around them out of operations of
// another, except those that it refuses.
type fusing struct {
	device.Device
	refuses func(p device.Products) bool
	apart   bool // mixtures are refused
	made    int

	// What is left for the next products: what they would normalize, by the norm's
	// weights, and what attention computes, which is elsewhere then.
	normed, mixed tensor.Tensor
	of, scale     tensor.Tensor
	read          int // how often
	plain         int // how often of that the stream as it is

	lasts map[device.Group]last
	whole int // mixtures with the expert that all rows see
}

// last is the last matrix of a group.
type last struct {
	device.Matrix
	bias tensor.Tensor
}

// Group keeps the last matrix, which is none of the group if it has another size.
func (f *fusing) Group(list []device.Matrix, dense, biases []tensor.Tensor) device.Group {
	n := len(list) - 1
	if n < 1 || list[n] == nil {
		return f.Device.Group(list, dense, biases)
	}
	l := last{Matrix: list[n]}
	if len(biases) > 0 {
		l.bias = biases[n]
	}
	if l.In() != list[0].In() || l.Out() != list[0].Out() {
		list, dense, biases = list[:n], dense[:n], biases[:min(n, len(biases))]
	}
	g := f.Device.Group(list, dense, biases)
	if f.lasts == nil {
		f.lasts = map[device.Group]last{}
	}
	f.lasts[g] = l
	return g
}

// multiply is y = x·Wᵀ of a group's last matrix.
func (f *fusing) multiply(y, x tensor.Tensor, g device.Group) {
	l := f.lasts[g]
	f.QMatMul(y, x, l.Matrix, l.bias)
}

// computeLast leaves what the expert that all rows see computes of rows.
func (f *fusing) computeLast(y, x tensor.Tensor, e device.Experts) {
	width := f.lasts[e.Whole.Up].Out()
	ups := f.Alloc(x.Type, x.Rows, width)
	defer f.Free(ups)
	gates := ups
	f.multiply(ups, x, e.Whole.Up)
	if e.Whole.Gate != nil {
		gates = f.Alloc(x.Type, x.Rows, width)
		defer f.Free(gates)
		f.multiply(gates, x, e.Whole.Gate)
	}
	e.Apply(f.Device, gates, gates, ups)
	f.multiply(y, gates, e.Whole.Down)
	f.whole++
}

// Mix leaves its result for products alone, if they are to be made.
func (f *fusing) Mix(y, q, k, v, freqs tensor.Tensor, of device.Cache, layer int, h device.Heads, r device.Rope, a device.Attend, b device.Batch) {
	reader := a.Reader
	a.Reader = nil
	f.Device.Mix(y, q, k, v, freqs, of, layer, h, r, a, b)
	f.leaveFor(y, reader)
}

// leaveFor has y elsewhere if there is a reader, which is to be made.
func (f *fusing) leaveFor(y tensor.Tensor, reader device.Matrix) {
	if reader == nil || f.refuses(device.Products{Then: device.Add}) {
		return
	}
	f.mixed = f.Alloc(y.Type, y.Rows, y.Cols)
	f.Copy(f.mixed, y)
	f.Clear(y)
}

// MixLatent leaves its result as Mix does.
func (f *fusing) MixLatent(y, q, kv tensor.Tensor, m device.LatentMixing) bool {
	if f.apart {
		return false
	}
	reader := m.Attend.Reader
	m.Attend.Reader = nil
	m.By(f.Device, y, q, kv)
	f.leaveFor(y, reader)
	f.made++
	return true
}

// AtOnce is all rows.
func (f *fusing) AtOnce(rows int, _ device.Matrix) int { return rows }

// MatMulGated is made of a product and its gate.
func (f *fusing) MatMulGated(y, x, w, by tensor.Tensor, a device.Act) bool {
	if f.apart {
		return false
	}
	narrow, gate, up := f.Alloc(f.Activation(), x.Rows, x.Cols), f.Alloc(f.Activation(), y.Rows, y.Cols), f.Alloc(f.Activation(), y.Rows, y.Cols)
	defer func() { f.Free(narrow); f.Free(gate); f.Free(up) }()
	devtest.GatedOf(f.Device, y, x, w, by, a, narrow, gate, up)
	f.made++
	return true
}

// ActMulFor leaves its result as Mix does.
func (f *fusing) ActMulFor(y, gate, up tensor.Tensor, a device.Act, reader device.Matrix) bool {
	f.ActMul(y, gate, up, a)
	f.leaveFor(y, reader)
	return true
}

// left returns what has been left for p in the place of x, or nothing.
func (f *fusing) left(p device.Products) (x tensor.Tensor) {
	switch {
	case !p.Left:
	case f.of.Mem == p.X.Mem && f.scale.Mem == p.Scale.Mem && !f.normed.Nil():
		x, f.normed, f.of = f.normed, tensor.Tensor{}, tensor.Tensor{}
		if p.Scale.Nil() {
			f.plain++
		}
	case p.Scale.Nil():
		x, f.mixed = f.mixed, tensor.Tensor{}
	}
	if !x.Nil() {
		f.read++
	}
	return x
}

// leave leaves the norm of the stream for what reads it next.
func (f *fusing) leave(p *device.Products) {
	if p == nil {
		return
	}
	f.normed, f.of, f.scale = f.Alloc(f.Activation(), p.X.Rows, p.X.Cols), p.X, p.Scale
	if p.Scale.Nil() {
		f.Copy(f.normed, p.X)
		return
	}
	f.Norm(f.normed, p.X, p.Scale, p.Shift, p.Norm)
}

func (f *fusing) Products(list ...device.Products) bool {
	for _, p := range list {
		if f.refuses(p) {
			return false
		}
	}
	for _, p := range list {
		f.one(p)
		f.made++
	}
	return true
}

func (f *fusing) one(p device.Products) {
	var owned []tensor.Tensor
	temporary := func(cols int) tensor.Tensor {
		x := f.Alloc(f.Activation(), p.X.Rows, cols)
		owned = append(owned, x)
		return x
	}
	x := p.X
	if left := f.left(p); !left.Nil() {
		x, owned = left, append(owned, left)
	} else if !p.Scale.Nil() {
		x = temporary(p.X.Cols)
		f.Norm(x, p.X, p.Scale, p.Shift, p.Norm)
	}
	ys := make([]tensor.Tensor, len(p.List))
	for i, l := range p.List {
		ys[i] = temporary(l.W.Out())
		f.QMatMul(ys[i], x, l.W, l.Bias)
	}
	switch {
	case p.Joins != nil:
		s := *p.Joins
		s.Y = ys[0]
		devtest.SumOf(f.Device, s, ys[0], tensor.Tensor{})
		f.leave(s.Reader)
	case p.Then == device.Gate:
		f.ActMul(p.List[0].Y, ys[0], ys[1], p.Act)
	case p.Then == device.Activate:
		f.ActMul(p.List[0].Y, ys[0], tensor.Tensor{}, p.Act)
	case p.Then == device.SelfGate:
		f.ActMul(p.List[0].Y, ys[0], ys[0], p.Act)
	case p.Then == device.Add:
		f.AddScaled(p.List[0].Y, ys[0], 1)
		f.leave(p.Reader)
	default:
		for i, l := range p.List {
			f.Copy(l.Y, ys[i])
		}
	}
	for _, t := range owned {
		f.Free(t)
	}
}

// Sum leaves the stream for what reads it next.
func (f *fusing) Sum(s device.Sum) bool {
	if f.apart {
		return false
	}
	y, both := f.Alloc(f.Activation(), s.Y.Rows, s.Y.Cols), f.Alloc(tensor.F32, s.Y.Rows, s.Y.Cols)
	defer func() { f.Free(y); f.Free(both) }()
	devtest.SumOf(f.Device, s, y, both)
	f.leave(s.Reader)
	f.made++
	return true
}

// Attention is made of products and Mix.
func (f *fusing) Attention(y tensor.Tensor, p device.Products, m device.Mixing) bool {
	if f.refuses(p) || len(p.List) != 3 {
		return false
	}
	f.one(p)
	f.Mix(y, p.List[0].Y, p.List[1].Y, p.List[2].Y, m.Freqs, m.Cache, m.Layer, m.Heads, m.Rope, m.Attend, m.Batch)
	f.made++
	return true
}

// LinearAttention is made of products and what follows them, and leaves its result as Mix does.
func (f *fusing) LinearAttention(y tensor.Tensor, p device.Products, m device.LinearMixing) bool {
	if f.refuses(p) || m.Batch.Span != 1 {
		return false
	}
	normed, rates, columns := f.Alloc(f.Activation(), p.X.Rows, p.X.Cols), f.Alloc(tensor.F32, y.Rows, m.Rates.Rows), f.Alloc(tensor.F32, y.Rows, m.Columns())
	f.Norm(normed, p.X, p.Scale, p.Shift, p.Norm)
	f.one(p)
	devtest.LinearOf(f.Device, y, normed, rates, columns, p.List, m)
	f.leaveFor(y, m.Reader)
	for _, t := range []tensor.Tensor{normed, rates, columns} {
		f.Free(t)
	}
	f.made++
	return true
}

// MixExperts leaves its sum for who reads it next.
func (f *fusing) MixExperts(y, x tensor.Tensor, e device.Experts, r device.Routes) {
	f.Device.MixExperts(y, x, e, r)
	f.leave(e.Reader)
}

// Mixture is done where it is not refused.
func (f *fusing) Mixture(y, x tensor.Tensor, c device.Choice, r device.Router, e device.Experts) bool {
	if f.apart {
		return false
	}
	normed := f.Alloc(f.Activation(), x.Rows, x.Cols)
	f.Choose(c, normed, x, r)
	if r.Apart != nil {
		f.Norm(normed, x, r.Apart.Scale, tensor.Tensor{}, r.Apart.Norm)
	}
	if e.Whole != nil {
		n := c.Rows.Cols
		f.computeLast(e.Each.Slice(n, n+x.Rows), normed, e)
	}
	f.MixExperts(y, normed, e, c.Routes)
	f.Free(normed)
	f.made++
	return true
}

// Decode steps are the same whatever a device makes together.
func TestFused(t *testing.T) {
	anything := func(device.Products) bool { return false }
	for _, dir := range goldens.Dirs(t, "exl2") {
		for _, c := range []struct {
			name    string
			refuses func(p device.Products) bool
		}{
			{"all", anything},
			{"no sums", func(p device.Products) bool { return p.Then == device.Add }},
			{"no gates", func(p device.Products) bool { return p.Then.Activates() }},
			{"no norms", func(p device.Products) bool { return !p.Scale.Nil() }},
		} {
			t.Run(goldens.Name(dir)+" "+c.name, func(t *testing.T) {
				l, golden := open(t, dir)
				ids, shape := ints(t, golden, "input_ids")
				ids = ids[:shape[1]]
				f := &fusing{Device: devtest.CPU(t), refuses: c.refuses}
				want, got := steps(t, l, devtest.CPU(t), ids), steps(t, l, f, ids)
				if _, most := difference(got, want); !(most <= 1e-4) {
					t.Errorf("logits differ by %.2g, want at most 1e-4", most)
				}
				if f.made == 0 || c.name == "all" && f.read == 0 {
					t.Error("nothing was made together, or left for what came next")
				}
			})
		}
	}
}

// sameSteps compares the logits of some steps of a model on f with those on the CPU, and returns the model's spec.
func sameSteps(t *testing.T, dir string, f *fusing, ids []int32) arch.Spec {
	t.Helper()
	l, files, err := model.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	want, got := steps(t, l, devtest.CPU(t), ids), steps(t, l, f, ids)
	if _, most := difference(got, want); !(most <= 1e-4) {
		t.Errorf("logits differ by %.2g, want at most 1e-4", most)
	}
	return l.Spec
}

// steps returns the logits of a sequence, position by position.
func steps(t *testing.T, l *model.Loader, d device.Device, ids []int32) (all []float32) {
	l.Spec.SetContext(len(ids))
	modules, err := l.LoadAll(d)
	if err != nil {
		t.Fatal(err)
	}
	model.Follow(modules...)
	c := model.NewCache(d, l.Spec, model.WholeCache(l.Spec, 1, len(ids)))
	s := model.NewState(d, l.Spec, model.Size{Rows: 1, Logits: 1}, c)
	for at := range ids {
		all = append(all, pass(t, modules, s, ids, 1, at, at+1)[0]...)
	}
	for _, m := range modules {
		m.Free()
	}
	s.Free()
	c.Free()
	return all
}
