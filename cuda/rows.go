package cuda

import (
	"math"
	"unsafe"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// rowsKernels lists the variants of the packed product of two to sixteen rows, better ones first.
var rowsKernels = []packing{
	{(*Device).qmatmul_rows_many_8, kernel_qmatmul_rows_many_8, qmatmul_rows_many_warps, 2, 8, false},
	{(*Device).qmatmul_rows_many_16, kernel_qmatmul_rows_many_16, qmatmul_rows_many_warps, 2, qmatmul_rows_most, false},
	{(*Device).qmatmul_rows_few_8, kernel_qmatmul_rows_few_8, qmatmul_rows_few_warps, 1, 8, false},
	{(*Device).qmatmul_rows_few_16, kernel_qmatmul_rows_few_16, qmatmul_rows_few_warps, 1, qmatmul_rows_most, false},
}

// A rowsPlan is how products of several rows are launched.
type rowsPlan struct {
	packing
	need
	slot, round, shared int
	cluster, clusters   int // blocks of a cluster, and how many
}

// rowsPlan returns how p is made; it is not ok if there is no room for it. Blocks form
// clusters of such a size that the busiest has the fewest units.
func (d *Device) rowsPlan(p *packed) (found rowsPlan, ok bool) {
	const tileCost = 2 // in units
	if p.x.Rows > qmatmul_rows_most || p.list[0].in*tensor.F16.Size() > d.sharedFor(kernel_order_rows_rms_f32) {
		return found, false
	}
	for _, v := range rowsKernels {
		best := math.MaxInt
		for _, cluster := range d.rowsClusters() {
			plan, fits := d.rowsPlanOf(p, v, cluster)
			if busy := plan.run * (pieces(p.list[0].units128, cluster) + tileCost); fits && busy < best {
				found, best, ok = plan, busy, true
			}
		}
		if ok {
			break
		}
	}
	return found, ok
}

// rowsClusters lists the sizes of clusters that there may be.
func (d *Device) rowsClusters() []int {
	if d.major < 9 || d.sms < 2 {
		return []int{1}
	}
	sizes := []int{2, 3, 4, 8}
	for sizes[len(sizes)-1] > d.sms {
		sizes = sizes[:len(sizes)-1]
	}
	return sizes
}

// clusters returns how many clusters of so many blocks of these kernels run at a time, one block
// filling a multiprocessor: parts of a GPU may leave some over.
func (d *Device) clusters(size int) int {
	if size == 1 {
		return d.sms
	}
	if d.atOnce[size] == 0 {
		const k, threads = kernel_qmatmul_rows_many_16, 32 * qmatmul_rows_many_warps
		most := min(128<<10, d.sharedFor(k)) // of shared memory, of which no two blocks find as much
		f, n := d.function(k), int32(0)
		l := launch{blocks: dim{x: d.sms / size * size}, threads: dim{x: threads}, shared: most, cluster: size}
		if d.err == nil && d.allow(f, kernels[k].name, most) {
			d.do("clusters", cuOccupancyMaxActiveClusters, uintptr(unsafe.Pointer(&n)), f.handle, uintptr(unsafe.Pointer(d.configure(l))))
		}
		d.atOnce[size] = max(1, int(n))
	}
	return min(d.atOnce[size], d.sms/size)
}

// rowsPlanOf returns how a kernel makes p with clusters of a size.
func (d *Device) rowsPlanOf(p *packed, v packing, cluster int) (plan rowsPlan, ok bool) {
	if p.x.Rows > v.rows {
		return plan, false
	}
	plan.packing, plan.cluster = v, cluster
	plan.clusters = min(d.clusters(cluster), p.tiles())
	plan.need = p.needs(plan.clusters)
	most := 0
	for i := range cluster {
		from, to := p.stagedBlocks(i, cluster)
		most = max(most, to-from)
	}
	return plan, plan.fit(d.sharedFor(v.name), most*p.x.Rows*exl2_block_rows*tensor.F16.Size(), p.then == device.Gate)
}

// fit chooses how many tiles there are sums of at a time, and reports whether shared
// memory has room for them beside x.
func (p *rowsPlan) fit(shared, staged int, gate bool) bool {
	p.slot = (1+p.groups)*unit_lane_bytes + 4*exl2_chunk_words*p.widest
	tile := tensor.F32.Size() * exl2_tile_columns * p.rows
	least, entries := p.slots*p.warps*p.slot+p.warps*tile+4*p.units+staged+16, 4*p.cluster // 16: alignment
	p.round = min(p.run, (shared-least)/(tile+entries))
	if gate {
		p.round &^= 1
	}
	p.shared = least + p.round*(tile+entries)
	p.units = (p.units + p.round*p.cluster + 3) &^ 3 // x begins at 16 bytes
	return p.round > 0
}

// stagedBlocks returns the first block of x that block i of a cluster needs, and the one
// behind the last.
func (p *packed) stagedBlocks(i, cluster int) (from, to int) {
	from = p.list[0].in / exl2_block_rows
	for _, m := range p.list[:p.n] {
		if lo, hi := m.units128*i/cluster, m.units128*(i+1)/cluster; lo < hi {
			from, to = min(from, int(m.unitBlocks[lo])), max(to, int(m.unitBlocks[hi-1])+exl2_unit_blocks)
		}
	}
	return min(from, to), to
}

// rowsProduct is Product of kernels/qmatmul_rows.cu.
type rowsProduct struct {
	matrices                           [mostMatrices]packedMatrix
	x, to                              uint64
	ldx                                int64
	count, tiles, share, rest          int32
	then, act, in, wide, rows          int32
	slot, round, units, groups, blocks int32
	staged                             [qmatmul_rows_most_blocks][2]int16
}

var orderRows = map[device.NormKind]func(d *Device, l launch, y, x, places, scale, shift tensor.Tensor, cols int32, ldx int64, eps, offset float32, powers tensor.Tensor){
	device.RMS: (*Device).order_rows_rms_f32, device.Layer: (*Device).order_rows_layer_f32,
}

// orderedRows returns x of p as products of several rows take it: in stored order,
// normalized.
func (d *Device) orderedRows(p *packed) tensor.Tensor {
	if p.ordered {
		return p.x
	}
	return d.orderOnce(p, d.orderRows)
}

// orderOnce returns what order makes of x of p, or has made of it for the products in front.
func (d *Device) orderOnce(p *packed, order func(p *packed) tensor.Tensor) tensor.Tensor {
	if !p.again || d.rowsInOrder.Nil() {
		d.rowsInOrder = order(p)
	}
	return d.rowsInOrder
}

// orderRows normalizes rows, and puts them in the order of p.
func (d *Device) orderRows(p *packed) tensor.Tensor {
	order := (*Device).order_rows_f16
	if !p.scale.Nil() {
		order = orderRows[p.norm.Kind]
	}
	y := d.scratch(scratchOrdered, tensor.F16, p.x.Rows, p.x.Cols)
	l := launch{blocks: dim{x: p.x.Rows}, threads: dim{x: order_rows_threads}, shared: p.x.Cols * tensor.F16.Size()}
	order(d, l, y, p.x, p.list[0].places, p.scale, p.shift, int32(p.x.Cols), int64(p.x.Stride), p.norm.Eps, p.norm.Offset, p.powers)
	return y
}

// rowsProducts makes products of two to sixteen rows by a plan.
func (d *Device) rowsProducts(p *packed, plan *rowsPlan) {
	if d.err != nil {
		return
	}
	x := d.orderedRows(p)
	c := &d.rows
	c.describe(d, p, plan)
	c.x, c.ldx = d.addressOrNull(x), int64(x.Stride)
	l := launch{blocks: dim{x: plan.clusters * plan.cluster}, threads: dim{x: 32 * plan.warps}, shared: plan.shared}
	if plan.cluster > 1 {
		l.cluster = plan.cluster
	}
	plan.kernel(d, l, unsafe.Slice((*byte)(unsafe.Pointer(c)), unsafe.Sizeof(*c)))
}

// describe tells the kernel what p is.
func (c *rowsProduct) describe(d *Device, p *packed, plan *rowsPlan) {
	tiles := p.tiles()
	*c = rowsProduct{count: int32(p.n), tiles: int32(tiles), share: int32(tiles / plan.clusters), rest: int32(tiles % plan.clusters),
		then: int32(p.then), act: int32(p.act), in: int32(p.list[0].in), wide: flag(p.y[0].Type == tensor.F32), rows: int32(p.x.Rows),
		slot: int32(plan.slot), round: int32(plan.round), units: int32(plan.units), groups: int32(plan.groups), blocks: int32(plan.cluster)}
	c.to, c.matrices = d.addressOrNull(p.to), d.packedMatrices(p)
	for i := range plan.cluster {
		from, to := p.stagedBlocks(i, plan.cluster)
		c.staged[i] = [2]int16{int16(from), int16(to)}
	}
}

// Rows of x up to which the kernel of few rows, whose blocks each bring all of x to shared
// memory, is faster than that of several, with one more for the norm and the order.
const normedRows = link_most_linked

// fewTake reports whether that kernel makes p, whose rows it can take at once. Rows in order for whose digits there is no room are
// made by that of several, which is then faster, if it can.
func (d *Device) fewTake(p *packed) bool {
	if p.x.Rows > normedRows {
		return false
	}
	plan, ok := d.plan(p.needs(d.sms), p.x.Rows)
	return ok && (plan.areas || !p.ordered || !d.batchTakes(p))
}

// fitsFew reports whether the kernel of few rows takes those of p at once.
func (d *Device) fitsFew(p *packed) bool {
	return d.fit(p.needs(d.sms), p.x.Rows) == p.x.Rows
}

// takesPacked reports whether one of the kernels takes the rows of p at once.
func (d *Device) takesPacked(p *packed) bool {
	_, ok := d.rowsPlan(p)
	return ok || d.fitsFew(p) || d.batchTakes(p)
}

// multiplyPacked makes products of rows that a kernel takes at once.
func (d *Device) multiplyPacked(p *packed) {
	d.link(p)
	if d.fewTake(p) {
		d.packedProducts(p)
		return
	}
	if plan, ok := d.batchPlan(p); ok {
		d.batchProducts(p, &plan)
		return
	}
	if plan, ok := d.rowsPlan(p); ok {
		d.rowsProducts(p, &plan)
		return
	}
	d.packedProducts(p)
}
