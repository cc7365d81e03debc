package cuda

import (
	"exl2/internal/device"
	"exl2/internal/tensor"
)

// A latentVariant is a kernel of attend_latent.cu: its pairs of warps, and the tiles
// of keys that it has in shared memory.
type latentVariant struct {
	kernel func(d *Device, l launch, y, out, stats, q, k, table, pos, seq tensor.Tensor, tableCols, pageRows, span, heads, dim, latent int32,
		ldy, ldq int64, scale, softcap, temperature float32, temperatureSpan, window int32)
	name          kernel
	pairs, stages int
}

// latentVariants are in the order in which they are tried: larger ones read keys
// for more queries, and need more shared memory.
var latentVariants = []latentVariant{
	{(*Device).attend_latent_4, kernel_attend_latent_4, 4, 2}, {(*Device).attend_latent_2, kernel_attend_latent_2, 2, 1}, {(*Device).attend_latent_1, kernel_attend_latent_1, 1, 1},
}

// queries is how many a block takes.
func (v latentVariant) queries() int { return v.pairs * attend_latent_queries }

func (v latentVariant) sharedBytes() int {
	const half, single = 2, 4
	return ((v.queries()+v.stages*attend_latent_keys)*attend_latent_stride+v.queries()*attend_latent_weights_stride)*half + 2*v.queries()*single
}

// latentVariantFor returns the largest variant that is not much larger than the
// queries of a run, and for which there is shared memory.
func (d *Device) latentVariantFor(queries int) latentVariant {
	for _, v := range latentVariants {
		if v.sharedBytes() <= d.sharedFor(v.name) && v.queries() < 2*queries {
			return v
		}
	}
	return latentVariants[len(latentVariants)-1]
}

// attendLatent is attention whose values are columns of the keys.
func (d *Device) attendLatent(y, q tensor.Tensor, c *cache, layer int, a device.Attend, b device.Batch) {
	want(y.Rows == q.Rows && q.Rows == b.Pos.Cols && q.Cols == a.Heads*a.HeadDim && y.Cols == a.Heads*a.Latent && c.shape.K == a.HeadDim &&
		a.KVHeads == 1 && a.Latent <= a.HeadDim && q.Rows%b.Span == 0, "Attend", y, q, c.k[layer], b.Pos)
	if a.HeadDim > attend_latent_most_dim || a.Latent > attend_latent_most_latent || a.HeadDim%8 != 0 || a.Latent%8 != 0 || !a.Sinks.Nil() || !atSixteenBytes(q) {
		d.failWith("Attend: latent attention of %d dimensions, %d of them latent, want multiples of 8 up to %d and %d, and no sinks: %w; --devices cpu has it",
			a.HeadDim, a.Latent, attend_latent_most_dim, attend_latent_most_latent, device.ErrUnsupported)
		return
	}
	if !d.checkPages(c) || q.Rows == 0 {
		return
	}
	const leastShare, most = 128, 64
	v := d.latentVariantFor(b.Span * a.Heads)
	tiles, runs := pieces(b.Span*a.Heads, v.queries()), q.Rows/b.Span
	splits := max(1, min(d.sms/(tiles*runs), pieces(b.Table.Cols*c.shape.PageRows, leastShare), most))
	found := attendFound{parts: 1}
	if splits > 1 {
		found = d.foundFor(q.Rows, a.Heads, a.Latent, splits)
	}
	l := launch{blocks: dim{x: splits, y: tiles, z: runs}, threads: dim{x: 64 * v.pairs}, shared: v.sharedBytes()}
	v.kernel(d, l, y, found.sums, found.stats, q, c.k[layer], b.Table, b.Pos, b.Seq, int32(b.Table.Cols), int32(c.shape.PageRows), int32(b.Span), int32(a.Heads), int32(a.HeadDim),
		int32(a.Latent), int64(y.Stride), int64(q.Stride), a.Scale, a.Softcap, a.Temperature, int32(max(a.TemperatureSpan, 1)), int32(a.Window))
	found.join(d, y, a)
}
