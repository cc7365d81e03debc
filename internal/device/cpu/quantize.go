package cpu

import (
	"slices"

	"exl2/internal/device"
	"exl2/internal/device/cpu/simd"
	"exl2/internal/exl2"
	"exl2/internal/half"
	"exl2/internal/parallel"
	"exl2/internal/tensor"
)

// A coding is a device.Coding as slices.
type coding struct {
	groups  []exl2.Group
	k, n    int
	first   int       // row of groups[0] in the whole matrix: row 0 of the slices
	w       []float32 // [k, n], or nil
	codes   []uint8   // [k, n]
	scales  []uint8   // [groups, n]
	largest []half.F16
}

func codingOf(op string, c device.Coding) coding {
	k, n, groups := c.Codes.Rows, c.Codes.Cols, len(c.Groups)
	want(groups > 0 && c.Scales.Rows == groups && c.Scales.Cols == n && c.Largest.Rows*c.Largest.Cols == groups && n%exl2.Align == 0,
		op, c.Codes, c.Scales, c.Largest)
	wantType(op, c.Codes, tensor.U8)
	wantType(op, c.Scales, tensor.U8)
	wantType(op, c.Largest, tensor.F16)
	last := c.Groups[groups-1]
	want(last.Row+last.Rows-c.Groups[0].Row == k, op, c.Codes)
	s := coding{
		groups: c.Groups, k: k, n: n, first: c.Groups[0].Row,
		codes: elements[uint8](c.Codes), scales: elements[uint8](c.Scales), largest: elements[half.F16](c.Largest),
	}
	if !c.W.Nil() {
		want(c.W.Rows == k && c.W.Cols == n, op, c.W, c.Codes)
		s.w = floats(op, c.W)
	}
	return s
}

// rows returns where group g lies in the slices.
func (c *coding) rows(g int) (lo, hi int) {
	lo = c.groups[g].Row - c.first
	return lo, lo + c.groups[g].Rows
}

// grid returns the grid of columns lo to hi of group g; buf has room for twice
// as many numbers.
func (c *coding) grid(g, lo, hi int, buf []float32) simd.Grid {
	table, scales := exl2.ScaleTable(c.largest[g]), buf[:hi-lo]
	for i, s := range c.scales[g*c.n+lo : g*c.n+hi] {
		scales[i] = table[s].Float32()
	}
	return simd.NewGrid(c.groups[g].Bits, scales, buf[hi-lo:2*(hi-lo)])
}

// Values stores the weights of the codes.
func (d *Device) Values(w tensor.Tensor, c device.Coding) {
	s := codingOf("Values", c)
	want(w.Rows == s.k && w.Cols == s.n, "Values", w, c.Codes)
	d.eachValues(s, floats("Values", w), func(int, []float32) {})
}

// eachValues stores the weights of the codes, and does something with every row of them.
func (d *Device) eachValues(s coding, to []float32, then func(r int, row []float32)) {
	parallel.For(len(s.groups), func(g int) {
		buf, release := d.borrowed(2 * s.n)
		defer release()
		grid := s.grid(g, 0, s.n, buf)
		lo, hi := s.rows(g)
		for r := lo; r < hi; r++ {
			row := to[r*s.n : (r+1)*s.n]
			values(row, s.codes[r*s.n:(r+1)*s.n], grid)
			then(r, row)
		}
	})
}

// values stores the weights of one row of codes.
func values(w []float32, codes []uint8, grid simd.Grid) {
	zero := float32(int(1) << (grid.Bits - 1))
	for c, code := range codes {
		w[c] = half.ToF16((float32(code) - zero) * grid.Scale[c]).Float32()
	}
}

// Pack stores codes and scales as files have them.
func (d *Device) Pack(words, scales tensor.Tensor, c device.Coding) {
	s := codingOf("Pack", c)
	last := s.groups[len(s.groups)-1]
	wordRows := last.Word + last.Rows*last.Bits/32 - s.groups[0].Word
	want(words.Rows == wordRows && words.Cols == s.n && scales.Rows == len(s.groups) && scales.Cols == s.n/8, "Pack", words, scales, c.Codes)
	wantType("Pack", words, tensor.I32)
	wantType("Pack", scales, tensor.I32)
	packed, packedScales := elements[uint32](words), elements[uint32](scales)
	parallel.For(len(s.groups), func(i int) {
		g := s.groups[i]
		lo, _ := s.rows(i)
		exl2.PackGroup(packed[(g.Word-s.groups[0].Word)*s.n:], s.codes[lo*s.n:], g, s.n)
		exl2.PackScales(packedScales[i*s.n/8:(i+1)*s.n/8], s.scales[i*s.n:(i+1)*s.n])
	})
}

// Assemble makes a matrix for products.
func (d *Device) Assemble(c device.Coding, words, scales, perm tensor.Tensor, out int) device.Matrix {
	s := codingOf("Assemble", c)
	want(words.Cols == s.n && scales.Rows == len(s.groups) && scales.Cols*8 == s.n && perm.Cols == s.k && perm.Rows == 1 && out <= s.n, "Assemble", words, scales, perm)
	wantType("Assemble", words, tensor.I32)
	wantType("Assemble", scales, tensor.I32)
	m := &exl2.Matrix{In: s.k, Out: s.n, Groups: s.groups, Words: elements[uint32](words), Scales: elements[uint32](scales), ScaleMax: s.largest}
	return d.load(m, slices.Clone(ints("Assemble", perm)), out)
}

// QuantizeWorkspace returns the bytes of the copies that GPTQ and Descend make,
// and of what they pack.
func (d *Device) QuantizeWorkspace(k, n, count int) int {
	if count == 0 {
		return 0
	}
	return 4 * atOnce(n*count, count) * k * (2*n + 4*blockRows)
}
