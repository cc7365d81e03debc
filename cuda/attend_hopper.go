package cuda

import (
	"exl2/internal/device"
	"exl2/internal/tensor"
)

type hopperFunc func(d *Device, l launch, y, q, maps, table, pos, seq, sinks tensor.Tensor,
	tableCols, pageRows, runs, span, heads, kvHeads, dim int32, ldy, ldq int64, scale, softcap, temperature float32, temperatureSpan, window, together int32, sums, stats tensor.Tensor, parts int32)

var hopperVariants = []prefillVariant[hopperFunc]{
	{(*Device).attend_hopper_64, 64, attend_hopper_keys_64, attend_hopper_queries_64},
	{(*Device).attend_hopper_128, 128, attend_hopper_keys_128, attend_hopper_queries_128},
	{(*Device).attend_hopper_256, 256, attend_hopper_keys_256, attend_hopper_queries_256},
	{(*Device).attend_hopper_512, 512, attend_hopper_keys_512, attend_hopper_queries_512},
}

// tiles reports whether attend_hopper.cu can take rows and the cache.
func (c *cache) tiles(y, q tensor.Tensor, a device.Attend) bool {
	return !c.maps.Nil() && a.HeadDim%8 == 0 && atSixteenBytes(q) && atSixteenBytes(y)
}

// attendHopper is attention of runs on Hopper, by a block a multiprocessor.
func (d *Device) attendHopper(y, q tensor.Tensor, c *cache, layer int, a device.Attend, b device.Batch) {
	v, runs := prefillVariantFor(hopperVariants, a.HeadDim), q.Rows/b.Span
	of := shapeOf(runs, hopperRows(v.dim), v.keys, a.HeadDim, a, b)
	f := d.foundOf(of, d.sms)
	v.kernel(d, hopperLaunch(d, v, v.dim, of.items*f.parts), y, q, c.tilesOf(layer, v.keys), b.Table, b.Pos, b.Seq, a.Sinks, int32(b.Table.Cols), int32(c.shape.PageRows), int32(runs), int32(b.Span),
		int32(a.Heads), int32(a.KVHeads), int32(a.HeadDim), int64(y.Stride), int64(q.Stride), a.Scale, a.Softcap, a.Temperature, int32(max(a.TemperatureSpan, 1)), int32(a.Window),
		int32(of.together), f.sums, f.stats, int32(f.parts))
	f.join(d, y, a)
}

// hopperRows is how many rows a block has, of values with up to so many columns.
func hopperRows(values int) int {
	if values > wideHead {
		return attend_hopper_rows_512
	}
	return attend_hopper_rows_a_block
}

// hopperLaunch is of so many items of heads, whose values have up to so many columns.
func hopperLaunch[F any](d *Device, v prefillVariant[F], values, items int) launch {
	return launch{
		blocks: dim{x: min(d.sms, items)}, threads: dim{x: attend_hopper_threads},
		shared: 2*attend_hopper_alignment + (hopperRows(values)*v.queries*v.dim+attend_hopper_stages*v.keys*(v.dim+values))*tensor.F16.Size(),
	}
}
