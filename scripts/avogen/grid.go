package main

import (
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// emitGrid emits the quantizer's routines. They decide what is written to
// files, so they use no fused operations: the Go fallbacks round at the same places.
func emitGrid(a *assembly) {
	a.table("byteOrder", 0, 4, 1, 5, 2, 6, 3, 7) // see storeBytes
	for _, l := range levels {
		emitGridErrors(a, l)
		emitGridQuantize(a, l)
		emitGridDescend(a, l)
		emitSubtractOuter(a, l)
	}
}

// rounder is 1.5·2²³: adding it to a small number leaves no bits for fractions.
const rounder = 0x4b400000

// A gridKernel holds what all columns share: the bounds of codes less 2^(bits-1).
type gridKernel struct {
	*assembly
	zero, low, high, rounder reg.VecVirtual
}

func newGridKernel(a *assembly) *gridKernel {
	k := &gridKernel{a, a.vec(), a.vec(), a.vec(), a.constant(rounder)}
	a.VBROADCASTSS(a.argument("zero"), k.zero)
	one := a.constant(0x3f800000)
	a.zero(k.low)
	a.VSUBPS(k.zero, k.low, k.low)
	a.VSUBPS(one, k.zero, k.high)
	return k
}

// nearest replaces v by the nearest whole number within the bounds. What is not
// a number becomes the lower bound, the second operand of the maximum.
func (k *gridKernel) nearest(v reg.VecVirtual) {
	k.VMAXPS(k.low, v, v)
	k.VMINPS(k.high, v, v)
	k.VADDPS(k.rounder, v, v)
	k.VSUBPS(k.rounder, v, v)
}

// columns emits a loop over blocks of width columns; body is given the column.
func (a *assembly) columns(width int, body func(c reg.GPVirtual)) {
	n, c, top := a.pointer("cols"), a.GP64(), a.fresh("columns")
	a.XORQ(c, c)
	a.Label(top)
	body(c)
	a.ADDQ(operand.Imm(uint64(width)), c)
	a.CMPQ(c, n)
	a.JLT(operand.LabelRef(top))
}

// float is element disp after c of an array of floats.
func float(base, c reg.GPVirtual, disp int) operand.Mem {
	return operand.Mem{Base: base, Index: c, Scale: 4, Disp: 4 * disp}
}

// emitGridErrors emits the weighted squared errors of columns. Two vectors of
// columns are summed at a time.
func emitGridErrors(a *assembly, l level) {
	a.routine(l, "gridErrors", "func(err, w *float32, stride int, importance *float32, rows int, scale, inv *float32, zero float32, cols int)",
		"is Grid.Errors for cols columns, a positive multiple of 32.")
	k := newGridKernel(a)
	out, w, stride, importance := a.pointer("err"), a.pointer("w"), a.pointer("stride"), a.pointer("importance")
	scale, inv := a.pointer("scale"), a.pointer("inv")
	a.SHLQ(operand.Imm(2), stride)
	const pair = 2
	lanes := l.bytes / 4
	a.columns(pair*lanes, func(c reg.GPVirtual) {
		sums, scales, invs := a.vecs(pair), a.vecs(pair), a.vecs(pair)
		a.zero(sums...)
		for i := range pair {
			a.VMOVUPS(float(scale, c, i*lanes), scales[i])
			a.VMOVUPS(float(inv, c, i*lanes), invs[i])
		}
		row, weight, rows := a.GP64(), a.GP64(), a.pointer("rows")
		a.MOVQ(w, row)
		a.MOVQ(importance, weight)
		a.loop(rows, func() {
			m := a.vec()
			a.VBROADCASTSS(at(weight, 0), m)
			for i := range pair {
				v, q := a.vec(), a.vec()
				a.VMOVUPS(float(row, c, i*lanes), v)
				a.VMULPS(invs[i], v, q)
				k.nearest(q)
				a.VMULPS(scales[i], q, q)
				a.VSUBPS(q, v, v)
				a.VMULPS(v, m, q)
				a.VMULPS(v, q, q)
				a.VADDPS(q, sums[i], sums[i])
			}
			a.ADDQ(stride, row)
			a.ADDQ(operand.Imm(4), weight)
		})
		for i := range pair {
			a.VMOVUPS(sums[i], float(out, c, i*lanes))
		}
	})
	a.end()
}

// emitGridQuantize emits the quantization of a row.
func emitGridQuantize(a *assembly, l level) {
	a.routine(l, "gridQuantize", "func(codes *uint8, e, w, scale, inv *float32, rinv, zero float32, cols int)",
		"is Grid.Quantize for cols columns, a positive multiple of 32.")
	k := newGridKernel(a)
	codes, e, w, scale, inv := a.pointer("codes"), a.pointer("e"), a.pointer("w"), a.pointer("scale"), a.pointer("inv")
	rinv := a.vec()
	a.VBROADCASTSS(a.argument("rinv"), rinv)
	k.eachBlock(codes, func(c reg.GPVirtual, i int) (q reg.VecVirtual) {
		v, value := a.vec(), a.vec()
		q = a.vec()
		a.VMOVUPS(float(w, c, i), v)
		a.VMULPS(float(inv, c, i), v, q)
		k.nearest(q)
		a.VMULPS(float(scale, c, i), q, value)
		a.round(value)
		a.VSUBPS(value, v, v)
		a.VMULPS(rinv, v, v)
		a.VMOVUPS(v, float(e, c, i))
		return q
	})
	a.end()
}

// emitGridDescend emits the change of a row's codes against what is left of it.
func emitGridDescend(a *assembly, l level) {
	a.routine(l, "gridDescend", "func(codes *uint8, rest, scale, inv *float32, step, zero float32, cols int)",
		"is Grid.Descend for cols columns, a positive multiple of 32.")
	k := newGridKernel(a)
	codes, rest, scale, inv := a.pointer("codes"), a.pointer("rest"), a.pointer("scale"), a.pointer("inv")
	step := a.vec()
	a.VBROADCASTSS(a.argument("step"), step)
	k.eachBlock(codes, func(c reg.GPVirtual, i int) (q reg.VecVirtual) {
		old, value := a.vec(), a.vec()
		q = a.vec()
		a.VPMOVZXBD(operand.Mem{Base: codes, Index: c, Scale: 1, Disp: i}, old)
		a.VCVTDQ2PS(old, old)
		a.VSUBPS(k.zero, old, old)
		a.VMULPS(float(scale, c, i), old, old)
		a.round(old)
		a.VMULPS(float(rest, c, i), step, q)
		a.VADDPS(q, old, q)
		a.VMULPS(float(inv, c, i), q, q)
		k.nearest(q)
		a.VMULPS(float(scale, c, i), q, value)
		a.round(value)
		a.VSUBPS(old, value, value)
		a.VMOVUPS(value, float(rest, c, i))
		return q
	})
	a.end()
}

// eachBlock emits a loop over blocks of 32 columns: one computes the codes, less
// 2^(bits-1), of a vector of columns; they are stored together.
func (k *gridKernel) eachBlock(codes reg.GPVirtual, one func(c reg.GPVirtual, i int) reg.VecVirtual) {
	k.columns(block, func(c reg.GPVirtual) {
		step := k.bytes / 4
		qs := make([]reg.VecVirtual, 0, 4)
		for i := 0; i < block; i += step {
			q := one(c, i)
			k.VADDPS(k.zero, q, q)
			k.VCVTPS2DQ(q, q)
			to := operand.Mem{Base: codes, Index: c, Scale: 1, Disp: i}
			if k.level == avx512 {
				k.VPMOVDB(q, to)
			}
			qs = append(qs, q)
		}
		if k.level == avx2 {
			k.storeBytes(qs, operand.Mem{Base: codes, Index: c, Scale: 1})
		}
	})
}

// storeBytes narrows four vectors of eight integers to bytes, in order: packing
// works within halves of registers, so the quarters are put in place at the end.
func (a *assembly) storeBytes(q []reg.VecVirtual, to operand.Mem) {
	order := a.vec()
	a.VPACKSSDW(q[1], q[0], q[0])
	a.VPACKSSDW(q[3], q[2], q[2])
	a.VPACKUSWB(q[2], q[0], q[0])
	a.VMOVDQU(data("byteOrder", 0), order)
	a.VPERMD(q[0], order, q[0])
	a.VMOVDQU(q[0], to)
}

// emitSubtractOuter emits w[j] -= u[j]·e; a block of e stays in registers.
func emitSubtractOuter(a *assembly, l level) {
	a.routine(l, "subtractOuter", "func(w *float32, stride int, u *float32, rows int, e *float32, cols int)",
		"is SubtractOuter for cols columns, a positive multiple of 32.")
	w, stride, u, e := a.pointer("w"), a.pointer("stride"), a.pointer("u"), a.pointer("e")
	a.SHLQ(operand.Imm(2), stride)
	lanes := l.bytes / 4
	a.columns(block, func(c reg.GPVirtual) {
		es := a.vecs(block / lanes)
		for i, v := range es {
			a.VMOVUPS(float(e, c, i*lanes), v)
		}
		a.scaledRows(w, stride, u, func(row reg.GPVirtual, f reg.VecVirtual) {
			for i, v := range es {
				p, old := a.vec(), a.vec()
				a.VMULPS(v, f, p)
				a.VMOVUPS(float(row, c, i*lanes), old)
				a.VSUBPS(p, old, old)
				a.VMOVUPS(old, float(row, c, i*lanes))
			}
		})
	})
	a.end()
}
