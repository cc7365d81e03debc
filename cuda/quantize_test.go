package cuda

import (
	"bytes"
	"fmt"
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
	t        testing.TB
	gpu      *Device
	cpu      device.Quantize
	previous [][2]tensor.Tensor
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

func (b *bench) ints(v []int32) pair {
	p := pair{b.gpu.Alloc(tensor.I32, 1, len(v)), b.cpu.Alloc(tensor.I32, 1, len(v))}
	b.gpu.Upload(p.gpu, bytesFrom(v))
	b.cpu.Upload(p.cpu, bytesFrom(v))
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
	if i := slices.IndexFunc(gpu, func(byte) bool { return false }); !bytes.Equal(gpu, ref) {
		n := 0
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

func TestGram(t *testing.T) {
	for _, c := range []struct {
		r, k, n int
		x, y    tensor.Type
	}{
		{64, 128, 0, tensor.F16, 0}, {97, 96, 0, tensor.F16, 0}, {300, 320, 0, tensor.F16, 0}, {300, 200, 136, tensor.F16, tensor.F16}, {1, 8, 24, tensor.F16, tensor.F16},
		{130, 96, 160, tensor.F32, tensor.F16}, {130, 96, 160, tensor.F16, tensor.F32}, {77, 160, 96, tensor.F32, tensor.F32}, {64, 160, 0, tensor.F32, 0},
		{2500, 64, 64, tensor.F16, tensor.F16}, {20000, 1024, 0, tensor.F16, 0}, {9000, 768, 1280, tensor.F32, tensor.F16},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			if c.k > 700 && testing.Short() {
				t.Skip("large")
			}
			b := newBench(t)
			n := c.n
			if n == 0 {
				n = c.k
			}
			x := b.put(c.x, c.r, c.k, activations(1, c.r, c.k))
			y := x
			if c.n > 0 {
				y = b.put(c.y, c.r, n, activations(2, c.r, n))
			}
			h := b.put(tensor.F32, c.k, n, make([]float32, c.k*n))
			for range 2 {
				b.gpu.Gram(h.gpu, x.gpu, y.gpu)
				b.cpu.Gram(h.cpu, x.cpu, y.cpu)
			}
			b.near("h", h, 2e-6)
		})
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

func TestInverseFactor(t *testing.T) {
	for _, k := range []int{32, 96, 128, 160, 256, 416, 640, 2048} {
		t.Run(fmt.Sprint(k), func(t *testing.T) {
			if k > 1000 && testing.Short() {
				t.Skip("large")
			}
			b := newBench(t)
			h, _, _ := b.moments(k, 0.01)
			u, ok := b.raw(tensor.F32, k, k), b.raw(tensor.I32, 1, 1)
			b.gpu.InverseFactor(u.gpu, h.gpu, 3, ok.gpu)
			b.cpu.InverseFactor(u.cpu, h.cpu, 3, ok.cpu)
			b.same("ok", ok)
			b.near("u", u, 2e-5)
			for _, damp := range []float32{-1e9, float32(math.NaN())} {
				b.gpu.InverseFactor(u.gpu, h.gpu, damp, ok.gpu)
				if got, _ := b.get(ok); got[0] != 0 {
					t.Errorf("damping by %v is positive definite", damp)
				}
			}
		})
	}
}

func TestSolve(t *testing.T) {
	for _, c := range [][2]int{{32, 32}, {160, 64}, {416, 224}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			b := newBench(t)
			_, u, _ := b.moments(c[0], 0.05)
			x := b.put(tensor.F32, c[0], c[1], normals(3, c[0]*c[1], 100))
			b.gpu.Solve(x.gpu, u.gpu)
			b.cpu.Solve(x.cpu, u.cpu)
			b.near("b", x, 2e-6)
		})
	}
}

func TestSubtractProduct(t *testing.T) {
	for _, c := range [][3]int{{32, 32, 32}, {64, 160, 96}, {200, 300, 130}, {1, 5, 7}} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			b := newBench(t)
			a, x := b.put(tensor.F32, c[0], c[1], normals(1, c[0]*c[1], 1e-4)), b.put(tensor.F32, c[0], c[2], normals(2, c[0]*c[2], 1e6))
			y := b.put(tensor.F32, c[1], c[2], normals(3, c[1]*c[2], 10))
			b.gpu.SubtractProduct(y.gpu, a.gpu, x.gpu)
			b.cpu.SubtractProduct(y.cpu, a.cpu, x.cpu)
			b.near("y", y, 2e-6)
		})
	}
}

