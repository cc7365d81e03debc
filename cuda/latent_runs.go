package cuda

import (
	"exl2/internal/device"
	"exl2/internal/tensor"
)

type latentHopperFunc func(d *Device, l launch, y, q, maps, pos, seq tensor.Tensor, runs, span, ahead, heads, nope, dim, valueDim int32, ldy, ldq int64,
	scale, softcap, temperature float32, temperatureSpan, window int32, sums, stats tensor.Tensor, parts int32)

// A latentHopperVariant is a kernel of attend_latent_hopper.cu, and the columns of values that it is made for.
type latentHopperVariant struct {
	prefillVariant[latentHopperFunc]
	values int
}

var latentHopperVariants = []latentHopperVariant{
	{prefillVariant[latentHopperFunc]{(*Device).attend_latent_hopper_128, 128, attend_latent_hopper_keys_128, attend_latent_hopper_queries_128}, attend_latent_hopper_values_128},
	{prefillVariant[latentHopperFunc]{(*Device).attend_latent_hopper_192, 192, attend_latent_hopper_keys_192, attend_latent_hopper_queries_192}, attend_latent_hopper_values_192},
	{prefillVariant[latentHopperFunc]{(*Device).attend_latent_hopper_256, 256, attend_latent_hopper_keys_256, attend_latent_hopper_queries_256}, attend_latent_hopper_values_256},
}

// latentHopperFor returns the first variant for heads with so many columns.
func latentHopperFor(nope, beside, values int) (latentHopperVariant, bool) {
	const part = 64 // columns that come at a time
	for _, v := range latentHopperVariants {
		if nope%part == 0 && values%part == 0 && beside > 0 && beside <= part && nope+part <= v.dim && values <= v.values {
			return v, true
		}
	}
	return latentHopperVariant{}, false
}

// What latents of sequences are multiplied to, at most at a time: positions, unless a sequence has more, and bytes, unless one head has more.
var madePositions, madeBytes = 1 << 15, 512 << 20

// latentLeast is the fewest rows of a run for which it is faster to multiply all latents than to attend to them.
const latentLeast = 24

// latentRuns is attention of runs of rows: of all positions of their sequences, latents are multiplied to keys and values of heads, as
// many heads at a time as there is room for. It reports whether there is a kernel for that, and memory.
func (d *Device) latentRuns(y, q, kv tensor.Tensor, m device.LatentMixing) bool {
	heads, b := m.Attend.Heads, m.Batch
	v, ok := latentHopperFor(m.Nope, m.Beside, y.Cols/heads)
	if !ok || !d.hopper() || b.Reach == 0 || b.Span < latentLeast || m.Rope.Dims/2 > latent_runs_most_pairs || !atSixteenBytes(y) {
		return false
	}
	g, ok := d.gatheredFor(q.Rows/b.Span, pieces(b.Reach, v.keys)*v.keys, m)
	if !ok {
		return false
	}
	d.latentTurn(q, kv, m)
	for run := 0; run < q.Rows/b.Span; run += g.runs {
		lo, hi := run*b.Span, min((run+g.runs)*b.Span, q.Rows)
		part := m
		part.Batch.Pos, part.Batch.Seq = b.Pos.Columns(lo, hi), b.Seq.Columns(lo, hi)
		g.gather(d, part)
		for head := 0; head < heads; head += g.heads {
			g.attend(d, v, y.Slice(lo, hi), q.Slice(lo, hi), part, head, min(head+g.heads, heads))
		}
	}
	return true
}

// latentTurn turns queries in place, and stores keys.
func (d *Device) latentTurn(q, kv tensor.Tensor, m device.LatentMixing) {
	a, b, c := m.Attend, m.Batch, m.Cache.(*cache)
	_, scale := ropeLaunch(q.Rows, a.Heads, m.Rope)
	d.latent_runs_turn(launch{blocks: dim{x: q.Rows}, threads: dim{x: latent_runs_threads}}, q, kv, c.k[m.Layer], m.Scale, m.Freqs, b.Pos, b.Seq, b.Table, d.fault,
		int32(a.Heads), int32(m.Nope), int32(m.Beside), int32(a.Latent), int32(m.Rope.Dims/2), flag(m.Rope.Interleaved), int32(b.Table.Rows), int32(b.Table.Cols),
		int32(c.shape.Pages), int32(c.shape.PageRows), int64(q.Stride), int64(kv.Stride), scale, m.Norm.Eps, m.Norm.Offset)
}

// A gatheredLatents is what there is of the sequences of some runs: latents and what is beside them, `ahead` positions of a run, and
// keys and values of some heads.
type gatheredLatents struct {
	runs, ahead, heads    int
	latents, shared, made tensor.Tensor
}

