package main

import (
	"strconv"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// emitGemm emits the micro-kernels of matrix products: a tile of C stays in
// registers while panels of A and B stream by. The tile is as high as the
// registers allow with two vectors of B beside it.
func emitGemm(a *assembly) {
	for _, l := range levels {
		height := 6
		if l == avx512 {
			height = 12
		}
		emitTile(a, l, single, height)
		emitTile(a, l, double, height)
	}
}

// A precision selects instructions by element type.
type precision struct {
	name string
	typ  string
	size int
}

var (
	single = precision{"gemm32", "float32", 4}
	double = precision{"gemm64", "float64", 8}
)

func (a *assembly) load(p precision, ops ...operand.Op) {
	if p == single {
		a.VMOVUPS(ops...)
	} else {
		a.VMOVUPD(ops...)
	}
}

func (a *assembly) broadcast(p precision, ops ...operand.Op) {
	if p == single {
		a.VBROADCASTSS(ops...)
	} else {
		a.VBROADCASTSD(ops...)
	}
}

func (a *assembly) mul(p precision, ops ...operand.Op) {
	if p == single {
		a.VMULPS(ops...)
	} else {
		a.VMULPD(ops...)
	}
}

func (a *assembly) fma231(p precision, ops ...operand.Op) {
	if p == single {
		a.VFMADD231PS(ops...)
	} else {
		a.VFMADD231PD(ops...)
	}
}

// emitTile emits c = alpha·(a·b) + beta·c for a tile of height rows and two
// vectors of columns.
func emitTile(a *assembly, l level, p precision, height int) {
	a.routine(l, p.name, "func(k int, a, b, c *"+p.typ+", ldc int, alpha, beta "+p.typ+")",
		"is gemmTile on a tile of "+tileName(l, p, height)+".")
	n, pa, pb := a.pointer("k"), a.pointer("a"), a.pointer("b")
	acc := a.vecs(2 * height)
	a.zero(acc...)
	b := a.vecs(2)
	step := func(k int) {
		a.load(p, at(pb, k*2*l.bytes), b[0])
		a.load(p, at(pb, k*2*l.bytes+l.bytes), b[1])
		for i := range height {
			x := a.vec()
			a.broadcast(p, at(pa, (k*height+i)*p.size), x)
			a.fma231(p, b[0], x, acc[2*i])
			a.fma231(p, b[1], x, acc[2*i+1])
		}
	}
	emitPrefetch(a, p, height)
	const unroll = 4
	quads := a.GP64()
	a.MOVQ(n, quads)
	a.SHRQ(operand.Imm(2), quads)
	a.ANDQ(operand.Imm(unroll-1), n)
	a.loop(quads, func() {
		for k := range unroll {
			step(k)
		}
		a.ADDQ(operand.U32(unroll*height*p.size), pa)
		a.ADDQ(operand.U32(unroll*2*l.bytes), pb)
	})
	a.loop(n, func() {
		step(0)
		a.ADDQ(operand.U32(height*p.size), pa)
		a.ADDQ(operand.U32(2*l.bytes), pb)
	})
	emitUpdate(a, p, acc)
	a.end()
}

// emitPrefetch brings the tile of C near while the sums are made.
func emitPrefetch(a *assembly, p precision, height int) {
	c, ldc := a.pointer("c"), a.pointer("ldc")
	a.SHLQ(operand.Imm(uint64(p.size/4+1)), ldc)
	for range height {
		for line := 0; line < 2*a.bytes; line += 64 {
			a.PREFETCHT0(at(c, line))
		}
		a.ADDQ(ldc, c)
	}
}

// emitUpdate stores alpha·acc + beta·c in c, which is not read if beta is zero.
func emitUpdate(a *assembly, p precision, acc []reg.VecVirtual) {
	c, ldc := a.pointer("c"), a.pointer("ldc")
	a.SHLQ(operand.Imm(uint64(p.size/4+1)), ldc)
	alpha, beta, bits := a.vec(), a.vec(), a.GP64()
	a.broadcast(p, a.argument("alpha"), alpha)
	if p == single {
		a.MOVL(a.argument("beta"), bits.As32())
	} else {
		a.MOVQ(a.argument("beta"), bits)
	}
	a.SHLQ(operand.Imm(uint64(65-8*p.size)), bits) // without the sign
	a.JZ(operand.LabelRef("overwrite"))
	a.broadcast(p, a.argument("beta"), beta)
	for i := 0; i < len(acc); i += 2 {
		for j := range 2 {
			old := a.vec()
			a.mul(p, at(c, j*a.bytes), beta, old)
			a.fma231(p, acc[i+j], alpha, old)
			a.load(p, old, at(c, j*a.bytes))
		}
		a.ADDQ(ldc, c)
	}
	a.JMP(operand.LabelRef("stored"))
	a.Label("overwrite")
	for i := 0; i < len(acc); i += 2 {
		for j := range 2 {
			a.mul(p, alpha, acc[i+j], acc[i+j])
			a.load(p, acc[i+j], at(c, j*a.bytes))
		}
		a.ADDQ(ldc, c)
	}
	a.Label("stored")
}

func tileName(l level, p precision, height int) string {
	return strconv.Itoa(height) + " rows and " + strconv.Itoa(2*l.bytes/p.size) + " columns"
}
