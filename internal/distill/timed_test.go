package distill

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// timed measures the operations of a device, by their names and shapes.
type timed struct {
	device.Quantize
	took  map[string]time.Duration
	times map[string]int
}

func (d *timed) time(op func(), name string, ts ...tensor.Tensor) {
	d.Quantize.Sync()
	start := time.Now()
	op()
	d.Quantize.Sync()
	for _, t := range ts {
		name += fmt.Sprintf(" %dx%d", t.Rows, t.Cols)
	}
	d.took[name] += time.Since(start)
	d.times[name]++
}

func (d *timed) report(b *testing.B) {
	all, times, text := time.Duration(0), 0, ""
	for _, name := range slices.SortedFunc(maps.Keys(d.took), func(x, y string) int { return cmp.Compare(d.took[y], d.took[x]) }) {
		text += fmt.Sprintf("%10.1f us  %4d  %s\n", d.took[name].Seconds()*1e6, d.times[name], name)
		all, times = all+d.took[name], times+d.times[name]
	}
	b.Logf("one by one %v, %d operations\n%s", all, times, text)
}

func (d *timed) MatMul(y, x, w, bias tensor.Tensor) {
	d.time(func() { d.Quantize.MatMul(y, x, w, bias) }, "MatMul", y, w)
}
func (d *timed) MatMulBack(dx, dy, w tensor.Tensor) {
	d.time(func() { d.Quantize.MatMulBack(dx, dy, w) }, "MatMulBack", dx, w)
}
func (d *timed) Gram(h, x, y tensor.Tensor) {
	d.time(func() { d.Quantize.Gram(h, x, y) }, "Gram", h, x)
}
func (d *timed) AttendBack(dq, dk, dv, dy, q, k, v tensor.Tensor, a device.Attend, b device.Batch) {
	d.time(func() { d.Quantize.AttendBack(dq, dk, dv, dy, q, k, v, a, b) }, "AttendBack", q)
}
func (d *timed) AttendBackHalf(dq, dk, dv, dy, y, q, k, v tensor.Tensor, a device.Attend, b device.Batch) {
	d.time(func() { d.Quantize.AttendBackHalf(dq, dk, dv, dy, y, q, k, v, a, b) }, "AttendBackHalf", q)
}
func (d *timed) ProductsBack(dx tensor.Tensor, list []device.Passed, x tensor.Tensor) {
	d.time(func() { d.Quantize.ProductsBack(dx, list, x) }, fmt.Sprint("ProductsBack ", len(list)), dx, list[0].W)
}
func (d *timed) Attend(y, q tensor.Tensor, c device.Cache, layer int, a device.Attend, b device.Batch) {
	d.time(func() { d.Quantize.Attend(y, q, c, layer, a, b) }, "Attend", q)
}
func (d *timed) Mix(y, q, k, v, freqs tensor.Tensor, c device.Cache, layer int, r device.Rope, a device.Attend, b device.Batch) {
	d.time(func() { d.Quantize.Mix(y, q, k, v, freqs, c, layer, r, a, b) }, "Mix", q)
}
func (d *timed) Rope(q, k, freqs tensor.Tensor, headDim int, r device.Rope, b device.Batch) {
	d.time(func() { d.Quantize.Rope(q, k, freqs, headDim, r, b) }, "Rope", q)
}
func (d *timed) RopeBack(q, k, freqs tensor.Tensor, headDim int, r device.Rope, b device.Batch) {
	d.time(func() { d.Quantize.RopeBack(q, k, freqs, headDim, r, b) }, "RopeBack", q)
}
func (d *timed) Store(c device.Cache, layer int, k, v tensor.Tensor, b device.Batch) {
	d.time(func() { d.Quantize.Store(c, layer, k, v, b) }, "Store", k)
}
func (d *timed) Norm(y, x, w, bias tensor.Tensor, n device.Norm) {
	d.time(func() { d.Quantize.Norm(y, x, w, bias, n) }, "Norm", x)
}
func (d *timed) NormBack(dx, dy, x, w tensor.Tensor, n device.Norm) {
	d.time(func() { d.Quantize.NormBack(dx, dy, x, w, n) }, "NormBack", x)
}
func (d *timed) ActMul(y, gate, up tensor.Tensor, a device.Act) {
	d.time(func() { d.Quantize.ActMul(y, gate, up, a) }, "ActMul", y)
}
func (d *timed) ActMulBack(dgate, dup, dy, gate, up tensor.Tensor, a device.Act) {
	d.time(func() { d.Quantize.ActMulBack(dgate, dup, dy, gate, up, a) }, "ActMulBack", dy)
}
func (d *timed) AddScaled(y, x tensor.Tensor, scale float32) {
	d.time(func() { d.Quantize.AddScaled(y, x, scale) }, "AddScaled", y)
}
func (d *timed) DivergenceBack(divergence, logits, reference tensor.Tensor) {
	d.time(func() { d.Quantize.DivergenceBack(divergence, logits, reference) }, "DivergenceBack", logits)
}
func (d *timed) TrainLatent(w tensor.Tensor, l device.Latent, first, second, dw tensor.Tensor, a device.Adam) {
	d.time(func() { d.Quantize.TrainLatent(w, l, first, second, dw, a) }, "TrainLatent", w)
}
func (d *timed) Alloc(t tensor.Type, rows, cols int) (x tensor.Tensor) {
	d.time(func() { x = d.Quantize.Alloc(t, rows, cols) }, "Alloc", tensor.New(t, rows, cols, nil))
	return x
}
func (d *timed) Free(t tensor.Tensor)  { d.time(func() { d.Quantize.Free(t) }, "Free") }
func (d *timed) Clear(t tensor.Tensor) { d.time(func() { d.Quantize.Clear(t) }, "Clear", t) }
func (d *timed) Copy(dst, src tensor.Tensor) {
	d.time(func() { d.Quantize.Copy(dst, src) }, "Copy", dst)
}
func (d *timed) Upload(dst tensor.Tensor, src []byte) {
	d.time(func() { d.Quantize.Upload(dst, src) }, "Upload")
}
func (d *timed) Embed(y, table, ids tensor.Tensor, scale float32) {
	d.time(func() { d.Quantize.Embed(y, table, ids, scale) }, "Embed", y)
}
