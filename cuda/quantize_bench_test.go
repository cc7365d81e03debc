package cuda

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"
	"unsafe"

	"exl2/internal/arch"
	"exl2/internal/device"
	"exl2/internal/exl2"
	"exl2/internal/half"
	"exl2/internal/machine"
	"exl2/internal/sensitivity"
	"exl2/internal/tensor"
)

// laps times what happens between marks on the GPU, by name.
type laps struct {
	d      *Device
	events []uintptr
	names  []string
	spare  []uintptr
}

func (l *laps) mark(name string) {
	if len(l.spare) == 0 {
		l.spare = append(l.spare, l.d.event())
	}
	e := l.spare[len(l.spare)-1]
	l.spare = l.spare[:len(l.spare)-1]
	l.d.do("timing", cuEventRecord, e, l.d.stream)
	l.events, l.names = append(l.events, e), append(l.names, name)
}

// sums returns the milliseconds that ended in marks of each name.
func (l *laps) sums() map[string]float64 {
	l.d.Sync()
	sums := map[string]float64{}
	for i := 1; i < len(l.events); i++ {
		var ms float32
		l.d.do("timing", cuEventElapsedTime, uintptr(unsafe.Pointer(&ms)), l.events[i-1], l.events[i])
		sums[l.names[i]] += float64(ms)
	}
	l.spare, l.events, l.names = append(l.spare, l.events...), nil, nil
	return sums
}

// fill uploads rows of numbers that f makes, on all cores.
func fill[E any](d *Device, t tensor.Type, rows, cols int, f func(r *rand.Rand, row []E)) tensor.Tensor {
	x := d.Alloc(t, rows, cols)
	data := make([]E, rows*cols)
	var wait sync.WaitGroup
	const parts = 64
	for p := range parts {
		wait.Go(func() {
			r := rand.New(rand.NewPCG(uint64(p), 7))
			for i := rows * p / parts; i < rows*(p+1)/parts; i++ {
				f(r, data[i*cols:(i+1)*cols])
			}
		})
	}
	wait.Wait()
	d.Upload(x, bytesFrom(data))
	return x
}

func quick(r *rand.Rand) float32 { // nearly normal
	u := r.Uint64()
	return (float32(u&0xffff) + float32(u>>16&0xffff) + float32(u>>32&0xffff) + float32(u>>48) - 4*32767.5) / 65536 * 1.732
}

// someWeights is a weight like a model's, [k, n].
func someWeights(d *Device, k, n int) tensor.Tensor {
	return fill(d, tensor.F32, k, n, func(r *rand.Rand, row []float32) {
		for i := range row {
			row[i] = 0.02 * quick(r) * (1 + 0.5*float32(i%5)/5)
			if r.Uint32()%1000 == 0 {
				row[i] *= 4
			}
		}
	})
}

// someInputs is activations with much in common, [rows, k].
func someInputs(d *Device, rows, k int) tensor.Tensor {
	sizes := make([]float32, k)
	s := rand.New(rand.NewPCG(1, 1))
	for i := range sizes {
		sizes[i] = 0.3 + s.Float32()
	}
	sizes[k/3] = 30
	return fill(d, tensor.F16, rows, k, func(r *rand.Rand, row []half.F16) {
		common := 0.5 * quick(r)
		for i := range row {
			row[i] = half.ToF16(sizes[i] * (common + quick(r)))
		}
	})
}

