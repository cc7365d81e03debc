package cuda

import (
	"exl2/internal/device"
	"exl2/internal/tensor"
)

type chooseRowsFunc func(d *Device, l launch, order, experts, first, places, weights, logits, gateLogits, y, x, scale, shift, w, bias, gate, gateBias, correction, counter tensor.Tensor,
	rows, count, chosen, columns, k int32, ld, ldg, ldx, ldy int64, centred int32, eps, offset float32, score, groups, topGroups, groupMax, renorm int32, renormEps, factor, jitter float32)

// choosers are kernels by the type of the router, for up to 128 experts and for more. All
// declare as much shared memory.
var choosers = map[tensor.Type][2]chooseRowsFunc{
	tensor.F16:  {(*Device).choose_f16_4, (*Device).choose_f16_16},
	tensor.BF16: {(*Device).choose_bf16_4, (*Device).choose_bf16_16},
	tensor.F32:  {(*Device).choose_f32_4, (*Device).choose_f32_16},
}

// chooseMost is of how many rows one kernel is faster than a norm, a product and a choice.
const chooseMost = 2

// Choose norms rows, multiplies them by a router, and chooses experts: in one kernel
// where there are few rows.
func (d *Device) Choose(to device.Choice, y, x tensor.Tensor, r device.Router) {
	rows, in, experts, chosen := x.Rows, x.Cols, r.W.Rows, to.Chosen()
	want(y.Rows == rows && y.Cols == in && r.W.Cols == in && r.Scale.Cols == in && to.Logits.Rows == rows && to.Logits.Cols == experts, "Choose", y, x, r.W)
	want(r.Gate.Nil() || r.Gate.Cols == in && to.Gates.Rows == rows && to.Shared(), "Choose", r.Gate, to.Gates)
	want(to.Places.Rows == rows && to.Weights.Cols == to.Places.Cols && to.Rows.Cols == rows*chosen && to.First.Cols == experts+1 && (chosen <= experts || rows == 0), "Choose", to.Places)
	shared := max(rows*pieces(in, half_elements)*half_elements*tensor.F16.Size(), d.routeShared(r.Routing, experts, choose_warps))
	kernels, ok := choosers[r.W.Type]
	most := 32 * 16 // experts
	switch {
	case !ok, rows == 0 || rows > chooseMost, shared > d.sharedFor(kernel_choose_f16_4), experts > most, chosen > route_most_groups || r.Routing.Groups > route_most_groups,
		!r.Gate.Nil() && r.Gate.Type != r.W.Type, x.Type != tensor.F32:
		d.chooseApart(to, y, x, r)
		return
	}
	choose, outputs, gate := kernels[0], experts, tensor.Tensor{}
	if experts > most/4 {
		choose = kernels[1]
	}
	if !r.Gate.Nil() {
		gate = to.Gates
		outputs++
	}
	n, counter := r.Routing, d.scratch(scratchCounters, tensor.I32, 1, 1)
	l := launch{blocks: dim{x: pieces(outputs, choose_warps)}, threads: dim{x: 32 * choose_warps}, shared: shared}
	choose(d, l, to.Rows, to.Experts, to.First, to.Places, to.Weights, to.Logits, gate, y, x, r.Scale, r.Shift, r.W, r.Bias, r.Gate, r.Offset, r.Correction, counter,
		int32(rows), int32(experts), int32(chosen), int32(to.Places.Cols), int32(in), int64(to.Logits.Stride), int64(gate.Stride), int64(x.Stride), int64(y.Stride),
		flag(r.Norm.Kind == device.Layer), r.Norm.Eps, r.Norm.Offset, int32(n.Score), int32(n.Groups), int32(n.TopGroups), flag(n.GroupMax), flag(n.Renorm), n.RenormEps, n.Scale, n.Jitter)
}

// chooseApart is Choose by other operations.
func (d *Device) chooseApart(to device.Choice, y, x tensor.Tensor, r device.Router) {
	d.Norm(y, x, r.Scale, r.Shift, r.Norm)
	d.MatMul(to.Logits, y, r.W, r.Bias)
	if !r.Gate.Nil() {
		d.MatMul(to.Gates, y, r.Gate, r.Offset)
	}
	d.Route(to.Routes, to.Logits, r.Correction, to.Gates, r.Routing)
}

// MixExperts computes a mixture behind its choice: of packed matrices and rows that are not many in two kernels and the sum.
func (d *Device) MixExperts(y, x tensor.Tensor, e device.Experts, r device.Routes) {
	gate, up, down := e.Gate.(*group), e.Up.(*group), e.Down.(*group)
	n := r.Rows.Cols
	wantPlaces("MixExperts", y, e.Each, r.Places, r.Weights)
	want(e.Gates.Rows == n && e.Ups.Rows == n && e.Gates.Cols == down.in && e.Ups.Cols == down.in && down.count == r.First.Cols-1, "MixExperts", e.Gates, e.Ups)
	aligned := atSixteenBytes(e.Gates) && atSixteenBytes(e.Ups)
	_, many := d.seesMany(r, gate, up)
	v, manyDown := d.seesMany(r, down)
	switch {
	case n > 0 && !many && !manyDown && aligned && gate.packed() && up.packed() && down.packed():
		d.packedGroups(e.Gates, e.Ups, x, r.Rows, gate, up, down, r)
		d.packedActs(e, down, r)
	case manyDown && aligned:
		each := e.Each.Slice(0, n)
		d.GroupMul([]tensor.Tensor{e.Gates, e.Ups}, x, r.Rows, []device.Group{gate, up}, r)
		d.manyGroups(each, each, groupInput{x: e.Gates, up: e.Ups, act: e.Act}, down, down, v, r)
	default:
		d.GroupMul([]tensor.Tensor{e.Gates, e.Ups}, x, r.Rows, []device.Group{gate, up}, r)
		d.ActMul(e.Gates, e.Gates, e.Ups, e.Act)
		d.GroupMul([]tensor.Tensor{e.Each.Slice(0, n)}, e.Gates, tensor.Tensor{}, []device.Group{down}, r)
	}
	d.Combine(y, e.Each, r.Places, r.Weights, e.Scale)
}