func TestMoves(t *testing.T) {
	b := newBench(t)
	const k, n = 100, 70
	src := b.put(tensor.F32, k, n, normals(1, k*n, 1))
	rows, cols := make([]int32, 50), make([]int32, n)
	for i := range rows {
		rows[i] = int32(i * 37 % k)
	}
	for i := range cols {
		cols[i] = int32((i*11 + 3) % n)
	}
	r, c := b.ints(rows), b.ints(cols)
	for _, with := range [][2]pair{{r, c}, {r, {}}, {{}, c}, {{}, {}}} {
		m := k
		if !with[0].gpu.Nil() {
			m = len(rows)
		}
		dst := b.raw(tensor.F32, m, n)
		b.gpu.Take(dst.gpu, src.gpu, with[0].gpu, with[1].gpu)
		b.cpu.Take(dst.cpu, src.cpu, with[0].cpu, with[1].cpu)
		b.same("Take", dst)
	}
	for _, typ := range []tensor.Type{tensor.F32, tensor.F16} {
		w := b.put(typ, k, n, normals(2, k*n, 1))
		for _, order := range []pair{{}, c} {
			dst := b.raw(tensor.F32, n, 128)
			b.gpu.TakeT(dst.gpu, w.gpu, order.gpu)
			b.cpu.TakeT(dst.cpu, w.cpu, order.cpu)
			b.same("TakeT", dst)
		}
	}
	square := b.put(tensor.F32, n, n, normals(3, n*n, 1))
	diag := b.raw(tensor.F32, 1, n)
	b.gpu.AddDiagonal(square.gpu, 2.5)
	b.cpu.AddDiagonal(square.cpu, 2.5)
	b.gpu.Diagonal(diag.gpu, square.gpu)
	b.cpu.Diagonal(diag.cpu, square.cpu)
	b.same("AddDiagonal", square)
	b.same("Diagonal", diag)
	sum := b.raw(tensor.F64, 1, 1)
	b.gpu.Dot(sum.gpu, src.gpu, src.gpu)
	b.cpu.Dot(sum.cpu, src.cpu, src.cpu)
	g, w := b.get(sum)
	if got, want := elementsFrom[float64](g)[0], elementsFrom[float64](w)[0]; math.Abs(got-want) > 1e-12*want {
		t.Errorf("Dot: %v, want %v", got, want)
	}
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

func TestSearchScale(t *testing.T) {
	const k, n = 416, 96
	b := newBench(t)
	importance := b.put(tensor.F32, 1, k, make([]float32, k))
	v := normals(9, k, 1)
	for i := range v {
		v[i] = v[i]*v[i] + 0.1
	}
	importance = b.put(tensor.F32, 1, k, v)
	for _, recipe := range recipes {
		w := b.put(tensor.F32, k, n, weights(4, k, n))
		list := []codedPair{b.coding(w, recipe), b.coding(w, recipe)}
		gpu, ref := codings(list)
		for g := range gpu[0].Groups {
			b.gpu.SearchScale(gpu, g, importance.gpu)
			b.cpu.SearchScale(ref, g, importance.cpu)
		}
		for _, c := range list {
			b.same(recipe+" scales", c.scales)
			b.same(recipe+" largest", c.largest)
		}
	}
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

func TestGPTQAndDescend(t *testing.T) {
	for _, s := range [][2]int{{416, 96}, {544, 160}, {1536, 512}} {
		t.Run(fmt.Sprint(s), func(t *testing.T) {
			k, n := s[0], s[1]
			if k > 1000 && testing.Short() {
				t.Skip("large")
			}
			b := newBench(t)
			h, u, importance := b.moments(k, 0.05)
			gf, cf := device.Factor{U: u.gpu, H: h.gpu, Importance: importance.gpu}, device.Factor{U: u.cpu, H: h.cpu, Importance: importance.cpu}
			w, other := b.put(tensor.F32, k, n, weights(4, k, n)), b.put(tensor.F32, k, n, weights(5, k, n))
			var list []codedPair
			for i, recipe := range recipes {
				if i%2 == 0 {
					list = append(list, b.coding(w, recipe))
				} else {
					list = append(list, b.coding(other, recipe))
				}
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
			compare := func(op string) {
				for i, c := range list {
					first, all := b.differing(c.codes, c.gpu.Groups[0].Rows)
					_, scales := b.differing(c.scales, 0)
					t.Logf("%s %s: %.4f%% of codes, %.4f%% of scales differ", op, recipes[i], 100*all, 100*scales)
					// A code that rounding flips changes what is left in its column, and may
					// change a group's largest scale.
					if first > 0 && op == "GPTQ" || all > 0.2 || scales > 0.3 {
						t.Errorf("%s %s: %v codes of the first group differ, %v of all, %v of scales", op, recipes[i], first, all, scales)
					}
				}
			}
			compare("GPTQ")
			for _, c := range list { // the same to begin with
				for _, p := range []pair{c.codes, c.scales, c.largest} {
					gpu, _ := b.get(p)
					b.cpu.Upload(p.cpu, gpu)
				}
			}
			b.gpu.Descend(gpu, gf, 2)
			b.cpu.Descend(ref, cf, 2)
			compare("Descend")
			before := b.all(list)
			b.gpu.GPTQ(gpu, gf, loss.gpu)
			b.gpu.Descend(gpu, gf, 2)
			if !bytes.Equal(before, b.all(list)) {
				t.Error("a second run gives other bytes")
			}
		})
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

func TestCodes(t *testing.T) {
	const k, n, out = 416, 96, 90
	b := newBench(t)
	w := b.put(tensor.F32, k, n, weights(4, k, n))
	perm := make([]int32, k)
	for i := range perm {
		perm[i] = int32((i*7 + 3) % k)
	}
	order := b.ints(perm)
	for _, recipe := range recipes {
		c := b.coding(w, recipe)
		codes, scales := make([]byte, k*n), make([]byte, len(c.gpu.Groups)*n)
		for _, g := range c.gpu.Groups {
			for i := g.Row * n; i < (g.Row+g.Rows)*n; i++ {
				codes[i] = byte(i*131>>3) & (1<<g.Bits - 1)
			}
		}
		for i := range scales {
			scales[i] = byte(i * 7 % 16)
		}
		largest := make([]half.F16, len(c.gpu.Groups))
		for i := range largest {
			largest[i] = half.ToF16(0.01 * float32(i+1))
		}
		for i, p := range []pair{c.codes, c.scales, c.largest} {
			v := [][]byte{codes, scales, bytesFrom(largest)}[i]
			b.gpu.Upload(p.gpu, v)
			b.cpu.Upload(p.cpu, v)
		}
		values := b.raw(tensor.F32, k, n)
		b.gpu.Values(values.gpu, c.gpu)
		b.cpu.Values(values.cpu, c.cpu)
		b.same("Values", values)
		last := c.gpu.Groups[len(c.gpu.Groups)-1]
		words, packed := b.raw(tensor.I32, last.Word+last.Rows*last.Bits/32, n), b.raw(tensor.I32, len(c.gpu.Groups), n/8)
		b.gpu.Pack(words.gpu, packed.gpu, c.gpu)
		b.cpu.Pack(words.cpu, packed.cpu, c.cpu)
		b.same("words", words)
		b.same("scales", packed)
		decoded := pair{b.gpu.Alloc(tensor.F16, out, k), b.cpu.Alloc(tensor.F16, out, k)}
		gm, cm := b.gpu.Assemble(c.gpu, words.gpu, packed.gpu, order.gpu, out), b.cpu.Assemble(c.cpu, words.cpu, packed.cpu, order.cpu, out)
		b.gpu.Decode(decoded.gpu, gm)
		b.cpu.Decode(decoded.cpu, cm)
		b.same("Assemble", decoded)
		b.gpu.FreeEXL2(gm)
		b.cpu.FreeEXL2(cm)
	}
}
