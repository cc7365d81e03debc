package main

import (
	"slices"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Four bits on AVX2, where a register has no room for a column's sixteen weights as floats: those are fp16,
// and a register has room for the low bytes of sixteen, another for the high ones. Bytes of codes look
// both up, 32 at a time, to the same weights as code·scale rounded to fp16.

// Tables of byteWeights: bytes of codes go by slots, four neighbouring rows, then eight; lowBytes leaves those of halves.
// codeMask and codeOne are multiply's, of other chunks, for which no registers are left.
const (
	slotsOfRows, eightRows, lowBytes, nibbles = "slotsOfRows", "eightRows", "lowBytes", "nibbles"
	codeMask, codeOne                         = "codeMask", "codeOne"
)

func emitByteTables(a *assembly) {
	slots := []uint32{0x0c080400, 0x0d090501, 0x0e0a0602, 0x0f0b0703}
	a.table(slotsOfRows, append(slots, slots...)...)
	a.table(eightRows, 0, 4, 1, 5, 2, 6, 3, 7)
	for _, t := range []struct {
		name string
		v    uint32
	}{{lowBytes, 0x00ff00ff}, {nibbles, 0x0f0f0f0f}, {codeMask, maskOf(4)}, {codeOne, oneOf(4)}} {
		a.table(t.name, slices.Repeat([]uint32{t.v}, 8)...)
	}
}

// byBytes reports whether chunks of one scale are decoded so.
func (k *packedKernel) byBytes() bool { return k.level == avx2 && k.bits == 4 }

// chunkByBytes emits a whole chunk of one scale, and goes on at top or out; it is left for what
// follows where there is none.
func (k *packedKernel) chunkByBytes(first int, top, out string) {
	other := k.fresh("other")
	k.CMPQ(k.argument("unit"), operand.Imm(chunkRows-1))
	k.JLE(operand.LabelRef(other))
	k.CMPQ(k.left, operand.Imm(chunkRows-1))
	k.JLE(operand.LabelRef(other))
	for col := range k.cols {
		low, high := k.byteTables(first + col)
		for part := range k.parts {
			for slot, w := range k.byteWeights(first+col, part, low, high) {
				k.use(slot, col, part, w())
			}
		}
	}
	k.nextScales()
	k.advance()
	k.SUBQ(operand.U32(chunkRows), k.left)
	k.JNZ(operand.LabelRef(top))
	k.JMP(operand.LabelRef(out))
	k.Label(other)
}

// byteTables makes the low and the high bytes of a column's sixteen weights.
func (k *packedKernel) byteTables(col int) (low, high reg.Vec) {
	scale := k.vec()
	k.VBROADCASTSS(k.scale(col, k.GP64()), scale)
	var halves, tops [2]reg.VecVirtual
	for i := range halves {
		v := k.vec()
		k.VMULPS(data(offsets(4), i*k.bytes), scale, v)
		halves[i], tops[i] = k.XMM(), k.XMM()
		k.VCVTPS2PH(operand.Imm(nearestEven), v, halves[i])
		k.VPSRLW(operand.Imm(8), halves[i], tops[i])
		k.VPAND(data(lowBytes, 0), halves[i], halves[i])
	}
	// Which registers those are is said, or one is what AVX-512 alone has.
	both := func(v [2]reg.VecVirtual, y reg.Vec) reg.Vec {
		k.VPACKUSWB(v[1], v[0], y.AsX())
		k.VINSERTI128(operand.Imm(1), y.AsX(), y.AsY(), y.AsY())
		return y
	}
	return both(halves, reg.Y14), both(tops, reg.Y15)
}

// byteWeights returns what makes a column's vectors of weights, of eight rows, in the order of the slots.
func (k *packedKernel) byteWeights(col, part int, low, high reg.Vec) (weights [8]func() reg.VecVirtual) {
	w, order := k.vec(), k.vec()
	k.VMOVDQU(at(k.codes, col*lanes*k.bits+part*k.bytes), w)
	k.VPSHUFB(data(slotsOfRows, 0), w, w)
	k.VMOVDQU(data(eightRows, 0), order)
	k.VPERMD(w, order, w)
	for odd := range 2 {
		l, h, codes := k.vec(), k.vec(), w
		if odd == 1 {
			k.VPSRLD(operand.Imm(4), w, w)
		} else {
			codes = h
		}
		k.VPAND(data(nibbles, 0), w, codes)
		k.VPSHUFB(codes, low.AsY(), l)
		k.VPSHUFB(codes, high.AsY(), h)
		for second := range 2 {
			both := k.vec() // of two slots
			if second == 0 {
				k.VPUNPCKLBW(h, l, both)
			} else {
				k.VPUNPCKHBW(h, l, both)
			}
			weights[odd+2*second] = func() reg.VecVirtual { return k.widened(both.AsX()) }
			weights[odd+2*second+4] = func() reg.VecVirtual {
				x := k.XMM()
				k.VEXTRACTI128(operand.Imm(1), both, x)
				return k.widened(x)
			}
		}
	}
	return weights
}

// widened makes eight floats of halves.
func (k *packedKernel) widened(halves operand.Op) reg.VecVirtual {
	v := k.vec()
	k.VCVTPH2PS(halves, v)
	return v
}
