package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// A level is an instruction set: AVX2 with FMA and F16C, or AVX-512.
type level struct {
	name  string // suffix of the routines' names
	bytes int    // of a vector register
}

var (
	avx2   = level{"AVX2", 32}
	avx512 = level{"AVX512", 64}
	levels = []level{avx2, avx512}
)

// An assembly is one file in the making.
type assembly struct {
	*build.Context
	level
	labels int
}

func newAssembly() *assembly { return &assembly{Context: build.NewContext()} }

// routine begins a routine; doc is the rest of the sentence that its name begins.
func (a *assembly) routine(l level, name, signature, doc string) {
	a.level, a.labels = l, 0
	a.Function(name + l.name)
	a.Attributes(attr.NOSPLIT)
	a.Pragma("noescape")
	a.SignatureExpr(signature)
	a.Doc(name + l.name + " " + doc)
}

// end leaves the upper halves of registers clean and returns.
func (a *assembly) end() {
	a.VZEROUPPER()
	a.RET()
}

// pointer loads a pointer or integer argument.
func (a *assembly) pointer(name string) reg.GPVirtual {
	r := a.GP64()
	a.Load(a.Param(name), r)
	return r
}

// argument is the memory of an argument; loading a float by avo's Load would
// mix legacy SSE into AVX code.
func (a *assembly) argument(name string) operand.Mem {
	b, err := a.Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return b.Addr
}

// vec allocates a vector register of the level's width.
func (a *assembly) vec() reg.VecVirtual {
	if a.bytes == 64 {
		return a.ZMM()
	}
	return a.YMM()
}

// vecs allocates n vector registers.
func (a *assembly) vecs(n int) []reg.VecVirtual {
	v := make([]reg.VecVirtual, n)
	for i := range v {
		v[i] = a.vec()
	}
	return v
}

// zero clears vector registers.
func (a *assembly) zero(vs ...reg.VecVirtual) {
	for _, v := range vs {
		if a.bytes == 64 {
			a.VPXORD(v, v, v)
		} else {
			a.VPXOR(v, v, v)
		}
	}
}

// fresh returns a label that the routine has not used yet.
func (a *assembly) fresh(name string) string {
	a.labels++
	return fmt.Sprintf("%s%d", name, a.labels)
}

// loop repeats body n times, n a register that it counts down to zero; none at
// all if n is zero.
func (a *assembly) loop(n reg.GPVirtual, body func()) {
	top, out := a.fresh("loop"), a.fresh("done")
	a.TESTQ(n, n)
	a.JZ(operand.LabelRef(out))
	a.Label(top)
	body()
	a.DECQ(n)
	a.JNZ(operand.LabelRef(top))
	a.Label(out)
}

// at is the memory at a displacement from a base register.
func at(base reg.GPVirtual, disp int) operand.Mem { return operand.Mem{Base: base, Disp: disp} }

// constant returns a register with the same bits in all its 32-bit elements.
func (a *assembly) constant(bits uint32) reg.VecVirtual {
	r, x, v := a.GP32(), a.XMM(), a.vec()
	a.MOVL(operand.U32(bits), r)
	a.VMOVD(r, x)
	a.VPBROADCASTD(x, v)
	return v
}

// round rounds the floats in v to fp16.
func (a *assembly) round(v reg.VecVirtual) {
	var h reg.VecVirtual = a.XMM()
	if a.level == avx512 {
		h = a.YMM()
	}
	a.VCVTPS2PH(operand.Imm(nearestEven), v, h)
	a.VCVTPH2PS(h, v)
}

// table emits read-only data.
func (a *assembly) table(name string, elements ...uint32) {
	a.StaticGlobal(name)
	a.DataAttributes(attr.RODATA | attr.NOPTR)
	for _, e := range elements {
		a.AppendDatum(operand.U32(e))
	}
}

// data is the memory of a table from a displacement on.
func data(table string, disp int) operand.Mem {
	return operand.NewDataAddr(operand.Symbol{Name: table, Static: true}, disp)
}
