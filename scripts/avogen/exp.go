package main

import (
	"math"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// emitExp emits exponentials and what is made of them.
func emitExp(a *assembly) {
	emitExpTables(a)
	for _, l := range levels {
		emitExpSum(a, l)
		emitMax(a, l)
		emitGate(a, l, "siluMul", func(k *expKernel, g reg.VecVirtual) reg.VecVirtual { return g })
		emitGate(a, l, "geluMul", (*expKernel).geluArgument)
	}
}

// expTerms is the degree of the polynomial: the next term of the series is at
// most (ln 2 / 2)⁸ / 8!, 5e-9.
const expTerms = 7

// An expKernel holds the constants of eˣ = 2ⁿ·eʳ, n = round(x/ln 2), |r| <= ln 2 / 2.
type expKernel struct {
	*assembly
	low, high  reg.VecVirtual // bounds of x: results are normal numbers between them
	inv        reg.VecVirtual // 1/ln 2
	rounder    reg.VecVirtual
	ln2, ln2lo reg.VecVirtual // ln 2 in two parts, the first of few bits
}

func newExpKernel(a *assembly) *expKernel {
	const upper = 355.0 / 512
	bits := func(f float64) uint32 { return math.Float32bits(float32(f)) }
	return &expKernel{
		assembly: a,
		low:      a.constant(bits(expLow)), high: a.constant(bits(expHigh)),
		inv: a.constant(bits(1 / math.Ln2)), rounder: a.constant(rounder),
		ln2: a.constant(bits(upper)), ln2lo: a.constant(bits(math.Ln2 - upper)),
	}
}

// The least x of a normal eˣ, 126·ln 2 below zero, and the greatest of a finite
// one, both as floats on the safe side.
const (
	expLow  = -87.336540
	expHigh = 88.722832
)

// exp returns eˣ: 0 below the lower bound, no more than at the upper one above
// it, NaN for NaN, which is the second operand of the minimum. x is spoiled.
func (k *expKernel) exp(x reg.VecVirtual) reg.VecVirtual {
	t, r, p := k.vec(), k.vec(), k.vec()
	k.VMINPS(x, k.high, x)
	k.VMOVAPS(k.rounder, t)
	k.VFMADD231PS(k.inv, x, t)
	n := k.vec()
	k.VSUBPS(k.rounder, t, n)
	k.VMOVAPS(x, r)
	k.VFNMADD231PS(k.ln2, n, r)
	k.VFNMADD231PS(k.ln2lo, n, r)
	k.VBROADCASTSS(data("expCoefficients", 4*expTerms), p)
	for i := expTerms - 1; i >= 0; i-- {
		c := k.vec()
		k.VBROADCASTSS(data("expCoefficients", 4*i), c)
		k.VFMADD213PS(c, r, p)
	}
	k.VPSLLD(operand.Imm(23), t, t) // what rounding added is n, in the lowest bits
	k.VPADDD(t, p, p)
	return k.zeroBelow(x, p)
}

// zeroBelow clears the elements of p where x is less than the lower bound.
func (k *expKernel) zeroBelow(x, p reg.VecVirtual) reg.VecVirtual {
	const notLess = 5 // unordered included
	if k.level == avx512 {
		m := k.K()
		k.VCMPPS(operand.Imm(notLess), k.low, x, m)
		k.VMOVAPS_Z(p, m, p)
		return p
	}
	m := k.vec()
	k.VCMPPS(operand.Imm(notLess), k.low, x, m)
	k.VANDPS(m, p, p)
	return p
}

// emitExpTables emits 1/i!, and the factors of geluArgument.
func emitExpTables(a *assembly) {
	inverses, f := make([]uint32, expTerms+1), 1.0
	for i := range inverses {
		f *= float64(max(i, 1))
		inverses[i] = math.Float32bits(float32(1 / f))
	}
	a.table("expCoefficients", inverses...)
	linear := 2 * math.Sqrt(2/math.Pi)
	a.table("geluFactors", math.Float32bits(float32(0.044715*linear)), math.Float32bits(float32(linear)))
}

// emitExpSum emits the numerators of a softmax and their sum in 16 lanes.
func emitExpSum(a *assembly, l level) {
	a.routine(l, "expSum", "func(sum, dst, src *float32, max float32, n int)", "is ExpSum of n elements, a positive multiple of 32, added to sum.")
	k := newExpKernel(a)
	dst, src, n := a.pointer("dst"), a.pointer("src"), a.pointer("n")
	largest := a.vec()
	a.VBROADCASTSS(a.argument("max"), largest)
	sums := a.vecs(64 / l.bytes)
	a.zero(sums...)
	a.SHRQ(operand.Imm(5), n)
	a.loop(n, func() {
		for i := range block * 4 / l.bytes {
			x := a.vec()
			a.VMOVUPS(at(src, i*l.bytes), x)
			a.VSUBPS(largest, x, x)
			e := k.exp(x)
			a.VMOVUPS(e, at(dst, i*l.bytes))
			s := sums[i%len(sums)]
			a.VADDPS(e, s, s)
		}
		a.ADDQ(operand.Imm(block*4), src)
		a.ADDQ(operand.Imm(block*4), dst)
	})
	a.addTo(at(a.pointer("sum"), 0), sums)
	a.end()
}

// emitMax emits the largest of some elements.
func emitMax(a *assembly, l level) {
	a.routine(l, "maximum", "func(max, x *float32, n int)", "is Max of n elements, a positive multiple of 32, and of *max.")
	x, n, to := a.pointer("x"), a.pointer("n"), a.pointer("max")
	tops := a.vecs(block * 4 / l.bytes)
	for _, v := range tops {
		a.VBROADCASTSS(at(to, 0), v)
	}
	a.SHRQ(operand.Imm(5), n)
	a.loop(n, func() {
		for i, v := range tops {
			a.VMAXPS(at(x, i*l.bytes), v, v)
		}
		a.ADDQ(operand.Imm(block*4), x)
	})
	for len(tops) > 1 {
		half := len(tops) / 2
		for i := range half {
			a.VMAXPS(tops[half+i], tops[i], tops[i])
		}
		tops = tops[:half]
	}
	a.VMOVSS(a.across(tops[0], a.VMAXPS), at(to, 0))
	a.end()
}

// emitGate emits dst = gate / (1 + e^-a(gate)) · up.
func emitGate(a *assembly, l level, name string, argument func(*expKernel, reg.VecVirtual) reg.VecVirtual) {
	a.routine(l, name, "func(dst, gate, up *float32, n int)", "computes n elements, a positive multiple of 32.")
	k := newExpKernel(a)
	dst, gate, up, n := a.pointer("dst"), a.pointer("gate"), a.pointer("up"), a.pointer("n")
	a.SHRQ(operand.Imm(5), n)
	a.loop(n, func() {
		for i := range block * 4 / l.bytes {
			g, x, one := a.vec(), a.vec(), a.vec()
			a.VMOVUPS(at(gate, i*l.bytes), g)
			a.zero(x)
			a.VSUBPS(argument(k, g), x, x)
			e := k.exp(x)
			a.VBROADCASTSS(data("expCoefficients", 0), one)
			a.VADDPS(one, e, e)
			a.VDIVPS(e, g, g)
			a.VMULPS(at(up, i*l.bytes), g, g)
			a.VMOVUPS(g, at(dst, i*l.bytes))
		}
		for _, p := range []reg.GPVirtual{dst, gate, up} {
			a.ADDQ(operand.Imm(block*4), p)
		}
	})
	a.end()
}

// geluArgument returns 2·√(2/π)·(g + 0.044715·g³): ½·(1 + tanh u) is 1/(1 + e^-2u).
func (k *expKernel) geluArgument(g reg.VecVirtual) reg.VecVirtual {
	s, c := k.vec(), k.vec()
	k.VMULPS(g, g, s)
	k.VBROADCASTSS(data("geluFactors", 0), c)
	k.VMULPS(c, s, s)
	k.VBROADCASTSS(data("geluFactors", 4), c)
	k.VADDPS(c, s, s)
	k.VMULPS(g, s, s)
	return s
}
