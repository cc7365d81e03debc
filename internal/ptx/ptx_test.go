package ptx

import (
	"encoding/binary"
	"math"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// kernel returns the kernel k of a body, whose parameter is an address, %a.
func kernel(t *testing.T, body string) *Kernel {
	t.Helper()
	m, err := Parse(`.version 8.8
.target sm_80
.address_size 64
.extern .shared .align 16 .b8 memory[]; // behind what is declared
.visible .entry k(
	.param .u64 k_param_0
)
.maxntid 64, 1, 1
{
	.reg .pred %p<8>;
	.reg .b16 %h<8>;
	.reg .f32 %f<8>;
	.reg .b32 %r<16>;
	.reg .b64 %a<8>;
	.shared .align 4 .b8 own[256];
	ld.param.u64 %a0, [k_param_0];
	mov.u32 %r0, %tid.x;
	mul.wide.u32 %a1, %r0, 4;
	add.s64 %a1, %a0, %a1;
` + body + "\n\tret;\n}\n")
	if err != nil {
		t.Fatal(err)
	}
	k, err := m.Kernel("k")
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// run runs a body by 64 threads and returns the words that it has stored.
func run(t *testing.T, body string, words []uint32) ([]uint32, error) {
	t.Helper()
	var m Memory
	p := m.Alloc(4 * len(words))
	b, _ := m.Bytes(p, 4*len(words))
	for i, w := range words {
		binary.LittleEndian.PutUint32(b[4*i:], w)
	}
	err := kernel(t, body).Run(&m, Launch{Grid: [3]int{1, 1, 1}, Threads: 64, Shared: 256, Params: binary.LittleEndian.AppendUint64(nil, p)})
	out := make([]uint32, len(words))
	for i := range out {
		out[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
	return out, err
}

func counting(n int) []uint32 {
	words := make([]uint32, n)
	for i := range words {
		words[i] = uint32(i)
	}
	return words
}

func TestRun(t *testing.T) {
	for _, c := range []struct {
		name, body string
		want       func(i uint32) uint32
	}{
		{"arithmetic", "ld.global.u32 %r1, [%a1]; mad.lo.s32 %r1, %r1, 3, -1; st.global.u32 [%a1], %r1;", func(i uint32) uint32 { return 3*i - 1 }},
		{"a loop, and a branch that threads take differently", `mov.u32 %r1, 0; mov.u32 %r2, 0;
$top:
	setp.ge.u32 %p1, %r1, %r0;
	@%p1 bra $out;
	add.s32 %r2, %r2, %r1; add.s32 %r1, %r1, 1;
	bra.uni $top;
$out:
	st.global.u32 [%a1], %r2;`, func(i uint32) uint32 { return i * (i - 1) / 2 }},
		{"a scope with names of its own", "{.reg .pred p; .reg .b32 t; and.b32 t, %r0, 1; setp.ne.u32 p, t, 0; @p st.global.u32 [%a1], 7;}", func(i uint32) uint32 {
			if i%2 == 1 {
				return 7
			}
			return i
		}},
		{"shared memory and a barrier", "shl.b32 %r1, %r0, 2; mov.u32 %r2, memory; add.s32 %r3, %r2, %r1; st.shared.u32 [%r3], %r0; bar.sync 0; sub.s32 %r4, %r2, %r1; ld.shared.u32 %r5, [%r4+252]; st.global.u32 [%a1], %r5;",
			func(i uint32) uint32 { return 63 - i }},
		{"a barrier at which one warp does not wait", `setp.ge.u32 %p1, %r0, 32; mov.u32 %r2, memory; and.b32 %r3, %r0, 31; shl.b32 %r3, %r3, 2; add.s32 %r3, %r2, %r3;
	@%p1 bra $leaves;
	barrier.sync 3, 64;
	ld.shared.u32 %r5, [%r3]; st.global.u32 [%a1], %r5;
	bra.uni $end;
$leaves:
	st.shared.u32 [%r3], %r0;
	barrier.arrive 3, 64;
$end:`, func(i uint32) uint32 { return i%32 + 32 }},
		{"generic addresses", "mov.u64 %a2, own; cvta.shared.u64 %a2, %a2; mul.wide.u32 %a3, %r0, 4; add.s64 %a2, %a2, %a3; st.u32 [%a2], 5; bar.sync 0; ld.u32 %r1, [%a2]; add.s32 %r1, %r1, %r0; st.u32 [%a1], %r1;",
			func(i uint32) uint32 { return i + 5 }},
		{"a shuffle", "shfl.sync.bfly.b32 %r1|%p1, %r0, 3, 31, -1; st.global.u32 [%a1], %r1;", func(i uint32) uint32 { return i ^ 3 }},
		{"a shuffle from below", "shfl.sync.up.b32 %r1|%p1, %r0, 1, 0, -1; selp.b32 %r1, %r1, 99, %p1; st.global.u32 [%a1], %r1;", func(i uint32) uint32 {
			if i%32 == 0 {
				return 99
			}
			return i - 1
		}},
		{"a vote", "and.b32 %r1, %r0, 3; setp.eq.s32 %p1, %r1, 0; vote.sync.ballot.b32 %r2, %p1, -1; st.global.u32 [%a1], %r2;", func(uint32) uint32 { return 0x11111111 }},
		{"a sum of a warp", "redux.sync.add.u32 %r1, %r0, -1; st.global.u32 [%a1], %r1;", func(i uint32) uint32 { return 31*16 + i/32*1024 }},
		{"one atomic counter", "atom.global.add.u32 %r1, [%a0], 0; @!%p0 bra $no; $no: st.global.u32 [%a1], %r0;", func(i uint32) uint32 { return i }},
		{"a copy that is waited for", "shl.b32 %r1, %r0, 2; mov.u32 %r2, memory; add.s32 %r2, %r2, %r1; cp.async.ca.shared.global [%r2], [%a1], 4; cp.async.commit_group; cp.async.wait_group 0; ld.shared.u32 %r3, [%r2]; add.s32 %r3, %r3, 1; st.global.u32 [%a1], %r3;",
			func(i uint32) uint32 { return i + 1 }},
		{"a copy that is not", "shl.b32 %r1, %r0, 2; mov.u32 %r2, memory; add.s32 %r2, %r2, %r1; cp.async.ca.shared.global [%r2], [%a1], 4; cp.async.commit_group; ld.shared.u32 %r3, [%r2]; st.global.u32 [%a1], %r3;",
			func(i uint32) uint32 { return 0x5a5a5a5a }},
		{"bits", "lop3.b32 %r1, %r0, 12, 3, 0xea; prmt.b32 %r1, %r1, 0x11223344, 0x4540; shf.r.wrap.b32 %r1, %r1, %r0, 0; st.global.u32 [%a1], %r1;", func(i uint32) uint32 {
			return i&12 | 3 | 0x44<<8 | 0x33<<16 | 0x44<<24
		}},
		{"a predicate turned over", "and.b32 %r1, %r0, 1; setp.ne.s32 %p1, %r1, 0; xor.pred %p1, %p1, -1; @%p1 st.global.u32 [%a1], 7;", func(i uint32) uint32 {
			if i%2 == 0 {
				return 7
			}
			return i
		}},
		{"halves", "cvt.rn.f32.u32 %f1, %r0; cvt.rn.f16.f32 %h1, %f1; mov.b32 %r1, {%h1, %h1}; {add.f16x2 %r2, %r1, %r1; } mov.b32 {%h2, %h3}, %r2; cvt.f32.f16 %f2, %h3; cvt.rzi.u32.f32 %r3, %f2; st.global.u32 [%a1], %r3;",
			func(i uint32) uint32 { return 2 * i }},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := run(t, c.body, counting(64))
			if err != nil {
				t.Fatal(err)
			}
			for i, v := range got {
				if want := c.want(uint32(i)); v != want {
					t.Fatalf("word %d is %#x, want %#x", i, v, want)
				}
			}
		})
	}
}

// The identity times numbers gives them in the places that the ISA says.
func TestMMA(t *testing.T) {
	// Lane 4g+q has a row 2q of b and the next, of column g: 1 where row is column.
	body := `shr.u32 %r1, %r0, 2; and.b32 %r1, %r1, 7; and.b32 %r2, %r0, 3; shl.b32 %r2, %r2, 1;
	setp.eq.u32 %p1, %r1, %r2; selp.b32 %r3, 0x3c00, 0, %p1; add.s32 %r4, %r2, 1; setp.eq.u32 %p2, %r1, %r4; selp.b32 %r5, 0x3c000000, 0, %p2; or.b32 %r3, %r3, %r5;
	mul.lo.s32 %r6, %r1, 8; add.s32 %r6, %r6, %r2; cvt.rn.f32.u32 %f1, %r6; add.f32 %f2, %f1, 0f3F800000; cvt.rn.f16x2.f32 %r7, %f2, %f1;
	mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f4, %f5, %f6, %f7}, {%r7, 0, 0, 0}, {%r3, 0}, {0f3F800000, 0f3F800000, 0f00000000, 0f00000000};
	cvt.rzi.u32.f32 %r8, %f4; cvt.rzi.u32.f32 %r9, %f5; shl.b32 %r9, %r9, 16; or.b32 %r8, %r8, %r9; st.global.u32 [%a1], %r8;`
	got, err := run(t, body, counting(64))
	if err != nil {
		t.Fatal(err)
	}
	for l := range uint32(32) {
		first := l/4*8 + l%4*2 + 1
		if want := first | (first+1)<<16; got[l] != want {
			t.Errorf("lane %d has %#x, want %#x", l, got[l], want)
		}
	}
}

func TestErrors(t *testing.T) {
	for body, want := range map[string]string{
		"ld.global.u32 %r1, [%a0+256];":                 "kernel k, block 0,0,0: thread 0, ld.global.u32 %r1, [%a0+256]: 4 bytes at 0x1000000000000100 are outside of memory: byte 256 of allocation 0, which has 256",
		"ld.global.u32 %r1, [%a0+2];":                   "are not aligned",
		"st.shared.u32 [%r0+4096], %r0;":                "outside of shared memory of 512",
		"$x: bra.uni $x;":                               "does not end",
		"setp.eq.u32 %p1, %r0, 0; @%p1 bar.sync 0, 64;": "1 threads wait for others that do not come",
		"setp.eq.u32 %p1, %r0, 0; @%p1 barrier.arrive 0, 64; @!%p1 barrier.sync 0, 65;": "63 threads wait for others that do not come",
	} {
		if _, err := run(t, body, counting(64)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
	for text, want := range map[string]string{
		"tex.2d.v4.f32 {%f1}, [x];": `kernel k: "tex.2d.v4.f32 {%f1}, [x]": tex of floats is not known`,
		"bra $nowhere;":             "kernel k: label $nowhere is not there",
		"add.s32 %r1, %r2, %nope;":  `operand "%nope" is not known`,
	} {
		m, err := Parse(".visible .entry k() {\n.reg .b32 %r<4>; .reg .f32 %f<4>;\n" + text + "\n}")
		if err == nil {
			_, err = m.Kernel("k")
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// Fused products are rounded once, in every way.
func TestFused(t *testing.T) {
	single := numeric{letter: 'f', bits: 32}
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := rapid.Float32Range(-1e9, 1e9).Draw(t, "a"), rapid.Float32Range(-1e9, 1e9).Draw(t, "b"), rapid.Float32().Draw(t, "c")
		way := rapid.SampledFrom([]string{"rn", "rz", "rm", "rp"}).Draw(t, "way")
		exact := new(big.Float).SetPrec(2000).SetMode(big.ToNearestEven)
		exact.Add(new(big.Float).SetPrec(2000).Mul(big.NewFloat(float64(a)), big.NewFloat(float64(b))), big.NewFloat(float64(c)))
		mode := map[string]big.RoundingMode{"rn": big.ToNearestEven, "rz": big.ToZero, "rm": big.ToNegativeInf, "rp": big.ToPositiveInf}[way]
		want, _ := new(big.Float).SetPrec(24).SetMode(mode).Set(exact).Float32()
		got := math.Float32frombits(uint32(single.fused(float64(a), float64(b), float64(c), way)))
		if size := math.Abs(float64(want)); size > 1e-30 && size < 1e38 && got != want {
			t.Fatalf("%v·%v + %v is %v, want %v (%s)", a, b, c, got, want, way)
		}
	})
}

// Every text is refused or parsed.
func FuzzParse(f *testing.F) {
	f.Add(".visible .entry k(.param .u64 p) { .reg .b32 %r<4>; mov.u32 %r1, {%r2, 3}; }")
	f.Add(".shared .align 4 .b8 x[4]; /* */ .entry k() {{}}")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := Parse(text)
		if err != nil {
			return
		}
		for name := range m.sources {
			m.Kernel(name)
		}
	})
}
