package cuda

import (
	"slices"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// Choose norms rows, multiplies them by a router, and chooses experts.
func (d *Device) Choose(to device.Choice, y, x tensor.Tensor, r device.Router) {
	rows, in, experts, chosen := x.Rows, x.Cols, r.W.Rows, to.Chosen()
	want(y.Rows == rows && y.Cols == in && r.W.Cols == in && r.Scale.Cols == in && to.Logits.Rows == rows && to.Logits.Cols == experts, "Choose", y, x, r.W)
	want(r.Gate.Nil() || r.Gate.Cols == in && to.Gates.Rows == rows && to.Shared(), "Choose", r.Gate, to.Gates)
	want(to.Places.Rows == rows && to.Weights.Cols == to.Places.Cols && to.Rows.Cols == rows*chosen && to.First.Cols == experts+1 && (chosen <= experts || rows == 0), "Choose", to.Places)
	if !d.chooseLogits(to, y, x, r) {
		d.Norm(y, x, r.Scale, r.Shift, r.Norm)
		d.MatMul(to.Logits, y, r.W, r.Bias)
		if !r.Gate.Nil() {
			d.MatMul(to.Gates, y, r.Gate, r.Offset)
		}
	}
	d.Route(to.Routes, to.Logits, r.Correction, r.Scales, to.Gates, r.Routing)
}

type chooseRowsLogitsFunc func(d *Device, l launch, logits, gateLogits, y, x, scale, w, bias, gate, gateBias tensor.Tensor, count, k int32, ld, ldg, ldx, ldy int64, eps, offset float32)

var logitsOfRows = map[tensor.Type]chooseRowsLogitsFunc{
	tensor.F16: (*Device).choose_rows_f16, tensor.BF16: (*Device).choose_rows_bf16, tensor.F32: (*Device).choose_rows_f32,
}

// logitsMost is of how many rows blocks of a row each are faster than a norm and a product.
const logitsMost = 16

// chooseLogits norms rows and multiplies them by a router in one kernel, or does nothing and reports false.
func (d *Device) chooseLogits(to device.Choice, y, x tensor.Tensor, r device.Router) bool {
	logits, ok := logitsOfRows[r.W.Type]
	if !ok || x.Rows == 0 || x.Rows > logitsMost || !linkable(r.Norm, r.Shift) || x.Type != tensor.F32 || y.Type != tensor.F16 || !r.Gate.Nil() && r.Gate.Type != r.W.Type ||
		x.Cols%half_elements != 0 || !atSixteenBytes(x) || !atSixteenBytes(y) || !atSixteenBytes(r.W) || !atSixteenBytes(r.Gate) || !atSixteenBytes(r.Scale) {
		return false
	}
	logits(d, routerLaunch(r, x.Rows), to.Logits, to.Gates, y, x, r.Scale, r.W, r.Bias, r.Gate, r.Offset, int32(r.W.Rows), int32(x.Cols), int64(to.Logits.Stride), int64(to.Gates.Stride), int64(x.Stride), int64(y.Stride), r.Norm.Eps, r.Norm.Offset)
	return true
}

// routerLaunch returns a launch for the logits of rows, one of its gate among them if r has one.
func routerLaunch(r device.Router, rows int) launch {
	outputs := r.W.Rows
	if !r.Gate.Nil() {
		outputs++
	}
	return launch{blocks: dim{x: pieces(outputs, choose_row_block), y: rows}, threads: dim{x: 32 * choose_warps}}
}

// mostLimited is of how many rows limited units are faster with down than in a launch of their own (docs/performance.md).
const mostLimited = 4

// MixExperts computes a mixture behind its choice: of packed matrices and rows that are not many in two kernels and the sum.
func (d *Device) MixExperts(y, x tensor.Tensor, e device.Experts, r device.Routes) {
	first, to := e.First()
	groups, down, acted := groupsOf(first), e.Down.(*group), e.Opens()
	n := r.Rows.Cols
	wantPlaces("MixExperts", y, e.Each, r.Places, r.Weights)
	want(acted.Rows == n && e.Ups.Rows == n && acted.Cols == down.in && e.Ups.Cols == down.in && down.count == r.First.Cols-1 && !down.ragged(), "MixExperts", acted, e.Ups)
	aligned, packed := atSixteenBytes(acted) && atSixteenBytes(e.Ups), !slices.ContainsFunc(groups, func(g *group) bool { return !g.packed() })
	many, manyDown := d.seesMany(r, groups...), d.seesMany(r, down)
	limited := e.Clamp.Limit > 0 && y.Rows > mostLimited
	if n > 0 && !many && !manyDown && !limited && aligned && packed && down.packed() {
		d.packedGroups(to, x, r.Rows, groups, down, r)
		d.packedActs(e, down, r)
		d.combineLeft(y, e.Each, r.Places, r.Weights, e.Scale, e.Reader)
		return
	}
	each := e.Each.Slice(0, n)
	d.GroupMul(to, x, r.Rows, first, r)
	if manyDown && aligned {
		d.manyGroups(each, each, groupInput{x: acted, up: e.Ups, unit: e.Unit}, down, down, r)
	} else {
		e.Apply(d, acted, acted, e.Ups)
		d.GroupMul([]tensor.Tensor{each}, acted, tensor.Tensor{}, []device.Group{down}, r)
	}
	d.Combine(y, e.Each, r.Places, r.Weights, e.Scale)
}
