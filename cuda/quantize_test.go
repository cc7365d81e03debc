package cuda

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"exl2/internal/device"
	"exl2/internal/device/cpu"
	"exl2/internal/exl2"
	"exl2/internal/half"
	"exl2/internal/tensor"
)

// A bench is the GPU and the reference, which get the same data.
type bench struct {
	t   testing.TB
	gpu *Device
	cpu device.Quantize
}

func newBench(t testing.TB) *bench {
	gpu := openGPU(t)
	t.Cleanup(func() {
		if err := gpu.Close(); err != nil {
			t.Error(err)
		}
	})
	ref, err := cpu.New()
	if err != nil {
		t.Fatal(err)
	}
	return &bench{t: t, gpu: gpu, cpu: ref}
}

// A pair is a tensor on both.
type pair struct{ gpu, cpu tensor.Tensor }

func bytesFrom[E any](v []E) []byte {
	var e E
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), len(v)*int(unsafe.Sizeof(e)))
}

func elementsFrom[E any](b []byte) []E {
	var e E
	return unsafe.Slice((*E)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(e)))
}

// put uploads numbers; fp16 ones are float32 on the reference.
func (b *bench) put(t tensor.Type, rows, cols int, v []float32) pair {
	p := pair{b.gpu.Alloc(t, rows, cols), b.cpu.Alloc(tensor.F32, rows, cols)}
	if t == tensor.F16 {
		h := make([]half.F16, len(v))
		half.NarrowF16(h, v)
		b.gpu.Upload(p.gpu, bytesFrom(h))
		half.WidenF16(v, h)
	} else {
		b.gpu.Upload(p.gpu, bytesFrom(v))
	}
	b.cpu.Upload(p.cpu, bytesFrom(v))
	return p
}

// raw allocates a tensor filled with a byte that means nothing.
func (b *bench) raw(t tensor.Type, rows, cols int) pair {
	p := pair{b.gpu.Alloc(t, rows, cols), b.cpu.Alloc(t, rows, cols)}
	junk := bytes.Repeat([]byte{0x7e}, p.gpu.Bytes())
	b.gpu.Upload(p.gpu, junk)
	b.cpu.Upload(p.cpu, junk)
	return p
}

func (b *bench) get(p pair) (gpu, ref []byte) {
	gpu, ref = make([]byte, p.gpu.Bytes()), make([]byte, p.cpu.Bytes())
	b.gpu.Download(gpu, p.gpu)
	b.cpu.Download(ref, p.cpu)
	if err := b.gpu.Sync(); err != nil {
		b.t.Fatal(err)
	}
	return gpu, ref
}

// same fails unless both hold the same bytes.
func (b *bench) same(name string, p pair) {
	b.t.Helper()
	gpu, ref := b.get(p)
	if !bytes.Equal(gpu, ref) {
		i, n := -1, 0
		for j := range gpu {
			if gpu[j] != ref[j] {
				if i < 0 {
					i = j
				}
				n++
			}
		}
		b.t.Errorf("%s: %d of %d bytes differ, the first at %d: %d, want %d", name, n, len(gpu), i, gpu[i], ref[i])
	}
}

// near compares float32 numbers: the root of the mean squared error over that of
// the reference, and the largest error over the largest number.
func (b *bench) near(name string, p pair, limit float64) {
	b.t.Helper()
	g, r := b.get(p)
	gpu, ref := elementsFrom[float32](g), elementsFrom[float32](r)
	sum, all, worst, most := 0.0, 0.0, 0.0, 0.0
	for i, v := range ref {
		e := float64(gpu[i]) - float64(v)
		sum, all = sum+e*e, all+float64(v)*float64(v)
		worst, most = max(worst, math.Abs(e)), max(most, math.Abs(float64(v)))
	}
	rms, peak := math.Sqrt(sum/all), worst/most
	b.t.Logf("%s: relative error %.2g, worst %.2g of the largest", name, rms, peak)
	if !(rms <= limit) {
		b.t.Errorf("%s: relative error %.3g, want %.3g", name, rms, limit)
	}
}

func normals(seed uint64, n int, scale float64) []float32 {
	r := rand.New(rand.NewPCG(seed, 1))
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(r.NormFloat64() * scale)
	}
	return v
}

// activations has columns of very different sizes that have much in common.
func activations(seed uint64, rows, cols int) []float32 {
	r := rand.New(rand.NewPCG(seed, 2))
	sizes := make([]float64, cols)
	for i := range sizes {
		sizes[i] = math.Exp(r.NormFloat64())
	}
	sizes[cols/3] *= 30
	v := make([]float32, rows*cols)
	for i := range rows {
		common := r.NormFloat64()
		for j := range cols {
			v[i*cols+j] = float32(sizes[j] * (0.6*common + r.NormFloat64()))
		}
	}
	return v
}

