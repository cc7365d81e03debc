package devtest

import (
	"fmt"
	"math"
	"sync"

	"exl2/internal/device"
	"exl2/internal/device/cpu"
	"exl2/internal/exl2"
	"exl2/internal/half"
	"exl2/internal/tensor"
)

// unwritten is what bytes hold that an operation is to write: no code or scale
// of less than eight bits.
func unwritten(n int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = 0xe7
	}
	return out
}

// coding allocates a weight and what is to be its quantized form.
func (f *fixture) coding(name string, w values, k, n int, recipe string) device.Coding {
	groups := exl2.MustRecipe(recipe).Groups(k)
	return device.Coding{
		Groups:  groups,
		W:       f.in(name+" W", tensor.F32, k, n, w),
		Codes:   f.bytesOut(name+" codes", k, n, unwritten(k*n)),
		Scales:  f.bytesOut(name+" scales", len(groups), n, unwritten(len(groups)*n)),
		Largest: f.out(name+" largest", tensor.F16, len(groups), 1),
	}
}

// coded allocates a quantized form without meaning, and no weight.
func (f *fixture) coded(q *exl2.Quantized) device.Coding {
	return device.Coding{
		Groups: q.Groups, Codes: f.bytes("codes", q.In, q.Out, q.Codes), Scales: f.bytes("scales", len(q.Groups), q.Out, q.Scales),
		Largest: f.in("largest", tensor.F16, len(q.Groups), 1, func(i int) float32 { return q.ScaleMax[i].Float32() }),
	}
}

// coarse is a pattern of multiples of 2⁻¹⁰: sums of these and of what codes stand
// for, by small integers, need no rounding.
func coarse(seed int) values {
	v := noise(seed)
	return func(i int) float32 { return float32(math.Round(float64(v(i))*1024)) / 1024 }
}

// searched lists groups whose scales are searched.
func searchScaleCases() (cases []testCase) {
	add := func(name string, w, importance values, k, n, g int, recipes ...string) {
		cases = append(cases, testCase{name: fmt.Sprintf("%s %dx%d group %d %v", name, k, n, g, recipes), limit: exact, direct: true,
			build: func(f *fixture) func(device.Device) {
				var list []device.Coding
				for i, r := range recipes {
					list = append(list, f.coding(fmt.Sprint(i), w, k, n, r))
				}
				weights := f.in("importance", tensor.F32, 1, k, importance)
				return quantizing(func(d device.Quantize) { d.SearchScale(list, g, weights) })
			}})
	}
	ones, uneven := constant(1), scaled(noise(2), 0.9, 1)
	for _, bits := range exl2.Widths {
		for _, s := range []struct{ rows, n int }{{32, 32}, {64, 96}, {128, 352}} {
			add("noise", noise(3), uneven, s.rows, s.n, 0, fmt.Sprintf("1:%db_%dg", bits, s.rows))
		}
	}
	add("a later group", noise(4), uneven, 352, 64, 2, "1:4b_128g")
	add("a list", noise(5), uneven, 256, 160, 1, "1:4b_128g", "0.5:5b_32g/0.5:3b_64g", "0.2:8b_32g/0.8:2b_96g")
	add("many columns", noise(6), ones, 32, 5120, 0, "1:3b_32g")
	add("columns of all sizes", func(i int) float32 { return noise(7)(i) * float32(math.Pow(2, float64(i%64)/4-12)) }, uneven, 64, 64, 0, "1:4b_64g")
	add("zeros", constant(0), ones, 32, 64, 0, "1:4b_32g")
	add("some zero columns", func(i int) float32 { return noise(8)(i) * float32(i%3) }, ones, 32, 96, 0, "1:5b_32g")
	add("beyond fp16", constant(1e30), ones, 32, 32, 0, "1:2b_32g")
	add("below fp16", scaled(noise(9), 1e-9, 0), ones, 32, 32, 0, "1:4b_32g")
	add("large importance", noise(10), func(i int) float32 { return []float32{1, 1e8, 1e-8}[i%3] }, 96, 64, 0, "1:3b_96g")
	return cases
}

// factorOperands allocates a factor.
func (f *fixture) factor(k int, u, h values) device.Factor {
	return device.Factor{
		U: f.in("U", tensor.F32, k, k, u), H: f.in("H", tensor.F32, k, k, h),
		Importance: f.in("importance", tensor.F32, 1, k, func(i int) float32 { x := u(i*k + i); return 1 / (x * x) }),
	}
}

// integers are a triangle and a matrix with few elements other than 0, which are
// powers of two or ±1.
func integers(k int) (u, h values) {
	few := func(i, j int) float32 {
		switch x := mix(13, min(i, j)*k+max(i, j)); {
		case x%48 == 0:
			return 1
		case x%48 == 1:
			return -1
		}
		return 0
	}
	u = func(at int) float32 {
		switch i, j := at/k, at%k; {
		case i == j:
			return []float32{1, 1, 0.5}[i%3]
		case i < j:
			return few(i, j)
		}
		return 0
	}
	return u, func(at int) float32 {
		if i, j := at/k, at%k; i != j {
			return few(i, j)
		}
		return 32
	}
}

// realistic are the damped moments of patterns and their factor.
var realistic = func() func(k int) (u, h values) {
	var lock sync.Mutex
	known := map[int][2][]float32{}
	return func(k int) (u, h values) {
		lock.Lock()
		defer lock.Unlock()
		if _, ok := known[k]; !ok {
			known[k] = factored(k)
		}
		return list(known[k][0]...), list(known[k][1]...)
	}
}()

