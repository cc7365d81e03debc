package cuda

import "exl2/internal/tensor"

type logitsFunc = func(d *Device, l launch, logits, gateLogits, words, x, scale, shift, w, bias, gate, gateBias, correction tensor.Tensor,
	count, k, centred int32, eps, offset float32)

// routersOfRows are kernels by the type of the router, and whether what experts are ranked by is corrected.
var routersOfRows = map[tensor.Type]map[bool]logitsFunc{
	tensor.F16:  {false: (*Device).choose_logits_f16, true: (*Device).choose_corrected_f16},
	tensor.BF16: {false: (*Device).choose_logits_bf16, true: (*Device).choose_corrected_bf16},
	tensor.F32:  {false: (*Device).choose_logits_f32, true: (*Device).choose_corrected_f32},
}

// routersApart are those of routers whose norm has weights of its own, by the type of the router.
var routersApart = map[tensor.Type]func(d *Device, l launch, logits, words, x, scale, wScale, w, bias tensor.Tensor, count, k int32, eps, offset float32){
	tensor.F16: (*Device).choose_apart_f16, tensor.BF16: (*Device).choose_apart_bf16, tensor.F32: (*Device).choose_apart_f32,
}

// A kernelOf is a kernel and what launches it.
type kernelOf[F any] struct {
	kernel kernel
	launch F
}

type firstFunc = func(d *Device, l launch, acts, words, logits, correction, gateTable, upTable, downTable tensor.Tensor,
	experts, words1, words2, words3, places1, places2, both, units, tiles, in, out, act, slots, slot, pairs int32, ld int64,
	score, groups, topGroups, groupMax, renorm int32, renormEps, factor, jitter float32, times int32, limit, most, alpha, added float32)

// ways are kernels that do the same: of most mixtures, and of those whose rows have the expert that all rows see among their own, or whose units are limited.
type ways[F any] [2]kernelOf[F]

func (w ways[F]) of(wide bool) kernelOf[F] { return w[flag(wide)] }

// firstProducts are those of a mixture of rows, by how they choose and whether they are gated.
var firstProducts = [...]map[bool]ways[firstFunc]{
	byKey: {
		true:  {{kernel_mixture_gate, (*Device).mixture_gate}, {kernel_mixture_gate_wide, (*Device).mixture_gate_wide}},
		false: {{kernel_mixture_up, (*Device).mixture_up}, {kernel_mixture_up_wide, (*Device).mixture_up_wide}},
	},
	byKeys: {
		true:  {{kernel_mixture_gate_many, (*Device).mixture_gate_many}, {kernel_mixture_gate_many_wide, (*Device).mixture_gate_many_wide}},
		false: {{kernel_mixture_up_many, (*Device).mixture_up_many}, {kernel_mixture_up_many_wide, (*Device).mixture_up_many_wide}},
	},
	byAny: {
		true:  {{kernel_mixture_gate_any, (*Device).mixture_gate_any}, {kernel_mixture_gate_any_wide, (*Device).mixture_gate_any_wide}},
		false: {{kernel_mixture_up_any, (*Device).mixture_up_any}, {kernel_mixture_up_any_wide, (*Device).mixture_up_any_wide}},
	},
}

type gateAlikeFunc = func(d *Device, l launch, acts, words, gateTable, upTable, downTable tensor.Tensor,
	experts, gateChunks, gateGroups, upChunks, upGroups, units, tiles, in, out, act, biased, slots, slot, pairs int32, ld int64, times int32, limit, most, alpha, added float32)

// gatesAlike are those whose matrices are alike.
var gatesAlike = [...]ways[gateAlikeFunc]{
	byKey:  {{kernel_mixture_gate_alike, (*Device).mixture_gate_alike}, {kernel_mixture_gate_alike_wide, (*Device).mixture_gate_alike_wide}},
	byKeys: {{kernel_mixture_gate_alike_many, (*Device).mixture_gate_alike_many}, {kernel_mixture_gate_alike_many_wide, (*Device).mixture_gate_alike_many_wide}},
}

type upAlikeFunc = func(d *Device, l launch, acts, words, upTable, downTable tensor.Tensor,
	experts, chunks, groups, units, tiles, in, out, act, biased, slots, slot, pairs int32, ld int64, times int32, limit, most, alpha, added float32)

// upsAlike are those whose results are their own gates.
var upsAlike = [...]ways[upAlikeFunc]{
	byKey:  {{kernel_mixture_up_alike, (*Device).mixture_up_alike}, {kernel_mixture_up_alike_wide, (*Device).mixture_up_alike_wide}},
	byKeys: {{kernel_mixture_up_alike_many, (*Device).mixture_up_alike_many}, {kernel_mixture_up_alike_many_wide, (*Device).mixture_up_alike_many_wide}},
}

type lastFunc = func(d *Device, l launch, y, acts, all, logits, gateLogits, correction, scales, table tensor.Tensor,
	experts, chosen, times, unitsOfAll, words, places, units, most, biased, in, out, slots, slot, pairs int32, ld int64, sumScale float32,
	score, groups, topGroups, groupMax, renorm int32, renormEps, factor, jitter float32,
	leftRow, leftSquares, leftPower, leftPlaces, leftScale tensor.Tensor, leftOffset float32)

// lastProducts are by how they choose, and whether scores are corrected; wide where rows have the expert that all rows see among their own.
var lastProducts = [...]map[bool]ways[lastFunc]{
	byKey: {
		false: {{kernel_mixture_down, (*Device).mixture_down}, {kernel_mixture_down_wide, (*Device).mixture_down_wide}},
		true:  {{kernel_mixture_down_corrected, (*Device).mixture_down_corrected}, {kernel_mixture_down_corrected_wide, (*Device).mixture_down_corrected_wide}},
	},
	byKeys: {
		false: {{kernel_mixture_down_many, (*Device).mixture_down_many}, {kernel_mixture_down_many_wide, (*Device).mixture_down_many_wide}},
		true:  {{kernel_mixture_down_many_corrected, (*Device).mixture_down_many_corrected}, {kernel_mixture_down_many_corrected_wide, (*Device).mixture_down_many_corrected_wide}},
	},
	byAny: {false: anyLast, true: anyLast},
}

var anyLast = ways[lastFunc]{{kernel_mixture_down_any, (*Device).mixture_down_any}, {kernel_mixture_down_any_wide, (*Device).mixture_down_any_wide}}

// wide reports whether the first products are those of wide kernels.
func (m *rowMixture) wide() bool { return m.whole > 0 || m.Clamp.Limit > 0 }

// firstKernel returns that of the first products.
func (m *rowMixture) firstKernel() kernel {
	switch how := m.choosing(); {
	case m.same && m.gated():
		return gatesAlike[how].of(m.wide()).kernel
	case m.same:
		return upsAlike[how].of(m.wide()).kernel
	default:
		return firstProducts[how][m.gated()].of(m.wide()).kernel
	}
}

// lastOf returns what the last products are launched by.
func (m *rowMixture) lastOf() kernelOf[lastFunc] {
	return lastProducts[m.choosing()][!m.router.Correction.Nil()].of(m.whole > 0)
}