// Sums over many rows are as accurate as float32's.
func TestManyMoments(t *testing.T) {
	for _, c := range []struct {
		rows, k, n int
		x          tensor.Type
	}{{20000, 1024, 0, tensor.F16}, {9000, 768, 1280, tensor.F32}} {
		b := newBench(t)
		x := b.put(c.x, c.rows, c.k, activations(1, c.rows, c.k))
		n, y := c.k, x
		if c.n > 0 {
			n, y = c.n, b.put(tensor.F16, c.rows, c.n, activations(2, c.rows, c.n))
		}
		h := b.put(tensor.F32, c.k, n, make([]float32, c.k*n))
		b.gpu.Gram(h.gpu, x.gpu, y.gpu)
		b.cpu.Gram(h.cpu, x.cpu, y.cpu)
		b.near("h", h, 2e-6)
	}
}

// moments returns the second moments of activations, and what quantizing needs of
// them, as the reference finds it; damp is a share of the mean of the diagonal.
func (b *bench) moments(k int, damp float32) (h, u, importance pair) {
	rows := 2 * k
	v := activations(5, rows, k)
	x := b.cpu.Alloc(tensor.F32, rows, k)
	b.cpu.Upload(x, bytesFrom(v))
	m := b.cpu.Alloc(tensor.F32, k, k)
	b.cpu.Gram(m, x, x)
	diag := b.cpu.Alloc(tensor.F32, 1, k)
	b.cpu.Diagonal(diag, m)
	d := make([]float32, k)
	b.cpu.Download(bytesFrom(d), diag)
	mean := float32(0)
	for _, v := range d {
		mean += v / float32(k)
	}
	perm := make([]int32, k)
	for i := range perm {
		perm[i] = int32(i)
	}
	slices.SortFunc(perm, func(a, b int32) int { return int(math.Copysign(1, float64(d[b]-d[a]))) })
	order := b.cpu.Alloc(tensor.I32, 1, k)
	b.cpu.Upload(order, bytesFrom(perm))
	sorted := b.cpu.Alloc(tensor.F32, k, k)
	b.cpu.Take(sorted, m, order, order)
	b.cpu.AddDiagonal(sorted, damp*mean)
	uc := b.cpu.Alloc(tensor.F32, k, k)
	ok := b.cpu.Alloc(tensor.I32, 1, 1)
	b.cpu.InverseFactor(uc, sorted, 0, ok)
	all := make([]float32, k*k)
	b.cpu.Download(bytesFrom(all), uc)
	weights := make([]float32, k)
	for i := range weights {
		weights[i] = 1 / (all[i*k+i] * all[i*k+i])
	}
	u, importance = b.put(tensor.F32, k, k, all), b.put(tensor.F32, 1, k, weights)
	all = make([]float32, k*k)
	b.cpu.Download(bytesFrom(all), sorted)
	return b.put(tensor.F32, k, k, all), u, importance
}

func TestLargeFactor(t *testing.T) {
	b := newBench(t)
	const k = 2080
	h, _, _ := b.moments(k, 0.01)
	u, ok := b.raw(tensor.F32, k, k), b.raw(tensor.I32, 1, 1)
	b.gpu.InverseFactor(u.gpu, h.gpu, 3, ok.gpu)
	b.cpu.InverseFactor(u.cpu, h.cpu, 3, ok.cpu)
	b.same("ok", ok)
	b.near("u", u, 2e-5)
}

// A codedPair is a coding on both.
type codedPair struct {
	gpu, cpu               device.Coding
	codes, scales, largest pair
}

func (b *bench) coding(w pair, recipe string) codedPair {
	k, n := w.gpu.Rows, w.gpu.Cols
	groups := exl2.MustRecipe(recipe).Groups(k)
	c := codedPair{codes: b.raw(tensor.U8, k, n), scales: b.raw(tensor.U8, len(groups), n), largest: b.raw(tensor.F16, len(groups), 1)}
	c.gpu = device.Coding{W: w.gpu, Groups: groups, Codes: c.codes.gpu, Scales: c.scales.gpu, Largest: c.largest.gpu}
	c.cpu = device.Coding{W: w.cpu, Groups: groups, Codes: c.codes.cpu, Scales: c.scales.cpu, Largest: c.largest.cpu}
	return c
}

func codings(list []codedPair) (gpu, ref []device.Coding) {
	for _, c := range list {
		gpu, ref = append(gpu, c.gpu), append(ref, c.cpu)
	}
	return gpu, ref
}