// gatheredFor finds memory for what latents are multiplied to, if there is enough.
func (d *Device) gatheredFor(runs, ahead int, m device.LatentMixing) (g gatheredLatents, ok bool) {
	g.ahead = ahead
	g.runs, g.heads = madeTogether(runs, ahead, m)
	rows, made := gatheredRows(g.runs, ahead), m.Values.Rows/m.Attend.Heads*g.heads
	if !d.hasScratch(scratchLatents, rows*m.Attend.Latent) || !d.hasScratch(scratchShared, rows*m.Beside) || !d.hasScratch(scratchMade, rows*made) {
		return g, false
	}
	of := func(use scratchUse, cols int) tensor.Tensor { return d.scratch(use, tensor.F16, rows, cols) }
	g.latents, g.shared, g.made = of(scratchLatents, m.Attend.Latent), of(scratchShared, m.Beside), of(scratchMade, made)
	return g, true
}

// madeTogether returns of how many runs, `ahead` positions each, and of how many heads, keys and values are made at a time.
func madeTogether(runs, ahead int, m device.LatentMixing) (together, heads int) {
	together = max(1, min(runs, madePositions/ahead))
	each := gatheredRows(together, ahead) * m.Values.Rows / m.Attend.Heads * tensor.F16.Size() // bytes of a head
	return together, max(1, min(m.Attend.Heads, madeBytes/each))
}

// gatheredRows is how many rows memory is for: a power of two, or it would grow with every pass.
func gatheredRows(runs, ahead int) int { return powerFrom(runs * ahead) }

// hasScratch reports whether there is scratch memory for so many halves, or enough to be had.
func (d *Device) hasScratch(use scratchUse, halves int) bool {
	const spare = 1 << 30
	need := halves * tensor.F16.Size()
	if d.scratches[use].Bytes() >= need {
		return true
	}
	free, _ := d.MemInfo()
	return free >= need+spare
}

// gather copies latents.
func (g gatheredLatents) gather(d *Device, m device.LatentMixing) {
	b, c := m.Batch, m.Cache.(*cache)
	l := launch{blocks: dim{x: pieces(g.ahead, latent_runs_gathered), y: b.Pos.Cols / b.Span}, threads: dim{x: latent_runs_threads}}
	d.latent_runs_gather(l, g.latents, g.shared, c.k[m.Layer], b.Pos, b.Seq, b.Table, int32(b.Span), int32(g.ahead), int32(m.Attend.Latent), int32(m.Beside), int32(b.Table.Cols), int32(c.shape.PageRows))
}

// attend multiplies latents to keys and values of heads lo to hi-1, and attends to them.
func (g gatheredLatents) attend(d *Device, v latentHopperVariant, y, q tensor.Tensor, m device.LatentMixing, lo, hi int) {
	a, b, width := m.Attend, m.Batch, m.Nope+m.Beside
	runs, heads, each, value := q.Rows/b.Span, hi-lo, m.Values.Rows/a.Heads, y.Cols/a.Heads
	made := g.made
	made.Cols, made.Stride = heads*each, heads*each
	d.MatMul(made.Slice(0, runs*g.ahead), g.latents.Slice(0, runs*g.ahead), m.Values.Slice(lo*each, hi*each), tensor.Tensor{})
	y, q = y.Columns(lo*value, hi*value), q.Columns(lo*width, hi*width)
	a.Heads, a.KVHeads = heads, heads
	of := shapeOf(runs, hopperRows(v.values), v.keys, value, a, b)
	f := d.foundOf(of, d.sms)
	l := hopperLaunch(d, v.prefillVariant, v.values, of.items*f.parts)
	v.kernel(d, l, y, q, d.madeMaps(made, g.shared, v.keys), b.Pos, b.Seq, int32(runs), int32(b.Span), int32(g.ahead), int32(heads), int32(m.Nope), int32(width), int32(value),
		int64(y.Stride), int64(q.Stride), a.Scale, a.Softcap, a.Temperature, int32(max(a.TemperatureSpan, 1)), int32(a.Window), f.sums, f.stats, int32(f.parts))
	f.join(d, y, a)
}

// madeOf tells apart what tiles have been described of.
type madeOf struct {
	made, shared     uint64
	rows, cols, keys int
	beside           int
}

// madeMaps describes tiles of keys and values of heads, and of what they share.
func (d *Device) madeMaps(made, shared tensor.Tensor, keys int) tensor.Tensor {
	of := madeOf{d.addressOrNull(made), d.addressOrNull(shared), made.Rows, made.Cols, keys, shared.Cols}
	maps, ok := d.madeTiles[of]
	if !ok && d.err == nil {
		maps = d.Alloc(tensor.U8, 2, attend_hopper_map_bytes)
		d.Upload(maps, append(d.tileMap(made, keys), d.tileMap(shared, keys)...))
		if d.madeTiles == nil {
			d.madeTiles = map[madeOf]tensor.Tensor{}
		}
		d.madeTiles[of] = maps
	}
	return maps
}
