package cuda

import "exl2/internal/tensor"

// spreadRows is how many rows attend_spread.cu takes: it gives each as many blocks,
// however long it is.
const spreadRows = 1

// spreadVariants are the kernels of attend_spread.cu by the dimensions of a head.
var spreadVariants = map[int]splitFunc{64: (*Device).attend_spread_64, 128: (*Device).attend_spread_128}

// spreadHeads are those of a block.
const spreadHeads = 8

// spreadTakes reports whether there is such a kernel.
func (t rowsAttend) spreadTakes() bool {
	return t.q.Rows <= spreadRows && spreadVariants[t.HeadDim] != nil && t.group() <= spreadHeads
}

// attendSpread divides the positions of every row and set of heads among blocks, as many
// as there is room for.
func (d *Device) attendSpread(kernel splitFunc, t rowsAttend) {
	const warps = attend_spread_warps
	sets, stride := t.KVHeads, t.HeadDim+attend_row_padding
	parts := max(1, attend_spread_blocks*d.sms/(sets*t.q.Rows))
	sums := d.scratch(scratchSums, tensor.F32, t.q.Rows*sets*parts*spreadHeads, stride)
	counters := d.scratch(scratchCounters, tensor.I32, t.q.Rows, sets)
	shared := rowShared(rowsShape{t.HeadDim, spreadHeads, false}, warps, t.group(), 32*warps*attend_spread_found)
	l := launch{blocks: dim{x: sets, y: parts, z: t.q.Rows}, threads: dim{x: 32 * warps}, shared: shared, beside: true}
	s, b, c, h := t.numbers(), t.batch, t.cache, t.own.heads
	kernel(d, l, t.y, t.q, c.k[t.layer], c.v[t.layer], t.own.k, t.own.v, t.own.freqs, t.Sinks, h.Q, h.K,
		b.Pos, b.Seq, b.Table, d.fault, sums, counters, s.rows, s.sequences, s.tableCols, s.pages, s.pageRows, s.heads, s.kvHeads, s.dim, s.pairs, s.interleaved,
		s.ldy, s.ldq, s.ldk, s.ldv, s.turnScale, t.Scale, t.Softcap, t.Temperature, s.temperatureSpan, s.window, s.norm, h.Norm.Eps, h.Norm.Offset)
}
