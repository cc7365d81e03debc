package main

import "github.com/mmcloughlin/avo/operand"

// block is the elements that the routines over slices take at a time: the
// counts that they are given are multiples of it.
const block = 32

// emitHalf emits conversions between 16-bit and 32-bit floats.
func emitHalf(a *assembly) {
	for _, l := range levels {
		a.convert(l, "widenF16", "func(dst *float32, src *uint16, n int)", 4, 2, func(from, to operand.Mem) {
			v := a.vec()
			a.VCVTPH2PS(from, v)
			a.VMOVUPS(v, to)
		})
		a.convert(l, "widenBF16", "func(dst *float32, src *uint16, n int)", 4, 2, func(from, to operand.Mem) {
			v := a.vec()
			a.VPMOVZXWD(from, v)
			a.VPSLLD(operand.Imm(16), v, v)
			a.VMOVUPS(v, to)
		})
		a.convert(l, "narrowF16", "func(dst *uint16, src *float32, n int)", 2, 4, func(from, to operand.Mem) {
			v := a.vec()
			a.VMOVUPS(from, v)
			a.VCVTPS2PH(operand.Imm(nearestEven), v, to)
		})
	}
}

// nearestEven is the rounding operand of VCVTPS2PH.
const nearestEven = 0

// convert emits a loop over blocks; one converts a vector of 32-bit elements.
func (a *assembly) convert(l level, name, signature string, to, from int, one func(from, to operand.Mem)) {
	a.routine(l, name, signature, "converts n elements, a multiple of 32.")
	dst, src, n := a.pointer("dst"), a.pointer("src"), a.pointer("n")
	a.SHRQ(operand.Imm(5), n)
	a.loop(n, func() {
		for i := 0; i < block; i += l.bytes / 4 {
			one(at(src, i*from), at(dst, i*to))
		}
		a.ADDQ(operand.Imm(uint64(block*from)), src)
		a.ADDQ(operand.U32(block*to), dst)
	})
	a.end()
}
