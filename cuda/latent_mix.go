package cuda

import (
	"exl2/internal/device"
	"exl2/internal/tensor"
)

// A latentRowsVariant is a kernel of attend_latent_rows.cu: its teams, the warps of one, and how many halves of tiles are in shared memory.
type latentRowsVariant struct {
	kernel func(d *Device, l launch, means, totals, q, k, table, pos, seq tensor.Tensor, tableCols, sequences, pages, pageRows, heads, most, dim, latent int32,
		ldq int64, scale, softcap, temperature float32, temperatureSpan, window int32)
	name                kernel
	teams, team, stages int
}

// latentRowsVariants are in the order in which they are tried.
var latentRowsVariants = []latentRowsVariant{
	{(*Device).attend_latent_rows_2, kernel_attend_latent_rows_2, 2, 8, 4},
	{(*Device).attend_latent_rows_1, kernel_attend_latent_rows_1, 1, 8, 4},
	{(*Device).attend_latent_rows_small, kernel_attend_latent_rows_small, 1, 4, 4},
}

// heads is how many a block takes.
func (v latentRowsVariant) heads() int { return v.teams * attend_latent_rows_queries }

func (v latentRowsVariant) sharedBytes() int {
	const half, single, padding, stride, slices = 2, 4, attend_latent_rows_padding, attend_latent_rows_stride, attend_latent_rows_slices
	keys := 8 * v.team // at a time
	return ((v.heads()+v.stages*keys/2)*stride+v.heads()*(keys+padding))*half + v.team*v.heads()*single +
		v.teams*v.team*(slices-1)*32*4*single
}

// latentRowsFor returns the first variant that is not much larger than the heads, and for which there is shared memory.
func (d *Device) latentRowsFor(heads int) (latentRowsVariant, bool) {
	for _, v := range latentRowsVariants {
		if v.sharedBytes() <= d.sharedFor(v.name) && (v.teams == 1 || heads > v.heads()/2) {
			return v, true
		}
	}
	return latentRowsVariant{}, false
}

// MixLatent is of single rows three launches: queries and the new keys, attention, and values. Of runs of rows latents are multiplied
// (latent_runs.go).
func (d *Device) MixLatent(y, q, kv tensor.Tensor, m device.LatentMixing) bool {
	if d.err != nil || !latentTakes(y, q, kv, m) || !d.checkPages(m.Cache.(*cache)) {
		return false
	}
	a := m.Attend
	want(q.Cols == a.Heads*(m.Nope+m.Beside) && kv.Cols == a.Latent+m.Beside && a.HeadDim == a.Latent+m.Beside && a.KVHeads == 1 && y.Rows == q.Rows && kv.Rows == q.Rows && y.Cols%a.Heads == 0 &&
		m.Batch.Pos.Cols == q.Rows && m.Batch.Seq.Cols == q.Rows && m.Query.Cols == a.Heads*a.HeadDim && m.Keys.Rows == a.Heads*a.Latent && m.Rope.Dims <= m.Beside && m.Freqs.Cols == m.Rope.Dims/2,
		"MixLatent", y, q, kv, m.Keys, m.Values)
	d.mixed = mixed{}
	if q.Rows == 0 {
		return true
	}
	if m.Batch.Span > 1 {
		return d.latentRuns(y, q, kv, m)
	}
	v, ok := d.latentRowsFor(a.Heads)
	if !ok || q.Rows > headRows || m.Nope > lanesInputs || a.Latent > attend_latent_rows_most_latent || a.HeadDim > attend_latent_rows_most_dim {
		return false
	}
	d.latentKeys(q, kv, m)
	d.latentValues(y, m, d.latentRows(v, m))
	return true
}

// lanesInputs is how many inputs of an output the lanes of a warp have, a word each.
const lanesInputs = 32 * half_elements

// latentTakes reports whether kernels take the types of m, and the multiples.
func latentTakes(y, q, kv tensor.Tensor, m device.LatentMixing) bool {
	return m.Attend.Sinks.Nil() && m.Norm.Kind == device.RMS && m.Shift.Nil() && m.Keys.Type == tensor.F16 && m.Values.Type == tensor.F16 && y.Type == tensor.F16 &&
		m.Nope%half_elements == 0 && m.Beside%half_elements == 0 && m.Attend.Latent%half_elements == 0 &&
		atSixteenBytes(q) && atSixteenBytes(kv) && atSixteenBytes(m.Query) && atSixteenBytes(m.Keys) && atSixteenBytes(m.Values)
}