// someFactor factors moments of inputs.
func someFactor(d *Device, k int) device.Factor {
	x := someInputs(d, k, k)
	h, u, ok := d.Alloc(tensor.F32, k, k), d.Alloc(tensor.F32, k, k), d.Alloc(tensor.I32, 1, 1)
	d.Gram(h, x, x)
	diag := d.Alloc(tensor.F32, 1, k)
	d.Diagonal(diag, h)
	v := elementsFrom[float32](download(d, diag))
	mean := float32(0)
	for _, x := range v {
		mean += x / float32(k)
	}
	d.AddDiagonal(h, 0.12*mean)
	d.InverseFactor(u, h, 0, ok)
	d.Diagonal(diag, u)
	v = elementsFrom[float32](download(d, diag))
	for i := range v {
		v[i] = 1 / (v[i] * v[i])
	}
	importance := d.Alloc(tensor.F32, 1, k)
	d.Upload(importance, bytesFrom(v))
	d.Free(x)
	return device.Factor{U: u, H: h, Importance: importance}
}

func newCoding(d *Device, w tensor.Tensor, r exl2.Recipe) device.Coding {
	groups := r.Groups(w.Rows)
	return device.Coding{W: w, Groups: groups, Codes: d.Alloc(tensor.U8, w.Rows, w.Cols), Scales: d.Alloc(tensor.U8, len(groups), w.Cols), Largest: d.Alloc(tensor.F16, len(groups), 1)}
}

func freeCoding(d *Device, c device.Coding) {
	d.Free(c.Codes)
	d.Free(c.Scales)
	d.Free(c.Largest)
}

// Rates of one H200 that floors are made of: fp16 products of random numbers,
// float32 instructions, and memory.
const (
	matrixRate = 790e12
	scalarRate = 132 * 128 * 1.755e9
	memoryRate = 4.3e12
)

// Numbers for the documents, at the shapes of llama2-7b. Set EXL2_BENCH to have
// them.
func TestQuantizeNumbers(t *testing.T) {
	if os.Getenv("EXL2_BENCH") == "" {
		t.Skip("EXL2_BENCH is not set")
	}
	d := closing(t, openGPU(t))
	line := func(name string, ms, floor float64) {
		t.Logf("%-44s %9.3f ms, floor %8.3f, %3.0f %%", name, ms, floor, 100*floor/ms)
	}
	for _, k := range []int{4096, 11008} {
		const rows = 32768
		x := d.reserve(2 * rows * k)
		x.Type, x.Rows, x.Cols, x.Stride = tensor.F16, rows, k, k
		some := someInputs(d, rows/8, k)
		for i := range 8 {
			d.Copy(x.Slice(i*rows/8, (i+1)*rows/8), some)
		}
		h := d.Alloc(tensor.F32, k, k)
		line(fmt.Sprintf("Gram %d x %d", rows, k), 1e3*d.seconds(func() { d.Gram(h, x, x) }), 1e3*rows*float64(k)*float64(k)/matrixRate)
		dx := d.Alloc(tensor.F32, rows/4, k)
		d.Copy(dx, x.Slice(0, rows/4))
		line(fmt.Sprintf("Gram %d x %d, float32 and fp16", rows/4, k), 1e3*d.seconds(func() { d.Gram(h, dx, x.Slice(0, rows/4)) }), 1e3*4*rows/4*float64(k)*float64(k)/matrixRate)
		for _, x := range []tensor.Tensor{x, some, h, dx} {
			d.Free(x)
		}
	}
	for _, s := range []struct {
		k, n, shared int
		role         arch.Role
	}{{4096, 4096, 3, arch.Q}, {4096, 11008, 2, arch.Gate}, {11008, 4096, 1, arch.Down}} {
		f := someFactor(d, s.k)
		kk, n := float64(s.k)*float64(s.k), float64(s.n)
		ok := d.Alloc(tensor.I32, 1, 1)
		u := d.Alloc(tensor.F32, s.k, s.k)
		line(fmt.Sprintf("InverseFactor %d", s.k), 1e3*d.seconds(func() { d.InverseFactor(u, f.H, 0, ok) }), 1e3*3*2.0/3*kk*float64(s.k)/matrixRate)
		timeStrips(t, d, u, f.H, ok)
		if download(d, ok)[0] != 1 {
			t.Error("not positive definite")
		}
		d.Free(u)
		w := someWeights(d, s.k, s.n)
		y := d.Alloc(tensor.F32, s.k, s.n)
		d.Copy(y, w)
		line(fmt.Sprintf("Solve %d x %d", s.k, s.n), 1e3*d.seconds(func() { d.Solve(y, f.U) }), 1e3*3*2*kk*n/matrixRate)
		line(fmt.Sprintf("SubtractProduct %d x %d", s.k, s.n), 1e3*d.seconds(func() { d.SubtractProduct(y, f.H, w) }), 1e3*3*2*kk*n/matrixRate)
		d.Free(y)
		var list []device.Coding
		for _, r := range sensitivity.Recipes(s.role) {
			list = append(list, newCoding(d, w, r))
		}
		measured(t, d, fmt.Sprintf("GPTQ %d x %d, %d candidates", s.k, s.n, len(list)), list, f, line)
		for _, c := range list {
			freeCoding(d, c)
		}
		list = nil
		for range s.shared {
			list = append(list, newCoding(d, w, exl2.Uniform(4, 128)))
		}
		measured(t, d, fmt.Sprintf("GPTQ %d x %d, %d matrices", s.k, s.n, len(list)), list, f, line)
		all := float64(len(list))
		line(fmt.Sprintf("Descend %d x %d, %d matrices, 2 passes", s.k, s.n, len(list)), 1e3*d.seconds(func() { d.Descend(list, f, 2) }), 1e3*3*2*2*kk*n*all/matrixRate)
		c := list[0]
		last := c.Groups[len(c.Groups)-1]
		words, scales := d.Alloc(tensor.I32, last.Word+last.Rows*last.Bits/32, s.n), d.Alloc(tensor.I32, len(c.Groups), s.n/8)
		perm := d.Alloc(tensor.I32, 1, s.k)
		line("Pack", 1e3*d.seconds(func() { d.Pack(words, scales, c) }), 1e3*(float64(s.k)*n*1.5)/memoryRate)
		line("Assemble", 1e3*d.seconds(func() { d.FreeEXL2(d.Assemble(c, words, scales, perm, s.n)) }), 1e3*(float64(s.k)*n)/memoryRate)
		for _, x := range []tensor.Tensor{w, words, scales, perm, ok, f.U, f.H, f.Importance} {
			d.Free(x)
		}
		for _, c := range list {
			freeCoding(d, c)
		}
		free, total := d.MemInfo()
		t.Logf("%s of %s free", machine.Size(free), machine.Size(total))
	}
	if err := d.Sync(); err != nil {
		t.Error(err)
	}
}

