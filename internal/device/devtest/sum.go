package devtest

import (
	"fmt"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// A sumCase is what a sublayer gives, which joins the stream, in front of products that read that: normalized, as it is, or not at all.
type sumCase struct {
	rows, hidden int
	recipe       string
	norm         bool // of what the sublayer gives
	times, then  float32
	reader       string
	given        string // what the sublayer gives is F32, or two things, or of the activation type
}

func sumCases() (cases []testCase) {
	for _, c := range []sumCase{
		{1, 64, "1:4b_32g", true, 1, 1, "normed", ""},
		{1, 2560, "1:4b_128g", true, 1, 1, "normed", ""},
		{1, 5120, "0.1:4b_128g/0.9:3b_128g", true, 0.5, 0.25, "normed", ""},
		{1, 2880, "0.1:5b_128g/0.9:4b_128g", false, 0.22, 1, "normed", ""},
		{1, 2048, "0.25:3b_64g/0.75:2b_64g", true, 1, 1, "as it is", ""},
		{1, 4096, "1:4b_128g", true, 1, 1, "nobody", ""},
		{2, 1024, "0.1:8b_32g/0.1:6b_64g/0.2:5b_128g/0.2:4b_128g/0.2:3b_64g/0.2:2b_32g", true, 1, 1, "normed", ""},
		{2, 1024, "1:4b_128g", true, 1, 2, "as it is", ""},
		{3, 512, "1:4b_128g", false, 3, 1, "as it is", ""},
		{4, 5120, "1:4b_128g", true, 1, 1, "normed", ""},
		{7, 512, "1:6b_128g", true, 1, 1, "normed", ""},
		{8, 9216, "1:4b_128g", true, 1, 1, "normed", ""},
		{8, 1024, "1:4b_128g", true, 1, 1, "as it is", ""},
		{16, 2560, "1:4b_128g", true, 0.7, 0.5, "normed", ""},
		{16, 2560, "1:4b_128g", false, 0.7, 1, "as it is", ""},
		{17, 256, "1:4b_128g", true, 1, 1, "normed", ""},
		{40, 1024, "1:4b_128g", true, 1, 1, "as it is", ""},
		{2, 18944, "1:4b_128g", true, 1, 1, "normed", ""},
		{1, 36, "1:4b_32g", true, 1, 1, "nobody", ""},
		{1, 2816, "1:4b_128g", true, 1, 0.5, "normed", "two"},
		{3, 96, "1:4b_32g", false, 1, 1, "as it is", "two"},
		{8, 2816, "1:4b_128g", true, 1, 1, "normed", "two"},
		{33, 512, "1:4b_128g", true, 1, 1, "normed", "two"},
		{1, 1024, "1:4b_128g", true, 1, 1, "normed", "F32"},
		{9, 512, "1:4b_128g", true, 1, 1, "as it is", "F32"},
		{40, 300, "1:4b_128g", true, 2, 1, "nobody", "F32"},
	} {
		cases = append(cases, testCase{name: fmt.Sprintf("%+v", c), limit: fusedLimit, build: c.build})
	}
	return cases
}

func (c sumCase) build(f *fixture) func(device.Device) {
	const narrow = 64
	fc := fusedCase{rows: c.rows, hidden: c.hidden, recipe: c.recipe}
	stream, scale := f.inOut("stream", residual, c.rows, c.hidden, noise(1)), f.in("scale", tensor.F32, 1, c.hidden, scaled(noise(2), 0.1, 0))
	x, given := f.in("x", activation, c.rows, narrow, noise(3)), f.spent("given", activation, c.rows, c.hidden)
	wide, both := given, tensor.Tensor{}
	if c.given != "" {
		wide, both = f.spent("wide", tensor.F32, c.rows, c.hidden), f.spent("both", tensor.F32, c.rows, c.hidden)
	}
	spare := f.spent("spare", activation, c.rows, c.hidden)
	first := device.Product{Y: f.out("first", activation, c.rows, narrow), W: fc.matrixOf(f, max(c.hidden/32*32, 32), narrow, 0)}
	last := device.Product{Y: f.out("last", activation, c.rows, narrow), W: first.W}
	up := fc.matrixOf(f, narrow, c.hidden, 2)
	sum := device.Sum{X: stream, Y: wide, Times: c.times, Then: c.then}
	if c.norm {
		sum.Norm, sum.Scale = device.Norm{Eps: 1e-3, Offset: 1}, f.in("post", tensor.F32, 1, c.hidden, noise(4))
	}
	if c.given == "two" {
		beside := f.in("beside", activation, c.rows, c.hidden, noise(5))
		sum.With = &device.Addend{Y: beside, Norm: device.Norm{Eps: 1e-4}, Own: f.in("own", tensor.F32, 1, c.hidden, noise(6)), First: f.in("other", tensor.F32, 1, c.hidden, noise(7))}
	}
	read := device.Products{X: stream.Columns(0, c.hidden/32*32), Norm: device.Norm{Eps: 1e-5}, Scale: scale.Columns(0, c.hidden/32*32), List: []device.Product{last}}
	if c.reader == "as it is" {
		read.Norm, read.Scale = device.Norm{}, tensor.Tensor{}
	}
	return func(d device.Device) {
		before := read
		before.List = []device.Product{first}
		multiplyStream(d, before, spare)
		d.QMatMul(given, x, up, tensor.Tensor{})
		if c.given != "" {
			d.Copy(wide, given)
		}
		joins, next := sum, read
		if c.reader != "nobody" {
			joins.Reader = &read
		}
		next.Left = sumTo(d, joins, given, both) && c.reader != "nobody"
		multiplyStream(d, next, spare)
	}
}

// sumTo adds to the stream as a sum says, and reports whether that may have been left for its reader. y and both are as SumOf has them.
func sumTo(d device.Device, s device.Sum, y, both tensor.Tensor) (left bool) {
	if fuser, ok := d.(device.Fuser); ok && fuser.Sum(s) {
		return true
	}
	SumOf(d, s, y, both)
	return false
}

// SumOf is what Fuser.Sum does, by operations that all devices have. y, of the activation type, which may be what the sublayer gives, and, of
// two outputs, both, F32, become anything.
func SumOf(d device.Device, s device.Sum, y, both tensor.Tensor) {
	from := s.Y
	if w := s.With; w != nil {
		from = both
		d.Clear(both)
		d.Norm(y, s.Y, w.First, tensor.Tensor{}, w.Norm)
		d.AddScaled(both, y, 1)
		d.Norm(y, w.Y, w.Own, tensor.Tensor{}, w.Norm)
		d.AddScaled(both, y, 1)
	}
	switch {
	case !s.Scale.Nil():
		d.Norm(y, from, s.Scale, s.Shift, s.Norm)
	case from != y:
		d.Copy(y, from)
	}
	d.AddScaled(s.X, y, s.Times)
	if s.Then != 1 {
		d.Cap(s.X, s.Then, 0)
	}
}

// multiplyStream multiplies the stream by p's matrices, normalized or as it is; spare has room for what is multiplied where there is no Fuser.
func multiplyStream(d device.Device, p device.Products, spare tensor.Tensor) {
	if fuser, ok := d.(device.Fuser); ok && fuser.Products(p) {
		return
	}
	in := spare.Columns(0, p.X.Cols)
	if !p.Scale.Nil() {
		normThenMultiply(d, in, p)
		return
	}
	d.Copy(in, p.X)
	multiply(d, in, p.List)
}
