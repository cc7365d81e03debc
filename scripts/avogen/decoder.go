package main

import (
	"math"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// A decoder turns the codes of a chunk into weights, rounded to fp16 as the
// format wants. Narrow codes are looked up in a register with the sixteen (or
// eight, or 32) weights of a column's scale; wide ones are multiplied out.
type decoder struct {
	k      *packedKernel
	table  int                // entries of the lookup; 0: multiply
	tables [][]reg.VecVirtual // by column: the lookup, or scale and bias
	held   [][]reg.VecVirtual // by column: the words of the chunk, low and high
	mask   operand.Op
	one    operand.Op
}

func newDecoder(k *packedKernel) decoder {
	d := decoder{k: k, held: make([][]reg.VecVirtual, k.cols), tables: make([][]reg.VecVirtual, k.cols)}
	entries := k.bytes / 4
	switch {
	case 1<<k.bits <= entries:
		d.table = entries
	case 1<<k.bits == 2*entries && k.level == avx512:
		d.table = 2 * entries
	}
	for c := range k.cols {
		d.tables[c] = k.vecs(max(1, d.table/entries))
		if d.table == 0 {
			d.tables[c] = k.vecs(2)
		}
	}
	switch {
	case k.byBytes(): // which leaves no registers for them
		d.mask, d.one = data(codeMask, 0), data(codeOne, 0)
	case d.table == 0:
		d.mask, d.one = k.constant(maskOf(k.bits)), k.constant(oneOf(k.bits))
	}
	return d
}

// maskOf is where multiply has a code in a float's mantissa, oneOf the power of two that it is added to.
func maskOf(bits int) uint32 { return uint32(1<<bits-1) << (23 - bits) }
func oneOf(bits int) uint32  { return uint32(127+bits) << 23 }

// rescale makes the table of a column for the scale at m.
func (d *decoder) rescale(col int, m operand.Mem) {
	k, t := d.k, d.tables[col]
	k.VBROADCASTSS(m, t[0])
	if d.table == 0 {
		// 2^bits + 2^(bits-1), times the scale: what is too much in weights.
		bias := k.constant(math.Float32bits(float32(int(3) << (k.bits - 1))))
		k.VMULPS(bias, t[0], t[1])
		return
	}
	for i := len(t) - 1; i >= 0; i-- {
		k.VMULPS(data(offsets(k.bits), i*k.bytes), t[0], t[i])
	}
	for _, v := range t {
		k.round(v)
	}
}

// planeBytes returns the bytes of a lane's codes in the low and the high plane.
func planeBytes(bits int) (low, high int) {
	low = 4
	if bits < 4 {
		low = 2
	}
	return low, bits - low
}

// place returns where the code of a slot is: in the low or high word, and how
// far up.
func place(bits, slot int) (high bool, shift int) {
	if bits < 4 || slot < 32/bits {
		return false, bits * slot
	}
	return true, bits * (slot - 32/bits)
}

// open loads the words of a column's chunk, where registers are many enough to
// hold them: as one vector, without high word for widths that need none.
func (d *decoder) open(col, at int) {
	k := d.k
	if k.level == avx2 && d.table == 0 {
		return
	}
	words := make([]reg.VecVirtual, 0, 4)
	for part := range k.parts {
		words = append(words, d.lowWord(at, part))
	}
	if high, _ := place(k.bits, 7); high {
		for part := range k.parts {
			words = append(words, d.highWord(at, part, words[part]))
		}
	}
	d.held[col] = words
}

// lowWord loads the vector of low words of a column's chunk.
func (d *decoder) lowWord(col, part int) reg.VecVirtual {
	k, v := d.k, d.k.vec()
	low, high := planeBytes(k.bits)
	base := col * lanes * k.bits
	d.plane(base+part*8*low, low, v)
	if k.bits == 3 {
		t := k.vec()
		d.plane(base+lanes*low+part*8*high, high, t)
		k.VPSLLD(operand.Imm(16), t, t)
		k.or(t, v)
	}
	return v
}

// highWord loads the vector of what follows in the high plane; codes that begin
// in the low word's last two bits begin with them.
func (d *decoder) highWord(col, part int, lowWord reg.VecVirtual) reg.VecVirtual {
	k, v := d.k, d.k.vec()
	low, high := planeBytes(k.bits)
	d.plane(col*lanes*k.bits+lanes*low+part*8*high, high, v)
	if k.bits == 8 {
		return v
	}
	t := k.vec()
	k.VPSLLD(operand.Imm(2), v, v)
	k.VPSRLD(operand.Imm(30), lowWord, t)
	k.or(t, v)
	return v
}

func (k *packedKernel) or(from, to reg.VecVirtual) {
	if k.level == avx512 {
		k.VPORD(from, to, to)
	} else {
		k.VPOR(from, to, to)
	}
}

// plane loads elements of 1, 2 or 4 bytes, widened to 4.
func (d *decoder) plane(disp, size int, v reg.VecVirtual) {
	m := at(d.k.codes, disp)
	switch {
	case size == 1:
		d.k.VPMOVZXBD(m, v)
	case size == 2:
		d.k.VPMOVZXWD(m, v)
	case d.k.level == avx512:
		d.k.VMOVDQU32(m, v)
	default:
		d.k.VMOVDQU(m, v)
	}
}

// weights returns the weights of a slot: one vector of rows, or a part of it.
func (d *decoder) weights(slot, col, at, part int) reg.VecVirtual {
	k, w := d.k, d.k.vec()
	high, shift := place(k.bits, slot)
	var word reg.VecVirtual
	switch held := d.held[col]; {
	case held != nil && high:
		word = held[k.parts+part]
	case held != nil:
		word = held[part]
	case high:
		word = d.highWord(at, part, d.lowWord(at, part))
	default:
		word = d.lowWord(at, part)
	}
	t := d.tables[col]
	switch d.table {
	case 0:
		d.multiply(word, shift, t, w)
	case k.bytes / 4:
		if shift > 0 {
			k.VPSRLD(operand.Imm(uint64(shift)), word, w)
			word = w
		}
		k.VPERMPS(t[0], word, w)
	default:
		k.VPSRLD(operand.Imm(uint64(shift)), word, w)
		k.VPERMI2PS(t[1], t[0], w)
	}
	return w
}

// multiply computes code·scale - bias with the code in the mantissa of
// 2^bits + code: exact until it is rounded to fp16.
func (d *decoder) multiply(word reg.VecVirtual, shift int, t []reg.VecVirtual, w reg.VecVirtual) {
	k := d.k
	if up := 23 - k.bits - shift; up >= 0 {
		k.VPSLLD(operand.Imm(uint64(up)), word, w)
	} else {
		k.VPSRLD(operand.Imm(uint64(-up)), word, w)
	}
	if k.level == avx512 {
		const orAnd = 0xea // (a & b) | c
		k.VPTERNLOGD(operand.U8(orAnd), d.one, d.mask, w)
	} else {
		k.VPAND(d.mask, w, w)
		k.VPOR(d.one, w, w)
	}
	k.VFMSUB213PS(t[1], t[0], w)
	k.round(w)
}