var recipes = []string{"1:4b_32g", "1:2b_64g", "1:3b_128g", "1:8b_128g", "0.1:6b_32g/0.9:5b_128g", "0.25:4b_64g/0.75:3b_64g", "1:4b_96g", "1:4b_416g", "1:6b_288g"}

// weights has columns of different sizes, some of them zeros, and outliers.
func weights(seed uint64, k, n int) []float32 {
	v := normals(seed, k*n, 0.02)
	for i := range v {
		v[i] *= float32(1 + i%n%7)
		if i%n == 13 {
			v[i] = 0
		}
		if i%97 == 5 {
			v[i] *= 6
		}
	}
	return v
}

// differing returns the share of bytes that differ, those of the first rows apart.
func (b *bench) differing(p pair, rows int) (first, all float64) {
	gpu, ref := b.get(p)
	for i := range gpu {
		if gpu[i] != ref[i] {
			all++
			if i < rows*p.gpu.Cols {
				first++
			}
		}
	}
	return first, all / float64(len(gpu))
}

// On matrices like a model's the GPU and the reference differ in few codes, in none of
// a first group, and the loss is the same; and the GPU gives the same bytes when it
// does it again, and when it does some at a time.
func TestManyCandidates(t *testing.T) {
	k, n := 1536, 512
	if testing.Short() {
		k, n = 416, 96
	}
	b := newBench(t)
	h, u, importance := b.moments(k, 0.05)
	gf, cf := device.Factor{U: u.gpu, H: h.gpu, Importance: importance.gpu}, device.Factor{U: u.cpu, H: h.cpu, Importance: importance.cpu}
	some := []pair{b.put(tensor.F32, k, n, weights(4, k, n)), b.put(tensor.F32, k, n, weights(5, k, n))}
	var list []codedPair
	for i, recipe := range recipes {
		list = append(list, b.coding(some[i%2], recipe))
	}
	gpu, ref := codings(list)
	loss := b.raw(tensor.F64, 1, len(list))
	b.gpu.GPTQ(gpu, gf, loss.gpu)
	b.cpu.GPTQ(ref, cf, loss.cpu)
	g, r := b.get(loss)
	for i, want := range elementsFrom[float64](r) {
		if got := elementsFrom[float64](g)[i]; !(math.Abs(got-want) < 2e-3*want) {
			t.Errorf("%s: loss %v, want %v", recipes[i], got, want)
		}
	}
	b.compare("GPTQ", list)
	for _, c := range list { // the same to begin with
		for _, p := range []pair{c.codes, c.scales, c.largest} {
			gpu, _ := b.get(p)
			b.cpu.Upload(p.cpu, gpu)
		}
	}
	b.gpu.Descend(gpu, gf, 2)
	b.cpu.Descend(ref, cf, 2)
	b.compare("Descend", list)
	for _, c := range list {
		gpu, _ := b.get(c.codes)
		b.cpu.Upload(c.codes.cpu, gpu)
	}
	b.gpu.Pairs(gpu, gf)
	b.cpu.Pairs(ref, cf)
	b.compare("Pairs", list)
	before := b.all(list)
	for _, limit := range []int{0, planesBytes(2, k, k) + 4*codedBytes(gpu[0], 1)} {
		b.gpu.workLimit = limit
		b.gpu.GPTQ(gpu, gf, loss.gpu)
		b.gpu.Descend(gpu, gf, 2)
		b.gpu.Pairs(gpu, gf)
		again, _ := b.get(loss)
		if !bytes.Equal(before, b.all(list)) || !bytes.Equal(again, g) {
			t.Errorf("another run within %d bytes gives other bytes", limit)
		}
	}
}

// compare reports how many codes and scales differ, and fails if they are many: a
// code that rounding flips changes what is left in its column, and may change a
// group's largest scale.
func (b *bench) compare(op string, list []codedPair) {
	b.t.Helper()
	for i, c := range list {
		first, all := b.differing(c.codes, c.gpu.Groups[0].Rows)
		_, scales := b.differing(c.scales, 0)
		b.t.Logf("%s %s: %.4f%% of codes, %.4f%% of scales differ", op, recipes[i], 100*all, 100*scales)
		if first > 0 && op == "GPTQ" || all > 0.2 || scales > 0.3 {
			b.t.Errorf("%s %s: %v codes of the first group differ, %v of all, %v of scales", op, recipes[i], first, all, scales)
		}
	}
}

// all returns what the GPU has found.
func (b *bench) all(list []codedPair) (all []byte) {
	for _, c := range list {
		for _, p := range []pair{c.codes, c.scales, c.largest} {
			gpu, _ := b.get(p)
			all = append(all, gpu...)
		}
	}
	return all
}
