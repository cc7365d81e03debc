package cuda

import (
	"unsafe"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// A batchPlan is how products of kernels/qmatmul_batch.cu are launched.
type batchPlan struct {
	need
	launches          int // of which each multiplies a part of the units of every tile
	cluster, clusters int // blocks of a cluster, and how many
	items             int // tiles, or pairs of a gate, of a cluster
	round, owned      int // of items, at a time; and of them that a block finishes
	each              int // units of a round that a warp has
	parts             int // of a tile that a block may have
	slot, counts      int // bytes
	shared            int
}

// A batchKernel takes so many rows of x. One for any matrices is for those some of whose groups have one block, too.
type batchKernel struct {
	kernel func(d *Device, l launch, product []byte)
	name   kernel
	rows   int
	any    bool
}

var batchKernels = []batchKernel{
	{(*Device).qmatmul_batch_8, kernel_qmatmul_batch_8, 8, false},
	{(*Device).qmatmul_batch_16, kernel_qmatmul_batch_16, batch_rows_most, false},
	{(*Device).qmatmul_batch_8_any, kernel_qmatmul_batch_8_any, 8, true},
	{(*Device).qmatmul_batch_16_any, kernel_qmatmul_batch_16_any, batch_rows_most, true},
}

// batchKernelFor returns the kernel for some rows: of the matrices that there are, not of those of a product, as two that take turns are slower
// than the one that all of a model's may have (docs/decoding.md).
func (d *Device) batchKernelFor(rows int) batchKernel {
	for _, k := range batchKernels {
		if rows <= k.rows && k.any == (len(d.fine) > 0) {
			return k
		}
	}
	panic("cuda: no products of so many rows")
}

// batchTakes reports whether this kernel makes p.
func (d *Device) batchTakes(p *packed) bool {
	_, ok := d.batchPlan(p)
	return ok
}

// batchPlan returns how p is made in the least time: by clusters of which size, and by how many launches, which rows need for all of which
// a cluster has no room. It is not ok if there is no room for it at all, or if there are no clusters.
func (d *Device) batchPlan(p *packed) (found batchPlan, ok bool) {
	if p.x.Rows < 2 || p.x.Rows > batch_rows_most || d.major < 9 || p.list[0].in*tensor.F16.Size() > d.sharedFor(kernel_order_rows_rms_f32) {
		return found, false
	}
	for launches := 1; launches <= p.mostLaunches() && !found.once(); launches++ {
		for cluster := 2; cluster <= min(batch_rows_most_blocks, d.sms); cluster++ {
			if plan, fits := d.batchPlanOf(p, launches, cluster); fits && (!ok || plan.cost() < found.cost()) {
				found, ok = plan, true
			}
		}
	}
	return found, ok
}

// once reports whether it is a plan of one round, than which no more launches are faster.
func (b *batchPlan) once() bool { return b.items > 0 && b.round == b.items }

// mostLaunches returns by how many launches p may be made, of which all but the first add to what there is. Those of eight rows and fewer
// are slower than the kernel that takes them otherwise.
func (p *packed) mostLaunches() int {
	if adds := p.then == device.Add || p.then == device.Put && p.y[0].Type == tensor.F32; adds && p.x.Rows > 8 {
		return 4
	}
	return 1
}

// cost estimates how long p takes, in units of a warp: those of the busiest block, whose warps have as many, and what launches and
// rounds take beside them.
func (b *batchPlan) cost() int {
	const launch, round = 8, 2
	return b.launches * (launch + pieces(b.items, b.round)*(round+b.each))
}

// unitsOf returns the units of the busiest block of some items.
func (b *batchPlan) unitsOf(p *packed, items int) int {
	if p.then == device.Gate {
		return items * (pieces(p.list[0].units128, b.blocks()) + pieces(p.list[1].units128, b.blocks()))
	}
	most := 0
	for _, m := range p.list[:p.n] {
		most = max(most, m.units128)
	}
	return items * pieces(most, b.blocks())
}

// blocks returns among how many blocks, of all launches, the units of a tile are divided.
func (b *batchPlan) blocks() int { return b.launches * b.cluster }

// batchPlanOf returns how p is made by so many launches of clusters of a size.
func (d *Device) batchPlanOf(p *packed, launches, cluster int) (b batchPlan, ok bool) {
	tiles := p.tiles()
	b.launches, b.cluster = launches, cluster
	b.clusters = min(d.clusters(cluster), tiles)
	b.need = p.needs(b.clusters)
	b.items = pieces(tiles, b.clusters)
	k := d.batchKernelFor(p.x.Rows)
	room := d.sharedFor(k.name)
	b.slot = b.groups*unit_lane_bytes + 4*exl2_chunk_words*b.widest
	staged := 0
	for i := range b.blocks() {
		from, to := p.stagedBlocks(i, b.blocks())
		staged = max(staged, ((to-from)|1)*p.x.Rows*exl2_block_rows*tensor.F16.Size())
	}
	for rounds := 1; rounds <= b.items; rounds++ {
		b.round = pieces(b.items, rounds)
		b.owned = pieces(b.round, cluster)
		b.each = pieces(b.unitsOf(p, b.round), batch_rows_warps)
		b.parts = b.partsOf(p)
		finished := b.owned
		if p.then == device.Gate {
			finished *= 2
		}
		b.counts = (finished*cluster + 15) &^ 15
		units := (b.units + 3) &^ 3
		b.shared = batch_rows_slots*batch_rows_warps*b.slot + finished*cluster*b.parts*k.rows*exl2_tile_columns*tensor.F32.Size() + 4*units + b.counts + staged
		if b.shared <= room && units < 1<<batch_feed_part_bit && finished*cluster*b.parts < 1<<(batch_feed_owner_bit-batch_feed_part_bit) {
			b.units = units
			return b, true
		}
	}
	return b, false
}

// partsOf returns how many parts of a tile a block may have: warps that have some of its units.
func (b *batchPlan) partsOf(p *packed) (parts int) {
	tiles, first := b.round, p.list[0]
	if p.then == device.Gate {
		tiles *= 2
	}
	for i := range b.blocks() {
		most, same := 0, true
		for _, m := range p.list[:p.n] {
			n := m.units128*(i+1)/b.blocks() - m.units128*i/b.blocks()
			most, same = max(most, n), same && m.units128 == first.units128
		}
		switch {
		case most == 0:
		case same: // tiles begin at multiples of that
			for t := range tiles {
				parts = max(parts, ((t+1)*most-1)/b.each-t*most/b.each+1)
			}
		default:
			parts = max(parts, (most+b.each-2)/b.each+1)
		}
	}
	return min(parts, batch_rows_warps)
}

// batchProduct is Product of kernels/batch_rows.cuh.
type batchProduct struct {
	matrices                        [mostMatrices]packedMatrix
	x, to                           uint64
	ldx                             int64
	count, then, act, in            int32
	wide, rows, share, rest         int32
	blocks, slot, round, owned      int32
	parts, units, groups, countSize int32
	split                           [mostMatrices][batch_rows_most_blocks + 2]int16
	staged                          [batch_rows_most_blocks][2]int16
	each                            int32
	perBlock, perEach               float32
	link                            link
}

// batchProducts makes products by a plan.
func (d *Device) batchProducts(p *packed, plan *batchPlan) {
	if d.err != nil {
		return
	}
	q, c := *p, &d.batch
	q.x = d.orderedRows(p)
	l := launch{blocks: dim{x: plan.clusters * plan.cluster}, threads: dim{x: 32 * batch_rows_warps}, shared: plan.shared, cluster: plan.cluster}
	for i := range plan.launches {
		part := q.part(i, plan.launches)
		c.describe(d, &part, plan, i*plan.cluster)
		d.batchKernelFor(p.x.Rows).kernel(d, l, unsafe.Slice((*byte)(unsafe.Pointer(c)), unsafe.Sizeof(*c)))
	}
}

// part returns p as one of so many launches makes it: the first one has the bias, the others add to what it stored, and what is left for
// readers is left by the last one.
func (p *packed) part(i, of int) packed {
	q := *p
	if i > 0 {
		q.then, q.bias = device.Add, [mostMatrices]tensor.Tensor{}
	}
	if i < of-1 {
		q.link.left = 0
	}
	return q
}

// describe tells the kernel what p is, and which of the blocks among which units are divided are the first of a launch's clusters.
func (c *batchProduct) describe(d *Device, p *packed, plan *batchPlan, first int) {
	tiles, blocks := p.tiles(), plan.blocks()
	*c = batchProduct{count: int32(p.n), then: int32(p.then), act: int32(p.act), in: int32(p.list[0].in), wide: flag(p.y[0].Type == tensor.F32), rows: int32(p.x.Rows),
		share: int32(tiles / plan.clusters), rest: int32(tiles % plan.clusters), blocks: int32(plan.cluster), slot: int32(plan.slot), round: int32(plan.round), owned: int32(plan.owned),
		parts: int32(plan.parts), units: int32(plan.units), groups: int32(plan.groups), countSize: int32(plan.counts), each: int32(plan.each), perBlock: 1 / float32(plan.cluster), perEach: 1 / float32(plan.each), link: p.link}
	if !p.powers.Nil() {
		c.link.powers = d.addressOrNull(p.powers)
	}
	c.x, c.ldx = d.addressOrNull(p.x), int64(p.x.Stride)
	c.to, c.matrices = d.addressOrNull(p.to), d.packedMatrices(p)
	for i := range plan.cluster {
		from, to := p.stagedBlocks(first+i, blocks)
		c.staged[i] = [2]int16{int16(from), int16(to)}
	}
	for k, m := range p.list[:p.n] {
		for i := range plan.cluster + 1 {
			c.split[k][i] = int16(m.units128 * (first + i) / blocks)
		}
	}
}
