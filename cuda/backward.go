package cuda

import (
	"exl2/internal/device"
	"exl2/internal/tensor"
)

var _ device.Quantize = (*Device)(nil)

// MatMulBack is dx += dy·w, with float32-class accuracy.
func (d *Device) MatMulBack(dx, dy, w tensor.Tensor) {
	want(dx.Rows == dy.Rows && dy.Cols == w.Rows && dx.Cols == w.Cols && dx.Type == tensor.F32 && dy.Type == tensor.F32, "MatMulBack", dx, dy, w)
	if dx.Rows == 0 || dy.Cols == 0 {
		return
	}
	if w.Type == tensor.BF16 {
		wide := d.Alloc(tensor.F32, w.Rows, w.Cols)
		defer d.Free(wide)
		d.Copy(wide, w)
		w = wide
	}
	_, weights := planesOf(w)
	r := d.newRoom(planesBytes(2, dy.Cols, dy.Rows) + padded(4) + weights)
	defer r.free()
	a, b := d.turnedOperand(r, dy), d.operand(r, w)
	at := d.address("MatMulBack", dx)
	p := productItem{from: at, to: at, m1: int32(dx.Rows), n1: int32(dx.Cols), k1: int32(pieces(dy.Cols, planes_tile_rows) * planes_tile_rows), ld: int32(dx.Stride), alpha: 1}
	d.product(p.of(d, a, b), a.count, b.count)
}

// turnedOperand makes planes of xᵀ for x, [m, k], float32.
func (d *Device) turnedOperand(r *room, x tensor.Tensor) planes {
	p := r.takePlanes(2, x.Cols, x.Rows)
	p.most = r.takeZeros(tensor.F32, 1, 1)
	d.measure(p.most, x)
	l := launch{blocks: dim{x: p.tiles, y: pieces(x.Cols, 2*planes_tile_rows) * 2}, threads: dim{x: 256}}
	d.operand_turned_f32(l, p.mem, x, p.most, byLargest, int32(x.Cols), int32(x.Rows), int32(x.Stride), int32(p.tiles), int64(p.next))
	return p
}

type normBackKey struct {
	kind device.NormKind
	x    tensor.Type
}

var normBacks = map[normBackKey]func(d *Device, l launch, dx, dy, x, w tensor.Tensor, cols int32, ldd, ldy, ldx int64, eps, offset float32){
	{device.RMS, tensor.F32}: (*Device).norm_back_rms_f32, {device.RMS, tensor.F16}: (*Device).norm_back_rms_f16,
	{device.Layer, tensor.F32}: (*Device).norm_back_layer_f32, {device.Layer, tensor.F16}: (*Device).norm_back_layer_f16,
}

// NormBack is dx += J(x)ᵀ·dy by rows.
func (d *Device) NormBack(dx, dy, x, w tensor.Tensor, n device.Norm) {
	want(dx.Rows == x.Rows && dx.Cols == x.Cols && dy.Rows == x.Rows && dy.Cols == x.Cols && w.Cols == x.Cols, "NormBack", dx, dy, x, w)
	back := pick("NormBack", normBacks, normBackKey{n.Kind, x.Type}, x)
	back(d, byRow(x.Rows, x.Cols, 1024), dx, dy, x, w, int32(x.Cols), int64(dx.Stride), int64(dy.Stride), int64(x.Stride), n.Eps, n.Offset)
}

var actMulBacks = map[device.Act]func(d *Device, l launch, dgate, dup, dy, gate, up tensor.Tensor, rows int32, n, lddg, lddu, ldy, ldg, ldu int64){
	device.SiLU: (*Device).act_mul_back_silu, device.GELU: (*Device).act_mul_back_gelu,
	device.GELUTanh: (*Device).act_mul_back_gelu_tanh, device.ReLU: (*Device).act_mul_back_relu, device.Logistic: (*Device).act_mul_back_sigmoid,
	device.Softplus: (*Device).act_mul_back_softplus,
}

// ActMulBack is the gradient of y = act(gate)·up, or act(gate).
func (d *Device) ActMulBack(dgate, dup, dy, gate, up tensor.Tensor, a device.Act) {
	list := []tensor.Tensor{gate, dgate, dy, dup, up}
	if up.Nil() {
		list = list[:3]
	}
	for _, t := range list {
		want(t.Rows == gate.Rows && t.Cols == gate.Cols, "ActMulBack", t, gate)
	}
	p := planeOf(list...)
	actMulBacks[a](d, p.launch(), dgate, dup, dy, gate, up, int32(p.rows), int64(p.cols),
		int64(dgate.Stride), int64(dup.Stride), int64(dy.Stride), int64(gate.Stride), int64(up.Stride))
}

// RopeBack turns gradients back.
func (d *Device) RopeBack(dq, dk, freqs tensor.Tensor, headDim int, r device.Rope, b device.Batch) {
	want(dq.Rows == dk.Rows && dq.Rows == b.Pos.Cols && dq.Cols%headDim == 0 && dk.Cols%headDim == 0 && r.Dims <= headDim && freqs.Cols == r.Dims/2, "RopeBack", dq, dk, freqs, b.Pos)
	if r.Dims < 2 {
		return
	}
	turn := d.rope_back_split
	if r.Interleaved {
		turn = d.rope_back_interleaved
	}
	qHeads, kHeads := dq.Cols/headDim, dk.Cols/headDim
	l, scale := ropeLaunch(dq.Rows, qHeads+kHeads, r)
	turn(l, dq, dk, freqs, b.Pos, int32(qHeads), int32(kHeads), int32(headDim), int32(r.Dims/2), int64(dq.Stride), int64(dk.Stride), scale)
}

// CapBack replaces dx by dx·scale·(1 - (y/cap)²), or dx·scale.
func (d *Device) CapBack(dx, y tensor.Tensor, scale, softcap float32) {
	want(dx.Rows == y.Rows && dx.Cols == y.Cols, "CapBack", dx, y)
	p := planeOf(dx, y)
	d.cap_back(p.launch(), dx, y, int32(p.rows), int64(p.cols), int64(dx.Stride), int64(y.Stride), scale, softcap)
}

// SampleBack draws a column of every row and leaves the gradient of -log p.
func (d *Device) SampleBack(logits, random tensor.Tensor) {
	want(random.Rows == 1 && random.Cols == logits.Rows && (logits.Cols > 0 || logits.Rows == 0), "SampleBack", logits, random)
	d.sample_back(launch{blocks: dim{x: logits.Rows}, threads: dim{x: draw_threads}}, logits, random, int32(logits.Cols), int64(logits.Stride))
}