// Descent on blocks of columns, side by side, as columns that make up for each other
// take it, and on whole matrices.
func TestDescendNumbers(t *testing.T) {
	if os.Getenv("EXL2_BENCH") == "" {
		t.Skip("EXL2_BENCH is not set")
	}
	d := closing(t, openGPU(t))
	for _, s := range []struct{ k, n, count int }{{4096, 64, 12}, {4096, 64, 4}, {4096, 64, 16}, {11008, 64, 4}, {4096, 4096, 1}, {4096, 4096, 3}, {4096, 11008, 2}, {11008, 4096, 1}} {
		f, w := someFactor(d, s.k), someWeights(d, s.k, s.n)
		var list []device.Coding
		for range s.count {
			list = append(list, newCoding(d, w, exl2.Uniform(4, 128)))
		}
		loss := d.Alloc(tensor.F64, 1, len(list))
		d.GPTQ(list, f, loss)
		floor := 3 * 2 * 2 * float64(s.k) * float64(s.k) * float64(s.n*s.count) / matrixRate
		ms := 1e3 * d.seconds(func() { d.Descend(list, f, 2) })
		t.Logf("Descend %d x %d, %2d matrices, 2 passes: %8.3f ms, floor %.3f", s.k, s.n, s.count, ms, 1e3*floor)
		t.Logf("Pairs %d x %d, %2d matrices: %8.3f ms", s.k, s.n, s.count, 1e3*d.seconds(func() { d.Pairs(list, f) }))
		for _, x := range []tensor.Tensor{w, loss, f.U, f.H, f.Importance} {
			d.Free(x)
		}
		for _, c := range list {
			freeCoding(d, c)
		}
	}
	if err := d.Sync(); err != nil {
		t.Error(err)
	}
}

