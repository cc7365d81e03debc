package ptx

import (
	"encoding/binary"
	"strings"
	"testing"
)

// functions are two, of which the second calls the first, and returns in two places.
const functions = `
.version 8.8
.target sm_80
.address_size 64
.func  (.param .align 8 .b8 func_retval0[8]) pair(
	.param .b32 pair_param_0,
	.param .align 8 .b8 pair_param_1[8]
)
{
	.local .align 4 .b8 	__local_depot0[8];
	.reg .b64 	%SPL;
	.reg .b32 	%r<5>;
	mov.u64 	%SPL, __local_depot0;
	ld.param.u32 	%r1, [pair_param_0];
	ld.param.v2.u32 	{%r2, %r3}, [pair_param_1];
	st.local.u32 	[%SPL+4], %r2;
	add.s32 	%r1, %r1, %r3;
	ld.local.u32 	%r4, [%SPL+4];
	st.param.b32 	[func_retval0+0], %r1;
	st.param.b32 	[func_retval0+4], %r4;
	ret;
}
.func  (.param .b32 func_retval0) odd(
	.param .b32 odd_param_0
)
{
	.reg .pred 	%p<2>;
	.reg .b32 	%r<5>;
	ld.param.u32 	%r1, [odd_param_0];
	and.b32 	%r2, %r1, 1;
	setp.ne.u32 	%p1, %r2, 0;
	@%p1 bra 	$L__BB1_2;
	st.param.b32 	[func_retval0+0], 1000;
	ret;
$L__BB1_2:
	{
	.param .b32 param0;
	st.param.b32 	[param0+0], %r1;
	.param .align 8 .b8 param1[8];
	st.param.b32 	[param1+0], 7;
	st.param.b32 	[param1+4], 100;
	.param .align 8 .b8 retval0[8];
	call.uni (retval0), 
	pair, 
	(
	param0, 
	param1
	);
	ld.param.v2.b32 	{%r3, %r4}, [retval0+0];
	}
	add.s32 	%r3, %r3, %r4;
	st.param.b32 	[func_retval0+0], %r3;
	ret;
}
`

// calling returns a kernel that stores what a call gives of a thread's number, twice over.
func calling(call string) string {
	return functions + `.visible .entry k(
	.param .u64 k_param_0
)
{
	.reg .b32 %r<8>;
	.reg .b64 %a<4>;
	ld.param.u64 %a0, [k_param_0];
	mov.u32 %r0, %tid.x;
	mul.wide.u32 %a1, %r0, 4;
	add.s64 %a1, %a0, %a1;
	mov.u32 %r1, %r0;
	{
	.param .b32 param0;
	st.param.b32 [param0+0], %r1;
	.param .b32 retval0;
	` + call + `
	ld.param.b32 %r2, [retval0+0];
	}
	{
	.param .b32 param0;
	st.param.b32 [param0+0], %r2;
	.param .b32 retval0;
	` + call + `
	ld.param.b32 %r3, [retval0+0];
	}
	add.s32 %r2, %r2, %r3;
	st.global.u32 [%a1], %r2;
	ret;
}
`
}

func TestCall(t *testing.T) {
	m, err := Parse(calling("call.uni (retval0), \n\todd, \n\t(\n\tparam0\n\t);"))
	if err != nil {
		t.Fatal(err)
	}
	k, err := m.Kernel("k")
	if err != nil {
		t.Fatal(err)
	}
	const threads = 64
	var memory Memory
	p := memory.Alloc(4 * threads)
	if err := k.Run(&memory, Launch{Grid: [3]int{1, 1, 1}, Threads: threads, Params: binary.LittleEndian.AppendUint64(nil, p)}); err != nil {
		t.Fatal(err)
	}
	odd := func(i uint32) uint32 {
		if i%2 == 0 {
			return 1000
		}
		return i + 107
	}
	b, _ := memory.Bytes(p, 4*threads)
	for i := range uint32(threads) {
		if got, want := binary.LittleEndian.Uint32(b[4*i:]), odd(i)+odd(odd(i)); got != want {
			t.Errorf("thread %d has %d, want %d", i, got, want)
		}
	}
}

func TestCallErrors(t *testing.T) {
	for call, want := range map[string]string{
		"call.uni (retval0), even, (param0);":      "function even is not there",
		"call.uni (retval0), odd, ();":             "function odd has 2 parameters and results, and is called with 1",
		"call.uni (retval0), odd, (other);":        `of "other"`,
		"@%r0 call.uni (retval0), odd, (param0);":  "a call by some threads is not known",
		"call.uni (retval0), pair, (param0, %r1);": `of "%r1"`,
	} {
		m, err := Parse(calling(call))
		if err == nil {
			_, err = m.Kernel("k")
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", call, err, want)
		}
	}
	m, err := Parse(".func again()\n{\n\tcall.uni again, ();\n\tret;\n}\n.visible .entry k() {\n\tcall.uni again, ();\n}")
	if err == nil {
		_, err = m.Kernel("k")
	}
	if err == nil || !strings.Contains(err.Error(), "function again is called within itself") {
		t.Error(err)
	}
}
