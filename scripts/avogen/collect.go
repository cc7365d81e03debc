package main

import "github.com/mmcloughlin/avo/operand"

// emitCollect emits what brings the codes of a row to the lanes of packed
// columns: 64 bits of two words, shifted down, masked, shifted up.
func emitCollect(a *assembly) {
	for _, l := range levels {
		a.routine(l, "collectCodes", "func(lane *uint64, words, next *uint32, down, up int, mask uint64, n int)",
			"is collect for n columns, a positive multiple of 32.")
		lane, words, next, n := a.pointer("lane"), a.pointer("words"), a.pointer("next"), a.pointer("n")
		down, up, mask := a.XMM(), a.XMM(), a.vec()
		a.VMOVQ(a.argument("down"), down)
		a.VMOVQ(a.argument("up"), up)
		a.VPBROADCASTQ(a.argument("mask"), mask)
		a.SHRQ(operand.Imm(5), n)
		a.loop(n, func() {
			for i := 0; i < block*8; i += l.bytes {
				v, high := a.vec(), a.vec()
				a.VPMOVZXDQ(at(words, i/2), v)
				a.VPMOVZXDQ(at(next, i/2), high)
				a.VPSLLQ(operand.Imm(32), high, high)
				if l == avx512 {
					a.VPORQ(high, v, v)
					a.VPSRLQ(down, v, v)
					a.VPANDQ(mask, v, v)
					a.VPSLLQ(up, v, v)
					a.VPORQ(at(lane, i), v, v)
					a.VMOVDQU64(v, at(lane, i))
				} else {
					a.VPOR(high, v, v)
					a.VPSRLQ(down, v, v)
					a.VPAND(mask, v, v)
					a.VPSLLQ(up, v, v)
					a.VPOR(at(lane, i), v, v)
					a.VMOVDQU(v, at(lane, i))
				}
			}
			a.ADDQ(operand.U32(block*8), lane)
			a.ADDQ(operand.U32(block*4), words)
			a.ADDQ(operand.U32(block*4), next)
		})
		a.end()
	}
}