// A GPTQ for profilers: set EXL2_PROFILE.
func TestQuantizeProfile(t *testing.T) {
	if os.Getenv("EXL2_PROFILE") == "" {
		t.Skip("EXL2_PROFILE is not set")
	}
	d := closing(t, openGPU(t))
	const k, n = 2048, 4096
	f, w := someFactor(d, k), someWeights(d, k, n)
	var list []device.Coding
	for _, r := range sensitivity.Recipes(arch.Q) {
		list = append(list, newCoding(d, w, r))
	}
	d.GPTQ(list, f, d.Alloc(tensor.F64, 1, len(list)))
	if err := d.Sync(); err != nil {
		t.Error(err)
	}
}

// measured times GPTQ as a whole and by its kernels.
func measured(t *testing.T, d *Device, name string, list []device.Coding, f device.Factor, line func(name string, ms, floor float64)) {
	loss := d.Alloc(tensor.F64, 1, len(list))
	defer d.Free(loss)
	k, n, all := float64(list[0].W.Rows), float64(list[0].W.Cols), float64(len(list))
	products := 1e3 * 3 * k * k * n * all / matrixRate
	issued := time.Duration(0)
	ms := 1e3 * d.seconds(func() {
		start := time.Now()
		d.GPTQ(list, f, loss)
		issued = time.Since(start)
	})
	line(name, ms, products+1e3*143*9.5*k*n*all/scalarRate)
	l := &laps{d: d}
	d.byParts("GPTQ", list, operandOf{f.U, byDiagonal, tensor.Tensor{}, 2, 2}, shares{}, func(w *workshop) {
		w.inherit()
		w.plan(func(x *coded, row, end int) productItem {
			return productItem{from: d.at(x.W.Slice(row, end)), k1: int32(row), alpha: -1.0 / diagonalLift}
		}, func(x *coded, block, row, end int) productItem {
			rows := d.at(x.panel.Slice(row-block, end-block))
			return productItem{from: rows, to: rows, k0: int32(block), k1: int32(row), alpha: -1.0 / diagonalLift}
		})
		l.mark("")
		for _, b := range w.blocks {
			w.bequeath(b.heirs)
			l.mark("copies")
			w.multiply(b.products)
			l.mark("products")
			for _, g := range b.groups {
				w.multiply(g.products)
				l.mark("products within blocks")
				for _, r := range g.steps {
					w.measureTop(r)
					l.mark("top")
					w.search(r, f.Importance)
					l.mark(fmt.Sprintf("search, groups of %d", r.rows))
					d.gptq_rows_round(w.overRows(r), w.at(r), f.U, int32(f.U.Cols))
					l.mark(fmt.Sprintf("rows, groups of %d", r.rows))
				}
			}
		}
		t.Logf("  %d matrices at a time, issued in %v", len(w.list), issued)
	})
	sums := l.sums()
	line("  products", sums["products"], products)
	for _, part := range slices.Sorted(maps.Keys(sums)) {
		if sums[part] > 0 {
			t.Logf("  %-42s %9.3f ms", part, sums[part])
		}
	}
}

// timeStrips times InverseFactor by its kernels.
func timeStrips(t *testing.T, d *Device, u, h, ok tensor.Tensor) {
	l := &laps{d: d}
	d.inverse([]device.Inverse{{U: u, H: h, OK: ok}}, 0, func(name string) { l.mark(name) })
	for name, ms := range l.sums() {
		t.Logf("  %-42s %9.3f ms", name, ms)
	}
}