func factored(k int) [2][]float32 {
	d, err := cpu.New()
	if err != nil {
		panic(err)
	}
	m := moments(k, 0.1)
	u, h := d.Alloc(tensor.F32, k, k), d.Alloc(tensor.F32, k, k)
	d.Upload(h, tensor.BytesOf(m))
	d.InverseFactor(u, h, 0, d.Alloc(tensor.I32, 1, 1))
	return [2][]float32{tensor.Widen(tensor.F32, download(d, u)), m}
}

// quantizedBy returns a quantized form that is near to w, at scales without much
// meaning.
func quantizedBy(w values, k, n int, recipe string) *exl2.Quantized {
	q := &exl2.Quantized{In: k, Out: n, Groups: exl2.MustRecipe(recipe).Groups(k), Perm: shuffled(4, k), Codes: make([]uint8, k*n)}
	for i, g := range q.Groups {
		largest := half.ToF16(1.25 / float32(int(1)<<(g.Bits-1)))
		table, zero := exl2.ScaleTable(largest), float64(int(1)<<(g.Bits-1))
		q.ScaleMax = append(q.ScaleMax, largest)
		for c := range n {
			s := 13 + uint8(mix(14, i*n+c)%3)
			q.Scales = append(q.Scales, s)
			for r := g.Row; r < g.Row+g.Rows; r++ {
				code := math.Round(float64(w(r*n+c))/float64(table[s].Float32())) + zero
				q.Codes[r*n+c] = uint8(min(max(code, 0), 2*zero-1))
			}
		}
	}
	return q
}

func valuesCases() (cases []testCase) {
	for _, recipe := range everyMix() {
		cases = append(cases, testCase{name: recipe, limit: limit{bits: true, why: "values are exact"}, build: func(f *fixture) func(device.Device) {
			q := quantizedParts(480, 64, recipe)
			w, c := f.out("w", tensor.F32, q.In, q.Out), f.coded(q)
			return quantizing(func(d device.Quantize) { d.Values(w, c) })
		}})
	}
	return append(cases, testCase{name: "one group", limit: limit{bits: true, why: "values are exact"}, build: func(f *fixture) func(device.Device) {
		q := quantizedParts(352, 96, "0.5:6b_64g/0.5:3b_32g")
		c := f.coded(q).Group(2)
		w := f.out("w", tensor.F32, c.Codes.Rows, q.Out)
		return quantizing(func(d device.Quantize) { d.Values(w, c) })
	}})
}

func packCases() (cases []testCase) {
	for _, recipe := range everyMix() {
		cases = append(cases, testCase{name: recipe, limit: limit{bits: true, why: "packing is exact"}, build: func(f *fixture) func(device.Device) {
			q := quantizedParts(480, 96, recipe)
			c := f.coded(q)
			m := q.Pack()
			words := f.intsOut("words", len(m.Words)/m.Out, m.Out, repeat(-7, len(m.Words)))
			scales := f.intsOut("packed scales", len(m.Groups), m.Out/8, repeat(-7, len(m.Scales)))
			return quantizing(func(d device.Quantize) { d.Pack(words, scales, c) })
		}})
	}
	return append(cases, testCase{name: "one group", limit: limit{bits: true, why: "packing is exact"}, build: func(f *fixture) func(device.Device) {
		q := quantizedParts(352, 32, "0.5:6b_64g/0.5:3b_32g")
		c := f.coded(q).Group(4)
		rows := c.Groups[0].Rows * c.Groups[0].Bits / 32
		words, scales := f.intsOut("words", rows, 32, repeat(-7, rows*32)), f.intsOut("packed scales", 1, 4, repeat(-7, 4))
		return quantizing(func(d device.Quantize) { d.Pack(words, scales, c) })
	}})
}

// assembleCases decode, and multiply by, what is assembled.
func assembleCases() (cases []testCase) {
	for _, s := range []shape{
		{480, 96, "1:4b_128g", 1}, {480, 77, "0.3:5b_128g/0.7:3b_64g", 20}, {352, 32, "0.1:8b_32g/0.2:6b_64g/0.7:2b_32g", 3}, {1024, 160, "0.1:5b_64g/0.4:4b_128g/0.5:2b_64g", 1},
	} {
		cases = append(cases, testCase{name: s.String(), limit: productLimit, direct: true, build: func(f *fixture) func(device.Device) {
			q := quantizedParts(s.in, exl2.Pad(s.out), s.recipe)
			c, m := f.coded(q), q.Pack()
			words, scales := f.ints("words", len(m.Words)/m.Out, m.Out, signed(m.Words)), f.ints("packed scales", len(m.Groups), m.Out/8, signed(m.Scales))
			perm := f.ints("perm", 1, s.in, q.Perm)
			y, x := f.out("y", activation, s.rows, s.out), f.in("x", activation, s.rows, s.in, noise(1))
			dst, stored := f.out("dst", tensor.F16, s.out, s.in), f.out("stored", tensor.F16, s.out, s.in)
			f.within(limit{bits: true, why: "decoding is exact"})
			return quantizing(func(d device.Quantize) {
				w := d.Assemble(c, words, scales, perm, s.out)
				d.Decode(dst, w)
				d.DecodeStored(stored, w)
				d.QMatMul(y, x, w, tensor.Tensor{})
				d.FreeEXL2(w)
			})
		}})
	}
	return cases
}

func signed(words []uint32) []int32 {
	out := make([]int32, len(words))
	for i, w := range words {
		out[i] = int32(w)
	}
	return out
}
