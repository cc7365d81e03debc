package cuda

import (
	"unsafe"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// stepGiven is Given of kernels/delta_step.cu.
type stepGiven struct {
	y, mixed, places, q, k, v, z, x, order, squares, rates, decay, bias, skip, conv, shift, norm, state, left, pos, seq, fault, counters uint64
	ldy, ldm, ldq, ldk, ldv, ldz                                                                                                         int64
	in, parts, heads, keyHeads, valueDim, sequences, early                                                                               int32
	eps, limit, scale, normEps, offset                                                                                                   float32
}

// LinearAttention is products of rows that are runs by themselves, and a kernel for all that is between these and o. It reads of the stream what was left
// for the products.
func (d *Device) LinearAttention(y tensor.Tensor, p device.Products, m device.LinearMixing) bool {
	parts, ok := d.parts(p)
	if !ok || d.err != nil || !d.stepTakes(y, p, m) {
		return false
	}
	for i := range parts {
		if q := &parts[i]; !d.takesPacked(q) || !d.links(q) || !d.leftFor(q) || d.linked.joins {
			return false
		}
	}
	s, early := d.linked, d.promises(&parts[len(parts)-1])
	for i := range parts {
		d.multiplyPacked(&parts[i])
	}
	d.deltaStep(y, p, m, s, early)
	return true
}

// stepTakes reports whether there is a kernel for m.
func (d *Device) stepTakes(y tensor.Tensor, p device.Products, m device.LinearMixing) bool {
	g, rates, scales := m.GatedDelta, 2*m.ValueHeads, m.ValueDim
	if g.Plain {
		rates, scales = g.ValueHeads, g.Values()
	}
	if len(p.List) != 4 || p.Then != device.Put || m.Batch.Span != 1 || g.KeyDim != delta_step_dim || g.Kernel != delta_step_taps || !stepWidth(g) || m.Rates.Type != tensor.F16 || !m.Rates.Dense() ||
		!atSixteenBytes(m.Rates) || p.X.Cols%half_elements != 0 || m.Norm.Kind != device.RMS || p.List[0].Y.Type != tensor.F16 {
		return false
	}
	for i, columns := range []int{g.Keys(), g.Keys(), g.Values(), g.Values()} {
		want(p.List[i].Y.Cols == columns, "LinearAttention", p.List[i].Y)
	}
	want(m.Rates.Rows == rates && m.Rates.Cols == p.X.Cols && m.Scale.Cols == scales && y.Rows == p.X.Rows && y.Cols == g.Values() && m.State.State.Cols == g.StateSize() && m.State.Inputs.Cols == (g.Kernel-1)*g.Columns() &&
		m.Batch.Pos.Cols == y.Rows && g.ValueHeads%g.KeyHeads == 0 && g.Decay.Cols == g.ValueHeads && g.Bias.Cols == g.ValueHeads && (!g.Plain || m.Mixed.Rows == y.Rows && m.Mixed.Cols == y.Cols && g.Values()%m.Group == 0),
		"LinearAttention", y, m.Rates, m.State.State, m.Mixed)
	return true
}

// stepWidth reports whether there is a kernel for heads of values of that many columns.
func stepWidth(g device.GatedDelta) bool {
	if !g.Plain {
		return g.ValueDim == delta_step_most_value_dim
	}
	return g.ValueDim >= delta_step_least_value_dim && g.ValueDim <= delta_step_most_value_dim && g.ValueDim%delta_step_columns_of_warp == 0
}

// promises reports whether the kernel that makes p, of rows that were left for it, lets the next one start when it has waited itself.
func (d *Device) promises(p *packed) bool {
	plan, ok := d.planInOrder(p)
	return ok && (plan.digits || plan.areas)
}

// deltaStep launches the kernels, s being what the products have read.
func (d *Device) deltaStep(y tensor.Tensor, p device.Products, m device.LinearMixing, s stream, early bool) {
	d.mixed = mixed{}
	at, g, rows, places := d.addressOrNull, m.GatedDelta, y.Rows, d.placesOf(y, m.Reader, false)
	q, k, v, z := p.List[0].Y, p.List[1].Y, p.List[2].Y, p.List[3].Y
	c := &d.step
	*c = stepGiven{q: at(q), k: at(k), v: at(v), z: at(z), x: at(d.linkedRows(s.side, rows, p.X.Cols)), order: at(p.List[0].W.(*matrix).places), squares: at(d.linkedSquares(s.side)),
		rates: at(m.Rates), decay: at(g.Decay), bias: at(g.Bias), conv: at(g.Conv), shift: at(g.ConvBias), state: at(m.State.State), left: at(m.State.Inputs), pos: at(m.Batch.Pos), seq: at(m.Batch.Seq), fault: at(d.fault),
		counters: at(d.scratch(scratchSharers, tensor.I32, rows, g.KeyHeads)), ldq: int64(q.Stride), ldk: int64(k.Stride), ldv: int64(v.Stride), ldz: int64(z.Stride),
		in: int32(p.X.Cols), parts: int32(s.parts), heads: int32(g.ValueHeads), keyHeads: int32(g.KeyHeads), valueDim: int32(g.ValueDim), sequences: int32(m.State.State.Rows), early: flag(early),
		eps: p.Norm.Eps, limit: g.Limit(), scale: lengths(g), normEps: m.Norm.Eps, offset: m.Norm.Offset}
	if g.Plain {
		c.mixed, c.ldm, c.skip = at(m.Mixed), int64(m.Mixed.Stride), at(g.Skip)
	} else {
		c.y, c.places, c.ldy, c.norm = at(y), at(places), int64(y.Stride), at(m.Scale)
	}
	l := launch{blocks: dim{x: g.ValueHeads, y: rows}, threads: dim{x: 32 * g.ValueDim / delta_step_columns_of_warp}}
	given := unsafe.Slice((*byte)(unsafe.Pointer(c)), unsafe.Sizeof(*c))
	if !g.Plain {
		d.delta_step(l, given)
	} else {
		d.delta_step_plain(l, given)
		d.gatedNorm(y, m.Mixed, z, m.Scale, places, m.Group, m.Norm)
	}
}
