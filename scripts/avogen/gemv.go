package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// emitGemv emits products of rows of weights with a vector. A row is summed in
// 32 lanes whatever the width of registers, so that all levels agree.
func emitGemv(a *assembly) {
	for _, l := range levels {
		a.gemv(l, "F16", "uint16", 2, func(from operand.Mem, w reg.VecVirtual) { a.VCVTPH2PS(from, w) })
		a.gemv(l, "BF16", "uint16", 2, func(from operand.Mem, w reg.VecVirtual) {
			a.VPMOVZXWD(from, w)
			a.VPSLLD(operand.Imm(16), w, w)
		})
		a.gemv(l, "F32", "float32", 4, func(from operand.Mem, w reg.VecVirtual) { a.VMOVUPS(from, w) })
		a.gemvT(l)
	}
}

// gemvT emits y[c] += Σ x[j]·w[j·stride + c]. A block of y stays in registers.
func (a *assembly) gemvT(l level) {
	a.routine(l, "gemvT", "func(y, x, w *float32, stride, rows, cols int)", "is GemvT for cols columns, a positive multiple of 32.")
	y, x, w, stride := a.pointer("y"), a.pointer("x"), a.pointer("w"), a.pointer("stride")
	a.SHLQ(operand.Imm(2), stride)
	lanes := l.bytes / 4
	a.columns(block, func(c reg.GPVirtual) {
		sums := a.vecs(block / lanes)
		for i, v := range sums {
			a.VMOVUPS(float(y, c, i*lanes), v)
		}
		a.scaledRows(w, stride, x, func(row reg.GPVirtual, f reg.VecVirtual) {
			for i, v := range sums {
				p := a.vec()
				a.VMULPS(float(row, c, i*lanes), f, p)
				a.VADDPS(p, v, v)
			}
		})
		for i, v := range sums {
			a.VMOVUPS(v, float(y, c, i*lanes))
		}
	})
	a.end()
}

// scaledRows emits a loop over the argument rows: body has where a row of w begins, and
// its factor in all lanes. Rows are stride bytes apart, factors follow each other.
func (a *assembly) scaledRows(w, stride, factors reg.GPVirtual, body func(row reg.GPVirtual, f reg.VecVirtual)) {
	row, factor, rows := a.GP64(), a.GP64(), a.pointer("rows")
	a.MOVQ(w, row)
	a.MOVQ(factors, factor)
	a.loop(rows, func() {
		f := a.vec()
		a.VBROADCASTSS(at(factor, 0), f)
		body(row, f)
		a.ADDQ(stride, row)
		a.ADDQ(operand.Imm(4), factor)
	})
}

// ahead is how many bytes before their use weights are asked for: the hardware
// does not look across pages.
const ahead = 2048

// gemv emits y[j] += Σ x[i]·w[j·stride + i]; load widens a vector of weights.
func (a *assembly) gemv(l level, name, typ string, size int, load func(from operand.Mem, w reg.VecVirtual)) {
	a.routine(l, "gemv"+name, "func(y, x *float32, w *"+typ+", stride, n, rows int)",
		"adds to rows elements of y; n is a positive multiple of 32.")
	y, x, w := a.pointer("y"), a.pointer("x"), a.pointer("w")
	stride, n, rows := a.pointer("stride"), a.pointer("n"), a.pointer("rows")
	a.SHLQ(operand.Imm(uint64(size/2)), stride)
	a.loop(rows, func() {
		acc := a.vecs(block * 4 / l.bytes)
		a.zero(acc...)
		i := a.GP64()
		a.XORQ(i, i)
		top := a.fresh("row")
		a.Label(top)
		for disp := 0; disp < block*size; disp += 64 {
			a.PREFETCHT0(operand.Mem{Base: w, Index: i, Scale: uint8(size), Disp: ahead + disp})
		}
		for k, sum := range acc {
			v := a.vec()
			load(operand.Mem{Base: w, Index: i, Scale: uint8(size), Disp: k * l.bytes / 4 * size}, v)
			a.VFMADD231PS(operand.Mem{Base: x, Index: i, Scale: 4, Disp: k * l.bytes}, v, sum)
		}
		a.ADDQ(operand.Imm(block), i)
		a.CMPQ(i, n)
		a.JLT(operand.LabelRef(top))
		for h := len(acc) / 2; h*l.bytes/4 >= 16; h /= 2 {
			for k := range h {
				a.VADDPS(acc[k+h], acc[k], acc[k])
			}
		}
		a.addTo(at(y, 0), acc[:16*4/l.bytes])
		a.ADDQ(operand.Imm(4), y)
		a.ADDQ(stride, w)
	})
	a.end()
}

// addTo adds the sum of 16 lanes to a float in memory, halving the lanes.
func (a *assembly) addTo(m operand.Mem, lanes []reg.VecVirtual) {
	low, high := lanes[0].AsY(), a.YMM()
	if len(lanes) == 1 {
		a.VEXTRACTF64X4(operand.Imm(1), lanes[0], high)
	} else {
		high = lanes[1].AsY().(reg.VecVirtual)
	}
	sum := a.YMM()
	a.VADDPS(high, low, sum)
	x, t := a.XMM(), a.XMM()
	a.VEXTRACTF128(operand.Imm(1), sum, t)
	a.VADDPS(t, sum.AsX(), x)
	a.VMOVHLPS(x, x, t)
	a.VADDPS(t, x, x)
	a.VMOVSHDUP(x, t)
	a.VADDSS(t, x, x)
	a.VADDSS(m, x, x)
	a.VMOVSS(x, m)
}
