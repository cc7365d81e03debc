package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// emitPairs emits what looks for codes that change together. Like the quantizer's
// routines, these use no fused operations.
func emitPairs(a *assembly) {
	a.table("places", 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
	for _, l := range levels {
		emitBeside(a, l)
		emitPartner(a, l)
	}
}

// emitBeside emits what the next codes would change values by.
func emitBeside(a *assembly, l level) {
	a.routine(l, "beside", "func(up, down, code, scale, zero, largest *float32, n int)",
		"is Beside for n rows, a positive multiple of 32; largest is the largest change, of *largest, too.")
	up, down, code, scale, zero := a.pointer("up"), a.pointer("down"), a.pointer("code"), a.pointer("scale"), a.pointer("zero")
	n, largest, c, start := a.pointer("n"), a.pointer("largest"), a.GP64(), a.fresh("rows")
	one, none, most := a.constant(0x3f800000), a.vec(), a.vec()
	a.zero(none)
	a.VBROADCASTSS(at(largest, 0), most)
	a.XORQ(c, c)
	a.Label(start)
	q, s, high, low, now := a.vec(), a.vec(), a.vec(), a.vec(), a.vec()
	a.VMOVUPS(float(code, c, 0), q)
	a.VMOVUPS(float(scale, c, 0), s)
	a.VMOVUPS(float(zero, c, 0), high)
	a.VSUBPS(high, none, low)
	a.VSUBPS(one, high, high)
	a.VMULPS(s, q, now)
	a.round(now)
	change := func(next, bound reg.VecVirtual, within uint64, to reg.GPVirtual) {
		a.VMULPS(s, next, next)
		a.round(next)
		a.VSUBPS(now, next, next)
		a.keepWhere(next, q, bound, within)
		a.VMOVUPS(next, float(to, c, 0))
	}
	above, below := a.vec(), a.vec()
	a.VADDPS(one, q, above)
	change(above, high, lessThan, up)
	a.VMAXPS(most, above, most)
	a.VSUBPS(one, q, below)
	change(below, low, greaterThan, down)
	a.VSUBPS(below, none, below)
	a.VMAXPS(most, below, most)
	a.ADDQ(operand.Imm(uint64(l.bytes/4)), c)
	a.CMPQ(c, n)
	a.JLT(operand.LabelRef(start))
	a.VMOVSS(a.across(most, a.VMAXPS), at(largest, 0))
	a.end()
}

// Predicates of comparisons, false where an operand is not a number.
const (
	equal       = 0x00
	lessThan    = 0x11
	greaterThan = 0x1e
)

// where returns a mask of the elements of which x compares with y so: all ones, or
// on AVX-512 a register of bits.
func (a *assembly) where(x, y reg.VecVirtual, predicate uint64) reg.Register {
	if a.level == avx512 {
		k := a.K()
		a.VCMPPS(operand.Imm(predicate), y, x, k)
		return k
	}
	m := a.vec()
	a.VCMPPS(operand.Imm(predicate), y, x, m)
	return m
}

// choose puts x into the elements of v that a mask has.
func (a *assembly) choose(mask reg.Register, x, v reg.VecVirtual) {
	if a.level == avx512 {
		a.VMOVAPS(x, mask, v)
	} else {
		a.VBLENDVPS(mask, x, v, v)
	}
}

// keepWhere clears the elements of v of which x does not compare with y so.
func (a *assembly) keepWhere(v, x, y reg.VecVirtual, predicate uint64) {
	mask := a.where(x, y, predicate)
	if a.level == avx512 {
		a.VMOVAPS_Z(v, mask, v)
	} else {
		a.VANDPS(mask, v, v)
	}
}

// across joins all elements of v, of which it keeps none, by an operation that may take
// them in any order.
func (a *assembly) across(v reg.VecVirtual, join func(...operand.Op)) reg.VecVirtual {
	y, x, high := v.AsY(), v.AsX(), a.XMM()
	if a.level == avx512 {
		upper := a.YMM()
		a.VEXTRACTF64X4(operand.Imm(1), v, upper)
		join(upper, y, y)
	}
	a.VEXTRACTF128(operand.Imm(1), y, high)
	join(high, x, x)
	for _, order := range []uint64{0b1110, 0b01} { // the upper half, the second element
		a.VPERMILPS(operand.Imm(order), x, high)
		join(high, x, x)
	}
	return x.(reg.VecVirtual)
}

// A search holds the largest gain of every lane, above the least, and the row that has it;
// here is the rows at hand, skip the row that is none.
type search struct {
	*assembly
	best, at, here []reg.VecVirtual
	skip           reg.VecVirtual
}

// emitPartner emits the search for the row whose change gains most. Every lane keeps the
// first of its largest gains; among lanes it is the one with the smallest number.
func emitPartner(a *assembly, l level) {
	a.routine(l, "partner", "func(up, down, diagonal, left, h *float32, d float32, best *float32, skip, n int) (at int)",
		"is Partner for n rows, a positive multiple of 32, that gain more than *best, which becomes the largest gain.")
	up, down, diagonal, left, h := a.pointer("up"), a.pointer("down"), a.pointer("diagonal"), a.pointer("left"), a.pointer("h")
	d, best, lanes := a.vec(), a.pointer("best"), l.bytes/4
	s := &search{a, a.vecs(2), a.vecs(2), a.vecs(2), a.vec()}
	a.VBROADCASTSS(a.argument("d"), d)
	a.VPBROADCASTD(a.argument("skip"), s.skip)
	step := a.constant(uint32(2 * lanes))
	for i := range 2 {
		a.VBROADCASTSS(at(best, 0), s.best[i])
		s.at[i] = a.constant(0xffffffff)
		a.VMOVUPS(data("places", 0), s.here[i])
	}
	a.VPADDD(a.constant(uint32(lanes)), s.here[1], s.here[1])
	n, c, start := a.pointer("n"), a.GP64(), a.fresh("rows")
	a.XORQ(c, c)
	a.Label(start)
	for i := range 2 {
		x, y, g := a.vec(), a.vec(), a.vec()
		a.VMULPS(float(h, c, i*lanes), d, y)
		a.VMOVUPS(float(left, c, i*lanes), x)
		a.VSUBPS(y, x, x)
		a.VADDPS(x, x, x)
		a.VMOVUPS(float(diagonal, c, i*lanes), g)
		gain := func(changes reg.GPVirtual, y reg.VecVirtual) reg.VecVirtual {
			by := a.vec()
			a.VMOVUPS(float(changes, c, i*lanes), by)
			a.VMULPS(g, by, y)
			a.VSUBPS(y, x, y)
			a.VMULPS(by, y, y)
			return y
		}
		other := gain(down, y)
		one := gain(up, a.vec())
		a.VMAXPS(other, one, one)
		s.take(i, one)
		a.VPADDD(step, s.here[i], s.here[i])
	}
	a.ADDQ(operand.Imm(uint64(2*lanes)), c)
	a.CMPQ(c, n)
	a.JLT(operand.LabelRef(start))
	s.result(best)
	a.end()
}

// take takes gains that are larger.
func (s *search) take(i int, gain reg.VecVirtual) {
	better := s.where(gain, s.best[i], greaterThan)
	if s.level == avx512 {
		other := s.K()
		s.VPCMPD(operand.Imm(4), s.skip, s.here[i], other)
		s.KANDW(other, better, better)
	} else {
		same := s.vec()
		s.VPCMPEQD(s.skip, s.here[i], same)
		s.VPANDN(better, same, better)
	}
	s.choose(better, gain, s.best[i])
	s.choose(better, s.here[i], s.at[i])
}

// result stores the largest gain and returns its row.
func (s *search) result(best reg.GPVirtual) {
	most := s.vec()
	s.VMAXPS(s.best[0], s.best[1], most)
	top := s.across(most, s.VMAXPS)
	s.VMOVSS(top, at(best, 0))
	s.VBROADCASTSS(at(best, 0), most)
	first := s.constant(0xffffffff)
	for i := range 2 {
		none := s.constant(0xffffffff)
		s.choose(s.where(s.best[i], most, equal), s.at[i], none)
		s.VPMINUD(none, first, first)
	}
	row, number := s.GP32(), s.GP64()
	s.VMOVD(s.across(first, s.VPMINUD), row)
	s.MOVLQSX(row, number)
	s.Store(number, s.ReturnIndex(0))
}
