package cuda

import (
	"fmt"
	"slices"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// want panics unless a condition on an operation's arguments holds.
func want(ok bool, op string, ts ...tensor.Tensor) {
	if !ok {
		panic(fmt.Sprintf("cuda: %s: shapes %v", op, slices.Clone(ts))) // a clone, so that ts costs no garbage
	}
}

// pick returns the kernel for the given types, or panics.
func pick[K comparable, F any](op string, table map[K]F, key K, ts ...tensor.Tensor) F {
	f, ok := table[key]
	if !ok {
		panic(fmt.Sprintf("cuda: %s: no kernel for %v", op, slices.Clone(ts)))
	}
	return f
}

var embeds = map[tensor.Type]func(d *Device, l launch, y, table, ids, fault tensor.Tensor, vocabulary, cols int32, ldy int64, scale float32){
	tensor.F32: (*Device).embed_f32, tensor.F16: (*Device).embed_f16, tensor.BF16: (*Device).embed_bf16,
}

// Embed is y[r] = scale·table[ids[r]].
func (d *Device) Embed(y, table, ids tensor.Tensor, scale float32) {
	want(y.Cols == table.Cols && y.Rows == ids.Cols, "Embed", y, table, ids)
	embed := pick("Embed", embeds, table.Type, table)
	embed(d, byRow(y.Rows, y.Cols, 256), y, table, ids, d.fault, int32(table.Rows), int32(y.Cols), int64(y.Stride), scale)
}

type normKey struct {
	kind device.NormKind
	x, y tensor.Type
}

var norms = map[normKey]func(d *Device, l launch, y, x, w, bias tensor.Tensor, cols int32, ldy, ldx int64, eps, offset float32){
	{device.RMS, tensor.F32, tensor.F32}:   (*Device).norm_rms_f32_f32,
	{device.RMS, tensor.F32, tensor.F16}:   (*Device).norm_rms_f32_f16,
	{device.RMS, tensor.F16, tensor.F16}:   (*Device).norm_rms_f16_f16,
	{device.Layer, tensor.F32, tensor.F32}: (*Device).norm_layer_f32_f32,
	{device.Layer, tensor.F32, tensor.F16}: (*Device).norm_layer_f32_f16,
	{device.Layer, tensor.F16, tensor.F16}: (*Device).norm_layer_f16_f16,
}

// Norm is y = normalize(x)·(w + n.Offset) + bias by rows.
func (d *Device) Norm(y, x, w, bias tensor.Tensor, n device.Norm) {
	want(y.Rows == x.Rows && y.Cols == x.Cols && w.Cols == x.Cols && (bias.Nil() || bias.Cols == x.Cols), "Norm", y, x, w, bias)
	norm := pick("Norm", norms, normKey{n.Kind, x.Type, y.Type}, y, x)
	norm(d, byRow(x.Rows, x.Cols, 1024), y, x, w, bias, int32(x.Cols), int64(y.Stride), int64(x.Stride), n.Eps, n.Offset)
	d.unlink(x)
}

// HeadNorm applies Norm to each head of every row.
func (d *Device) HeadNorm(x, w tensor.Tensor, heads int, n device.Norm) {
	want(x.Cols == heads*w.Cols && ofHeads(w, heads), "HeadNorm", x, w)
	d.headNorm(x, tensor.Tensor{}, w, tensor.Tensor{}, heads, 0, n)
}

// HeadNorms is HeadNorm of queries and of keys.
func (d *Device) HeadNorms(q, k, wq, wk tensor.Tensor, n device.Norm) {
	want(q.Rows == k.Rows && wq.Cols == wk.Cols && q.Cols%wq.Cols == 0 && k.Cols%wk.Cols == 0 && ofHeads(wq, q.Cols/wq.Cols) && ofHeads(wk, k.Cols/wk.Cols), "HeadNorms", q, k, wq, wk)
	d.headNorm(q, k, wq, wk, q.Cols/wq.Cols, k.Cols/wk.Cols, n)
}

// ofHeads reports whether w are weights of all heads, or of each.
func ofHeads(w tensor.Tensor, heads int) bool { return w.Dense() && (w.Rows == 1 || w.Rows == heads) }

// headStep returns how far the weights of one head are from the next one's.
func headStep(w tensor.Tensor) int32 {
	if w.Rows > 1 {
		return int32(w.Cols)
	}
	return 0
}

func (d *Device) headNorm(q, k, wq, wk tensor.Tensor, qHeads, kHeads int, n device.Norm) {
	l := launch{blocks: dim{x: pieces(q.Rows*(qHeads+kHeads), head_norm_warps)}, threads: dim{x: 32 * head_norm_warps}}
	norm := d.head_norm_rms_f16
	if n.Kind == device.Layer {
		norm = d.head_norm_layer_f16
	}
	norm(l, q, k, wq, wk, int32(q.Rows), int32(qHeads), int32(kHeads), headStep(wq), headStep(wk), int32(wq.Cols), int64(q.Stride), int64(k.Stride), n.Eps, n.Offset)
}

// Rope rotates the leading dimensions of the heads of q and k.
func (d *Device) Rope(q, k, freqs tensor.Tensor, headDim int, r device.Rope, b device.Batch) {
	want(q.Rows == k.Rows && q.Rows == b.Pos.Cols && q.Cols%headDim == 0 && k.Cols%headDim == 0 && r.Dims <= headDim && freqs.Cols == r.Dims/2, "Rope", q, k, freqs, b.Pos)
	if r.Dims < 2 {
		return
	}
	qHeads, kHeads := q.Cols/headDim, k.Cols/headDim
	l, scale := ropeLaunch(q.Rows, qHeads+kHeads, r)
	rotate := d.rope_split_f16
	if r.Interleaved {
		rotate = d.rope_interleaved_f16
	}
	rotate(l, q, k, freqs, b.Pos, int32(qHeads), int32(kHeads), int32(headDim), int32(r.Dims/2), int64(q.Stride), int64(k.Stride), scale)
}

// ropeLaunch returns the launch of turning heads, or turning them back, and the
// factor they grow by.
func ropeLaunch(rows, heads int, r device.Rope) (l launch, scale float32) {
	const float2 = 8
	if scale = r.Scale; scale == 0 {
		scale = 1
	}
	return launch{blocks: dim{x: rows, y: pieces(heads, rope_heads_a_block)}, threads: dim{x: rope_threads}, shared: r.Dims / 2 * float2}, scale
}

// Store puts rows of keys and values in the cache.
func (d *Device) Store(of device.Cache, layer int, k, v tensor.Tensor, b device.Batch) {
	c := of.(*cache)
	want(k.Rows == b.Pos.Cols && k.Rows == b.Seq.Cols && v.Rows == k.Rows && k.Cols == c.shape.K && v.Cols == c.shape.V && (v.Cols == 0 || k.Cols == v.Cols), "Store", k, v, c.k[layer], c.v[layer], b.Pos)
	pages := c.v[layer]
	if v.Cols == 0 { // latents
		pages, v = tensor.Tensor{}, tensor.Tensor{}
	}
	d.store_f16(byRow(k.Rows, k.Cols, 256), c.k[layer], pages, k, v, b.Pos, b.Seq, b.Table, d.fault,
		int32(k.Cols), int32(b.Table.Rows), int32(b.Table.Cols), int32(c.shape.Pages), int32(c.shape.PageRows), int64(k.Stride), int64(v.Stride))
}

// AddScaled is y += scale·x.
func (d *Device) AddScaled(y, x tensor.Tensor, scale float32) {
	want(y.Rows == x.Rows && y.Cols == x.Cols, "AddScaled", y, x)
	p, add := planeOf(y, x), d.add_scaled_f16
	if x.Type == tensor.F32 {
		add = d.add_scaled_f32
	}
	add(p.launch(), y, x, int32(p.rows), int64(p.cols), int64(y.Stride), int64(x.Stride), scale)
}

// Cap is x = cap·tanh(scale·x/cap), or scale·x.
func (d *Device) Cap(x tensor.Tensor, scale, softcap float32) {
	p := planeOf(x)
	d.cap_f32(p.launch(), x, int32(p.rows), int64(p.cols), int64(x.Stride), scale, softcap)
}

// Clip limits the elements of x to ±limit.
func (d *Device) Clip(x tensor.Tensor, limit float32) {
	p := planeOf(x)
	d.clip_f16(p.launch(), x, int32(p.rows), int64(p.cols), int64(x.Stride), limit)
}

// Advance adds one to every position.
func (d *Device) Advance(pos tensor.Tensor) {
	want(pos.Dense(), "Advance", pos)
	n := pos.Rows * pos.Cols
	d.advance(launch{blocks: dim{x: pieces(n, advance_threads)}, threads: dim{x: advance_threads}}, pos, int32(n))
}

type copyKey struct{ from, to tensor.Type }

var copies = map[copyKey]func(d *Device, l launch, y, x tensor.Tensor, rows int32, n, ldy, ldx int64){
	{tensor.F32, tensor.F32}: (*Device).copy_f32_f32, {tensor.F32, tensor.F16}: (*Device).copy_f32_f16, {tensor.F32, tensor.BF16}: (*Device).copy_f32_bf16,
	{tensor.F16, tensor.F32}: (*Device).copy_f16_f32, {tensor.F16, tensor.F16}: (*Device).copy_f16_f16, {tensor.F16, tensor.BF16}: (*Device).copy_f16_bf16,
	{tensor.BF16, tensor.F32}: (*Device).copy_bf16_f32, {tensor.BF16, tensor.F16}: (*Device).copy_bf16_f16, {tensor.BF16, tensor.BF16}: (*Device).copy_bf16_bf16,
}

// Copy copies elements, converting them among F32, F16 and BF16. Tensors without
// gaps may be of different shapes.
func (d *Device) Copy(dst, src tensor.Tensor) {
	if dst.Dense() && src.Dense() {
		d.copyDense(dst, src)
		return
	}
	want(dst.Rows == src.Rows && dst.Cols == src.Cols, "Copy", dst, src)
	p := planeOf(dst, src)
	pick("Copy", copies, copyKey{src.Type, dst.Type}, dst, src)(d, p.launch(), dst, src, int32(p.rows), int64(p.cols), int64(dst.Stride), int64(src.Stride))
}

// way is the driver's call that copies from where src is to where dst is.
func (d *Device) way(dst, src tensor.Tensor) symbol {
	switch {
	case d.own("Copy", src).host != nil:
		return cuMemcpyHtoDAsync
	case d.own("Copy", dst).host != nil:
		return cuMemcpyDtoHAsync
	}
	return cuMemcpyDtoDAsync
}

func (d *Device) copyDense(dst, src tensor.Tensor) {
	n := dst.Rows * dst.Cols
	want(n == src.Rows*src.Cols, "Copy", dst, src)
	if n == 0 {
		return
	}
	if dst.Type == src.Type {
		d.do("Copy", d.way(dst, src), d.address("Copy", dst), d.address("Copy", src), uintptr(dst.Bytes()), d.stream)
		return
	}
	p := plane{1, n}
	pick("Copy", copies, copyKey{src.Type, dst.Type}, dst, src)(d, p.launch(), dst, src, 1, int64(n), int64(n), int64(n))
}
