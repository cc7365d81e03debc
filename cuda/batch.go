package cuda

import (
	"math"
	"unsafe"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// A batchPlan is how products of kernels/qmatmul_batch.cu are launched.
type batchPlan struct {
	need
	cluster, clusters int // blocks of a cluster, and how many
	items             int // tiles, or pairs of a gate, of a cluster
	round, owned      int // of items, at a time; and of them that a block finishes
	each              int // units of a round that a warp has
	parts             int // of a tile that a block may have
	slot, counts      int // bytes
	shared            int
}

// batchKernels are by the rows of x that they take.
var batchKernels = []struct {
	kernel func(d *Device, l launch, product []byte)
	name   kernel
	rows   int
}{
	{(*Device).qmatmul_batch_8, kernel_qmatmul_batch_8, 8},
	{(*Device).qmatmul_batch_16, kernel_qmatmul_batch_16, batch_rows_most},
}

// batchKernel returns the kernel for some rows.
func batchKernel(rows int) int {
	if rows <= 8 {
		return 0
	}
	return 1
}

// batchTakes reports whether this kernel makes p.
func (d *Device) batchTakes(p *packed) bool {
	_, ok := d.batchPlan(p)
	return ok
}

// batchPlan returns how p is made by clusters of such a size that the busiest block has the
// fewest units; it is not ok if there is no room for it, if there are no clusters, or if rows are so few that another is faster.
func (d *Device) batchPlan(p *packed) (found batchPlan, ok bool) {
	if p.x.Rows <= normedRows || p.x.Rows > batch_rows_most || d.major < 9 || p.list[0].in*tensor.F16.Size() > d.sharedFor(kernel_order_rows_rms_f32) {
		return found, false
	}
	best := math.MaxInt
	for cluster := 2; cluster <= min(batch_rows_most_blocks, d.sms); cluster++ {
		plan, fits := d.batchPlanOf(p, cluster)
		if !fits {
			continue
		}
		if busy := plan.busiest(); busy < best {
			found, best, ok = plan, busy, true
		}
	}
	return found, ok
}

// busiest returns how many units the busiest block multiplies, as if each of its warps had as many.
func (b *batchPlan) busiest() int {
	return pieces(b.items, b.round) * b.each * batch_rows_warps
}

// unitsOf returns the units of the busiest block of some items.
func (b *batchPlan) unitsOf(p *packed, items int) int {
	if p.then == device.Gate {
		return items * (pieces(p.list[0].units128, b.cluster) + pieces(p.list[1].units128, b.cluster))
	}
	most := 0
	for _, m := range p.list[:p.n] {
		most = max(most, m.units128)
	}
	return items * pieces(most, b.cluster)
}

// batchPlanOf returns how p is made by clusters of a size.
func (d *Device) batchPlanOf(p *packed, cluster int) (b batchPlan, ok bool) {
	tiles := p.tiles()
	b.cluster = cluster
	b.clusters = min(d.clusters(cluster), tiles)
	b.need = p.needs(b.clusters)
	b.items = pieces(tiles, b.clusters)
	k := batchKernels[batchKernel(p.x.Rows)]
	room := d.sharedFor(k.name)
	b.slot = b.groups*unit_lane_bytes + 4*exl2_chunk_words*b.widest
	staged := 0
	for i := range cluster {
		from, to := p.stagedBlocks(i, cluster)
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
	for rank := range b.cluster {
		most, same := 0, true
		for _, m := range p.list[:p.n] {
			n := m.units128*(rank+1)/b.cluster - m.units128*rank/b.cluster
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
	x := d.orderedRows(p)
	c := &d.batch
	c.describe(d, p, plan)
	c.x, c.ldx = d.addressOrNull(x), int64(x.Stride)
	l := launch{blocks: dim{x: plan.clusters * plan.cluster}, threads: dim{x: 32 * batch_rows_warps}, shared: plan.shared}
	if plan.cluster > 1 {
		l.cluster = plan.cluster
	}
	batchKernels[batchKernel(p.x.Rows)].kernel(d, l, unsafe.Slice((*byte)(unsafe.Pointer(c)), unsafe.Sizeof(*c)))
}

// describe tells the kernel what p is.
func (c *batchProduct) describe(d *Device, p *packed, plan *batchPlan) {
	tiles := p.tiles()
	*c = batchProduct{count: int32(p.n), then: int32(p.then), act: int32(p.act), in: int32(p.list[0].in), wide: flag(p.y[0].Type == tensor.F32), rows: int32(p.x.Rows),
		share: int32(tiles / plan.clusters), rest: int32(tiles % plan.clusters), blocks: int32(plan.cluster), slot: int32(plan.slot), round: int32(plan.round), owned: int32(plan.owned),
		parts: int32(plan.parts), units: int32(plan.units), groups: int32(plan.groups), countSize: int32(plan.counts), each: int32(plan.each), perBlock: 1 / float32(plan.cluster), perEach: 1 / float32(plan.each), link: p.link}
	if !p.powers.Nil() {
		c.link.powers = d.addressOrNull(p.powers)
	}
	c.to, c.matrices = d.addressOrNull(p.to), d.packedMatrices(p)
	for i := range plan.cluster {
		from, to := p.stagedBlocks(i, plan.cluster)
		c.staged[i] = [2]int16{int16(from), int16(to)}
	}
	for k, m := range p.list[:p.n] {
		for i := range plan.cluster + 1 {
			c.split[k][i] = int16(m.units128 * i / plan.cluster)
		}
	}
}
