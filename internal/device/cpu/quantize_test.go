package cpu

import (
	"runtime"
	"slices"
	"testing"

	"exl2/internal/device"
	"exl2/internal/exl2"
	"exl2/internal/half"
	"exl2/internal/tensor"
)

// setCores limits the cores and returns what undoes it.
func setCores(n int) func() {
	before := runtime.GOMAXPROCS(n)
	return func() { runtime.GOMAXPROCS(before) }
}

// someCoding returns a coding of several widths, without meaning.
func someCoding(d *Device, k, n int) device.Coding {
	c := newCoding(d, normal(1, k, n), exl2.MustRecipe("0.2:8b_32g/0.2:6b_64g/0.2:5b_32g/0.2:3b_96g/0.2:2b_64g").Groups(k))
	fill(c, 0.5)
	return c
}

// host returns what package exl2 makes of a coding.
func host(c device.Coding, perm []int32) *exl2.Matrix {
	q := &exl2.Quantized{In: c.Codes.Rows, Out: c.Codes.Cols, Groups: c.Groups, Perm: perm,
		Codes: elements[uint8](c.Codes), Scales: elements[uint8](c.Scales), ScaleMax: slices.Clone(elements[half.F16](c.Largest))}
	return q.Pack()
}

// Values are the format's: (code - 2^(bits-1))·scale in fp16; a group's are part
// of them.
func TestValues(t *testing.T) {
	d := open(t)
	const k, n = 480, 96
	c := someCoding(d, k, n)
	w, want := d.Alloc(tensor.F32, k, n), newGrid(k, n)
	d.Values(w, c)
	for i, v := range host(c, shuffled(k)).Decode() {
		want.v[i] = float64(v.Float32())
	}
	near(t, download(d, w), want, 0)
	g := c.Groups[3]
	part := d.Alloc(tensor.F32, g.Rows, n)
	d.Values(part, c.Group(3))
	near(t, download(d, part), grid{g.Rows, n, want.v[g.Row*n : (g.Row+g.Rows)*n]}, 0)
}

func shuffled(n int) []int32 {
	perm := make([]int32, n)
	for i := range perm {
		perm[i] = int32((i*7 + 3) % n)
	}
	return perm
}

// Pack gives the bytes of package exl2, and Assemble the matrix that loading
// them gives.
func TestPackAndAssemble(t *testing.T) {
	d := open(t)
	const k, n, out = 480, 96, 77
	c, perm := someCoding(d, k, n), shuffled(k)
	want := host(c, perm)
	words, scales := d.Alloc(tensor.I32, len(want.Words)/n, n), d.Alloc(tensor.I32, len(c.Groups), n/8)
	for range 2 { // the second time over old words
		d.Pack(words, scales, c)
		if !slices.Equal(elements[uint32](words), want.Words) || !slices.Equal(elements[uint32](scales), want.Scales) {
			t.Fatal("other words than package exl2's")
		}
	}
	permutation := indexTensor(d, perm...)
	m := d.Assemble(c, words, scales, permutation, out)
	for _, x := range []tensor.Tensor{words, scales, permutation, c.Codes, c.Scales, c.Largest} {
		clear(bytesOf(x)) // all is copied
	}
	got, loaded := d.Alloc(tensor.F16, out, k), d.Alloc(tensor.F16, out, k)
	d.Decode(got, m)
	d.Decode(loaded, d.LoadEXL2(want, out))
	if !slices.Equal(elements[uint16](got), elements[uint16](loaded)) {
		t.Error("other weights than those of the packed matrix")
	}
	if m.In() != k || m.Out() != out {
		t.Errorf("%d x %d", m.In(), m.Out())
	}
}
