package main

import (
	"strconv"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// emitPack emits what brings operands of matrix products into panels. The
// routines serve both levels: with registers of 32 bytes few rows are read at a
// time, so that rows a power of two apart, which compete for the same lines of
// the first-level cache, all find room there.
func emitPack(a *assembly) {
	for _, rows := range []int{8, 4, 2} {
		emitTranspose(a, single, rows)
	}
	for _, rows := range []int{4, 2} {
		emitTranspose(a, double, rows)
	}
	for _, bytes := range []int{24, 48, 64, 96, 128} {
		emitCopyRuns(a, bytes)
	}
}

// laneBytes is the part of a register within which elements are moved cheaply.
const laneBytes = 16

// emitTranspose emits the transposition of some rows: as many columns at a time
// as a lane holds.
func emitTranspose(a *assembly, p precision, rows int) {
	a.routine(avx2, "transpose"+strconv.Itoa(8*p.size)+"x"+strconv.Itoa(rows), "func(dst *"+p.typ+", to int, src *"+p.typ+", from, n int)",
		"is dst[j·to+i] = src[i·from+j] for "+strconv.Itoa(rows)+" rows i and n columns j, a positive multiple of 4.")
	dst, to, src, from, n := a.pointer("dst"), a.pointer("to"), a.pointer("src"), a.pointer("from"), a.pointer("n")
	cols := laneBytes / p.size
	for _, step := range []reg.GPVirtual{to, from} {
		a.SHLQ(operand.Imm(uint64(p.size/4+1)), step)
	}
	a.SHRQ(operand.Imm(uint64(cols/2)), n)
	in, out := a.rowsFrom(src, from, rows), a.rowsFrom(dst, to, cols)
	a.loop(n, func() {
		v := a.loadLanes(in, rows, cols)
		switch {
		case p == double:
			a.turnPairs(v, out)
		case rows == 2:
			a.turnHalves(v, out)
		default:
			a.turnQuads(v, out)
		}
		for _, b := range in.bases {
			a.ADDQ(operand.Imm(laneBytes), b)
		}
		a.LEAQ(operand.Mem{Base: dst, Index: to, Scale: uint8(cols)}, dst)
	})
	a.end()
}

// A rowSet addresses rows that are step bytes apart, four of them from a base.
type rowSet struct {
	bases       []reg.GPVirtual
	step, step3 reg.GPVirtual
}

func (a *assembly) rowsFrom(base, step reg.GPVirtual, rows int) rowSet {
	s := rowSet{[]reg.GPVirtual{base}, step, a.GP64()}
	a.LEAQ(operand.Mem{Base: step, Index: step, Scale: 2}, s.step3)
	for i := 4; i < rows; i += 4 {
		next := a.GP64()
		a.LEAQ(operand.Mem{Base: s.bases[i/4-1], Index: step, Scale: 4}, next)
		s.bases = append(s.bases, next)
	}
	return s
}

func (s rowSet) row(i int) operand.Mem {
	m := operand.Mem{Base: s.bases[i/4]}
	switch i % 4 {
	case 1, 2:
		m.Index, m.Scale = s.step, uint8(i%4)
	case 3:
		m.Index, m.Scale = s.step3, 1
	}
	return m
}

// loadLanes loads a lane of each row. A register holds those of rows i and
// i + cols, if there are so many.
func (a *assembly) loadLanes(in rowSet, rows, cols int) []reg.VecVirtual {
	v := make([]reg.VecVirtual, min(rows, cols))
	for i := range v {
		x := a.XMM()
		a.VMOVUPS(in.row(i), x)
		if v[i] = x; rows > cols {
			v[i] = a.YMM()
			a.VINSERTF128(operand.Imm(1), in.row(i+cols), x.AsY(), v[i])
		}
	}
	return v
}

// like allocates a register of the same width.
func (a *assembly) like(v reg.VecVirtual) reg.VecVirtual {
	if v.Size() == laneBytes {
		return a.XMM()
	}
	return a.YMM()
}

// turnPairs transposes lanes of two elements and stores the columns.
func (a *assembly) turnPairs(v []reg.VecVirtual, out rowSet) {
	low, high := a.like(v[0]), a.like(v[0])
	a.VUNPCKLPD(v[1], v[0], low)
	a.VUNPCKHPD(v[1], v[0], high)
	a.VMOVUPD(low, out.row(0))
	a.VMOVUPD(high, out.row(1))
}

// turnHalves transposes lanes of four elements, of two rows.
func (a *assembly) turnHalves(v []reg.VecVirtual, out rowSet) {
	low, high := a.XMM(), a.XMM()
	a.VUNPCKLPS(v[1], v[0], low)
	a.VUNPCKHPS(v[1], v[0], high)
	for i, x := range []reg.VecVirtual{low, high} {
		a.VMOVLPS(x, out.row(2*i))
		a.VMOVHPS(x, out.row(2*i+1))
	}
}

// turnQuads transposes lanes of four elements.
func (a *assembly) turnQuads(v []reg.VecVirtual, out rowSet) {
	for half := range 2 {
		top, bottom, first, second := a.like(v[0]), a.like(v[0]), a.like(v[0]), a.like(v[0])
		if half == 0 {
			a.VUNPCKLPS(v[1], v[0], top)
			a.VUNPCKLPS(v[3], v[2], bottom)
		} else {
			a.VUNPCKHPS(v[1], v[0], top)
			a.VUNPCKHPS(v[3], v[2], bottom)
		}
		a.VUNPCKLPD(bottom, top, first)
		a.VUNPCKHPD(bottom, top, second)
		a.VMOVUPS(first, out.row(2*half))
		a.VMOVUPS(second, out.row(2*half+1))
	}
}

// emitCopyRuns emits the gathering of short runs of bytes.
func emitCopyRuns(a *assembly, bytes int) {
	a.routine(avx2, "copyRuns"+strconv.Itoa(bytes), "func(dst, src *byte, step, n int)",
		"copies n runs of "+strconv.Itoa(bytes)+" bytes, step bytes apart, to lie together.")
	dst, src, step, n := a.pointer("dst"), a.pointer("src"), a.pointer("step"), a.pointer("n")
	a.loop(n, func() {
		for at := 0; at < bytes; {
			at += a.copyPart(dst, src, at, bytes-at)
		}
		a.ADDQ(step, src)
		a.ADDQ(operand.U32(bytes), dst)
	})
	a.end()
}

// copyPart copies as many bytes as one register takes and returns their number.
func (a *assembly) copyPart(dst, src reg.GPVirtual, disp, left int) int {
	switch {
	case left >= 32:
		v := a.YMM()
		a.VMOVUPS(at(src, disp), v)
		a.VMOVUPS(v, at(dst, disp))
		return 32
	case left >= 16:
		v := a.XMM()
		a.VMOVUPS(at(src, disp), v)
		a.VMOVUPS(v, at(dst, disp))
		return 16
	default:
		v := a.GP64()
		a.MOVQ(at(src, disp), v)
		a.MOVQ(v, at(dst, disp))
		return 8
	}
}