// headLanes is how many lanes share an output of so many inputs in gemv_heads.cu, and how many words of it each has.
func headLanes(in int) (lanes, parts int) {
	eights := in / half_elements
	lanes = min(powerFrom(eights), 32)
	return lanes, pieces(eights, lanes)
}

// headLaunch is of blocks that have outputs of heads.
func headLaunch(rows, heads, out, lanes, parts int) launch {
	each := gemv_heads_words / parts * (32 / lanes) * gemv_heads_warps // outputs of a block
	return launch{blocks: dim{x: pieces(out, each), y: heads, z: pieces(rows, gemv_heads_most)}, threads: dim{x: 32 * gemv_heads_warps}}
}

// latentKeys makes queries, and stores keys.
func (d *Device) latentKeys(q, kv tensor.Tensor, m device.LatentMixing) {
	a, b, c := m.Attend, m.Batch, m.Cache.(*cache)
	lanes, parts := headLanes(m.Nope)
	l := headLaunch(q.Rows, a.Heads+1, a.Latent, lanes, parts)
	_, scale := ropeLaunch(q.Rows, a.Heads, m.Rope)
	d.gemv_heads_keys(l, m.Query, q, m.Keys, kv, c.k[m.Layer], m.Scale, m.Freqs, b.Pos, b.Seq, b.Table, d.fault,
		int32(q.Rows), int32(a.Heads), int32(a.Latent), int32(m.Nope), int32(m.Beside), int32(lanes), int32(a.Latent), int32(m.Rope.Dims/2), flag(m.Rope.Interleaved),
		int32(b.Table.Rows), int32(b.Table.Cols), int32(c.shape.Pages), int32(c.shape.PageRows), int64(m.Query.Stride), int64(q.Stride), int64(kv.Stride), scale, m.Norm.Eps, m.Norm.Offset)
}

// latentFound is what blocks of attention leave: means and totals of up to so many parts of a head.
type latentFound struct {
	means, totals tensor.Tensor
	parts         int
}

// latentRows is attention proper.
func (d *Device) latentRows(v latentRowsVariant, m device.LatentMixing) latentFound {
	a, b, c, rows := m.Attend, m.Batch, m.Cache.(*cache), m.Query.Rows
	tiles := pieces(a.Heads, v.heads())
	t := rowsAttend{q: m.Query, cache: c, Attend: a, batch: b}
	parts := max(1, min(d.sms/(tiles*rows), latent_most_parts, pieces(t.most(), latent_at_once*latent_alone)))
	f := latentFound{d.scratch(scratchSums, tensor.F16, rows*a.Heads*parts, a.Latent), d.scratch(scratchStats, tensor.F32, rows*a.Heads*parts, 2), parts}
	l := launch{blocks: dim{x: parts, y: tiles, z: rows}, threads: dim{x: 32 * v.team * v.teams}, shared: v.sharedBytes()}
	v.kernel(d, l, f.means, f.totals, m.Query, c.k[m.Layer], b.Table, b.Pos, b.Seq, int32(b.Table.Cols), int32(b.Table.Rows), int32(c.shape.Pages), int32(c.shape.PageRows),
		int32(a.Heads), int32(parts), int32(a.HeadDim), int32(a.Latent), int64(m.Query.Stride), a.Scale, a.Softcap, a.Temperature, int32(max(a.TemperatureSpan, 1)), int32(a.Window))
	return f
}

// latentValues joins what has been found, and makes values of it.
func (d *Device) latentValues(y tensor.Tensor, m device.LatentMixing, f latentFound) {
	a := m.Attend
	value := y.Cols / a.Heads
	lanes, parts := headLanes(a.Latent)
	kernel := (*Device).gemv_heads_values_1
	if parts > 1 {
		kernel = (*Device).gemv_heads_values_2
	}
	places := d.placesOf(y, a.Reader, false)
	kernel(d, headLaunch(y.Rows, a.Heads, value, lanes, parts), y, places, m.Values, f.means, f.totals, m.Batch.Pos, int32(y.Rows), int32(a.Heads), int32(f.parts),
		int32(value), int32(a.Latent), int32(m.Nope), int32(m.Nope+value), int32(lanes), int32(a.Window), int64(y.Stride))
}
