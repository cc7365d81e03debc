package main

import (
	"math"
	"strconv"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The layout of simd.Packed: columns that lie abreast, rows of a chunk, lanes
// of a vector of rows, and rows between places where scales can change.
const (
	abreast   = 4
	chunkRows = 128
	lanes     = 16
	stepRows  = 32
)

// emitPacked emits products with, and decoding of, packed EXL2 matrices: two
// routines for each bit width.
func emitPacked(a *assembly) {
	emitOffsets(a)
	emitByteTables(a)
	for _, l := range levels {
		for _, bits := range []int{2, 3, 4, 5, 6, 8} {
			emitPackedGemv(a, l, bits)
			emitPackedDecode(a, l, bits)
		}
	}
}

// emitOffsets emits what codes stand for before scaling, code - 2^(bits-1),
// repeated to fill 16 entries.
func emitOffsets(a *assembly) {
	for _, bits := range []int{2, 3, 4, 5} {
		entries := make([]uint32, max(16, 1<<bits))
		for i := range entries {
			code := i & (1<<bits - 1)
			entries[i] = math.Float32bits(float32(code - 1<<(bits-1)))
		}
		a.table(offsets(bits), entries...)
	}
}

func offsets(bits int) string { return "offsets" + strconv.Itoa(bits) }

// A packedKernel is a routine on packed columns in the making.
type packedKernel struct {
	*assembly
	decoder
	bits                        int
	cols                        int // columns that are computed together
	parts                       int // registers that hold a vector of rows
	use                         func(slot, col, part int, w reg.VecVirtual)
	start                       func(pass int) // before the rows of some columns
	finish                      func(pass int) // after them
	stream                      []reg.GPVirtual
	codes, scales, values, left reg.GPVirtual
}

// emitPackedGemv emits the product of a vector with columns.
func emitPackedGemv(a *assembly, l level, bits int) {
	a.routine(l, "packedGemv"+strconv.Itoa(bits), "func(y, x *float32, codes, scales *uint8, values *float32, rows, unit, quads int)",
		"adds the products of x with the columns of a region, four times quads of them, to y.")
	k := newPackedKernel(a, bits)
	y, x := a.pointer("y"), a.GP64()
	k.stream = []reg.GPVirtual{x}
	sums := make([][]reg.VecVirtual, k.cols)
	k.start = func(int) {
		a.Load(a.Param("x"), x)
		for c := range sums {
			sums[c] = a.vecs(k.parts)
			a.zero(sums[c]...)
		}
	}
	k.use = func(slot, col, part int, w reg.VecVirtual) {
		a.VFMADD231PS(at(x, (slot*k.parts+part)*l.bytes), w, sums[col][part])
	}
	k.finish = func(int) {
		for _, s := range sums {
			a.addTo(at(y, 0), s)
			a.ADDQ(operand.Imm(4), y)
		}
	}
	k.emit()
}

// emitPackedDecode emits the weights of columns, column by column.
func emitPackedDecode(a *assembly, l level, bits int) {
	a.routine(l, "packedDecode"+strconv.Itoa(bits), "func(dst *float32, stride int, codes, scales *uint8, values *float32, rows, unit, quads int)",
		"stores the weights of the columns of a region, four times quads of them, stride apart in dst.")
	k := newPackedKernel(a, bits)
	dst, stride, stride3, to := a.pointer("dst"), a.pointer("stride"), a.GP64(), a.GP64()
	a.SHLQ(operand.Imm(2), stride)
	a.LEAQ(operand.Mem{Base: stride, Index: stride, Scale: 2}, stride3)
	k.stream = []reg.GPVirtual{to}
	k.start = func(pass int) {
		a.MOVQ(dst, to)
		a.LEAQ(operand.Mem{Base: dst, Index: stride, Scale: uint8(k.cols)}, dst)
	}
	k.use = func(slot, col, part int, w reg.VecVirtual) {
		m := at(to, (slot*k.parts+part)*l.bytes)
		switch col {
		case 1, 2:
			m.Index, m.Scale = stride, uint8(col)
		case 3:
			m.Index, m.Scale = stride3, 1
		}
		a.VMOVUPS(w, m)
	}
	k.finish = func(int) {}
	k.emit()
}

func newPackedKernel(a *assembly, bits int) *packedKernel {
	k := &packedKernel{assembly: a, bits: bits, cols: abreast, parts: 1}
	if a.level == avx2 {
		k.cols, k.parts = 2, 2
	}
	return k
}

// emit emits the loops: quads of columns, passes over a quad if not all of it is
// computed together, chunks, steps of a chunk.
func (k *packedKernel) emit() {
	k.decoder = newDecoder(k)
	quadCodes, quadScales, quads := k.pointer("codes"), k.pointer("scales"), k.pointer("quads")
	k.codes, k.scales, k.values, k.left = k.GP64(), k.GP64(), k.GP64(), k.GP64()
	k.loop(quads, func() {
		for pass := range abreast / k.cols {
			k.MOVQ(quadCodes, k.codes)
			k.MOVQ(quadScales, k.scales)
			k.Load(k.Param("values"), k.values)
			k.Load(k.Param("rows"), k.left)
			k.start(pass)
			k.chunks(pass)
			k.finish(pass)
		}
		k.MOVQ(k.scales, quadScales)
		k.Load(k.Param("rows"), k.left)
		k.ADDQ(operand.Imm(chunkRows-1), k.left)
		k.SHRQ(operand.Imm(7), k.left)
		k.IMUL3Q(operand.U32(abreast*lanes*k.bits), k.left, k.left)
		k.ADDQ(k.left, quadCodes)
	})
	k.end()
}

// chunks emits the loop over the chunks of the columns of a pass; it ends after
// the last step that has rows.
func (k *packedKernel) chunks(pass int) {
	top, out := k.fresh("chunk"), k.fresh("out")
	k.Label(top)
	first := pass * k.cols
	for disp := 0; pass == 0 && disp < abreast*lanes*k.bits; disp += 64 {
		k.PREFETCHT0(at(k.codes, ahead+disp))
	}
	if k.byBytes() {
		k.chunkByBytes(first, top, out)
	}
	for col := range k.cols {
		k.open(col, first+col)
	}
	const steps = chunkRows / stepRows
	for step := range steps {
		k.changeScales(step, first)
		for slot := 2 * step; slot < 2*step+2; slot++ {
			for col := range k.cols {
				for part := range k.parts {
					k.use(slot, col, part, k.weights(slot, col, first+col, part))
				}
			}
		}
		if step < steps-1 {
			k.SUBQ(operand.Imm(stepRows), k.left)
			k.JZ(operand.LabelRef(out))
		}
	}
	k.advance()
	k.SUBQ(operand.Imm(stepRows), k.left)
	k.JNZ(operand.LabelRef(top))
	k.Label(out)
}

// changeScales emits the change to the next unit's scales, if one begins at a
// step: at the first always, at the third for units of two steps or one, at the
// others for units of one.
func (k *packedKernel) changeScales(step, first int) {
	skip := k.fresh("same")
	if step > 0 {
		longest := stepRows * (2 - step%2)
		k.CMPQ(k.argument("unit"), operand.Imm(uint64(longest)))
		k.JGT(operand.LabelRef(skip))
	}
	code := k.GP64()
	for col := range k.cols {
		k.rescale(col, k.scale(first+col, code))
	}
	k.nextScales()
	k.Label(skip)
}

// scale is the memory of a column's scale, whose code goes to a register.
func (k *packedKernel) scale(col int, code reg.GPVirtual) operand.Mem {
	k.MOVBQZX(at(k.scales, col), code)
	return operand.Mem{Base: k.values, Index: code, Scale: 4}
}

// nextScales goes to the scales of the next unit.
func (k *packedKernel) nextScales() {
	k.ADDQ(operand.Imm(abreast), k.scales)
	k.ADDQ(operand.Imm(16*4), k.values)
}

// advance goes to the next chunk.
func (k *packedKernel) advance() {
	for _, p := range k.stream {
		k.ADDQ(operand.U32(chunkRows*4), p)
	}
	k.ADDQ(operand.U32(abreast*lanes*k.bits), k.codes)
}
