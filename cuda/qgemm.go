package cuda

import (
	"math"
	"unsafe"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// A qgemmVariant is the product of some rows on Hopper (kernels/qgemm_hopper.cu), by the most rows.
type qgemmVariant struct {
	kernel func(d *Device, l launch, product []byte)
	name   kernel
	rows   int
}

var qgemms = []qgemmVariant{
	{(*Device).qgemm_hopper_32, kernel_qgemm_hopper_32, 32},
	{(*Device).qgemm_hopper_48, kernel_qgemm_hopper_48, 48},
	{(*Device).qgemm_hopper_64, kernel_qgemm_hopper_64, 64},
	{(*Device).qgemm_hopper_96, kernel_qgemm_hopper_96, 96},
	{(*Device).qgemm_hopper_128, kernel_qgemm_hopper_128, 128},
}

// qgemmMatrix and qgemmProduct are Matrix and Product of that kernel.
type qgemmMatrix struct {
	words, scales, units, places, y, bias uint64
	ldy                                   int64
	chunks, groups, tiles, out            int32
	steps, first                          int32
	_                                     [2]int32
}

type qgemmProduct struct {
	matrices              [qgemm_some_most_matrices]qgemmMatrix
	x                     uint64
	count, all            int32
	rows, rows8, inBlocks int32
	slot, slots           int32
	adds, wide, _         int32
}

// A qgemmPlan is how products are launched.
type qgemmPlan struct {
	qgemmVariant
	cluster, clusters   int // blocks of a cluster, and how many
	all                 int // blocks of 256 columns
	slot, slots, shared int
}

// takesSome reports whether someProducts makes p, of more rows than kernels of few take, and fewer than tiles do. A function of what has no gate takes longer in
// the order of the next products than as a launch, but for ReLU (docs/performance.md, "MLPs without gates").
func (d *Device) takesSome(p *packed) bool {
	if !d.hopper() || p.x.Rows > qgemms[len(qgemms)-1].rows || p.then == device.Turn || p.then.Ungated() && p.act != device.ReLU || p.list[0].in*tensor.F16.Size() > d.sharedFor(kernel_qgemm_order_layer) {
		return false
	}
	_, ok := d.qgemmPlan(p)
	return ok
}

// qgemmPlan returns how p is made: by clusters of such a size that the busiest has least to do.
func (d *Device) qgemmPlan(p *packed) (found qgemmPlan, ok bool) {
	const ends = 3 // what a block does with sums, in the time of so many units
	best, plan := math.MaxInt, qgemmPlan{qgemmVariant: qgemmFor(p.x.Rows)}
	most, widest := 0, 0
	for _, m := range p.list[:p.n] {
		most, widest = max(most, m.units128), max(widest, m.widest)
		plan.all += pieces(m.tiles(), qgemm_slots_tiles)
	}
	plan.slot = inEights(p.x.Rows)*4*exl2_block_rows*tensor.F16.Size() + qgemm_slots_tiles*4*exl2_chunk_words*widest
	for plan.cluster = 2; plan.cluster <= min(qgemm_some_most_blocks, d.sms); plan.cluster++ {
		plan.clusters = min(d.clusters(plan.cluster), plan.all)
		if !plan.fits(d, p.x.Rows) {
			continue
		}
		if busy := pieces(plan.all, plan.clusters) * (plan.wait(pieces(most, plan.cluster)) + ends); busy < best {
			found, best, ok = plan, busy, true
		}
	}
	return found, ok
}

// wait returns in the time of how many units so many are multiplied: of fewer than three slots, those that are multiplied wait for others.
func (p *qgemmPlan) wait(units int) int {
	if p.slots < 3 {
		return units * 3 / 2
	}
	return units
}

// qgemmFor returns the variant for some rows.
func qgemmFor(rows int) qgemmVariant {
	v := qgemms[len(qgemms)-1]
	for i := len(qgemms) - 2; i >= 0 && rows <= qgemms[i].rows; i-- {
		v = qgemms[i]
	}
	return v
}

// inEights returns rows in whole eights.
func inEights(rows int) int { return (rows + 7) &^ 7 }

// fits chooses the slots, and reports whether there is room for two at least beside the sums that meet.
func (p *qgemmPlan) fits(d *Device, rows int) bool {
	const alignment = 1024
	parts := pieces(min(inEights(rows)/8, qgemm_some_eights_at_once), p.cluster) * p.cluster * qgemm_some_part_bytes
	p.slots = min(qgemm_slots_most_slots, (d.sharedFor(p.name)-alignment-parts)/(p.slot+qgemm_slots_head_bytes))
	p.shared = alignment + p.slots*(p.slot+qgemm_slots_head_bytes) + parts
	return p.slots >= 2
}

// opened is a gate and what it opens, whose product the next products read.
type opened struct {
	gate, up tensor.Tensor
	act      device.Act
}

// openedBy returns it of the products of p, which are in both; what has no gate is one for ones, or for itself.
func (d *Device) openedBy(p *packed, both [mostMatrices]tensor.Tensor) opened {
	o := opened{both[0], both[1], p.act}
	switch p.then {
	case device.Activate:
		o.up = d.ones(o.gate.Cols)
		o.up.Stride = 0 // all rows read one
	case device.SelfGate:
		o.up = o.gate
	}
	return o
}

// someProducts multiplies by a plan, which there is. What a gate opens is left as two, for the order of the next.
func (d *Device) someProducts(p *packed) {
	if d.err != nil {
		return
	}
	plan, _ := d.qgemmPlan(p)
	x := d.orderOnce(p, d.ordered)
	y := p.y
	if p.then.Activates() {
		both := d.scratch(scratchOpened, tensor.F16, p.x.Rows, p.n*p.list[0].out)
		for i := range p.n {
			y[i] = both.Columns(i*p.list[0].out, (i+1)*p.list[0].out)
		}
	}
	d.qgemm(p, &plan, x, y)
	if !p.then.Activates() {
		return
	}
	switch o := d.openedBy(p, y); {
	case !p.to.Nil():
		d.opened = o
	case p.then == device.Activate:
		d.ActMul(p.y[0], o.gate, tensor.Tensor{}, p.act)
	default:
		d.ActMul(p.y[0], o.gate, o.up, p.act)
	}
}

// qgemm multiplies x, which is in order.
func (d *Device) qgemm(p *packed, plan *qgemmPlan, x tensor.Tensor, y [mostMatrices]tensor.Tensor) {
	c := &d.some
	*c = qgemmProduct{x: uint64(d.at(x)), count: int32(p.n), all: int32(plan.all), rows: int32(p.x.Rows), rows8: int32(inEights(p.x.Rows)), inBlocks: int32(p.list[0].in / exl2_block_rows),
		slot: int32(plan.slot), slots: int32(plan.slots), adds: flag(p.then == device.Add), wide: flag(y[0].Type == tensor.F32)}
	first := 0
	for i, m := range p.list[:p.n] {
		c.matrices[i] = qgemmMatrix{words: uint64(d.at(m.words)), scales: uint64(d.at(m.scales)), units: uint64(d.at(m.units)), places: uint64(d.at(m.unitPlaces)), y: uint64(d.at(y[i])), bias: d.addressOrNull(p.bias[i]),
			ldy: int64(y[i].Stride), chunks: int32(m.chunks), groups: int32(m.groups), tiles: int32(m.tiles()), out: int32(m.out), steps: int32(m.units128), first: int32(first)}
		first += pieces(m.tiles(), qgemm_slots_tiles)
	}
	l := launch{blocks: dim{x: plan.clusters * plan.cluster}, threads: dim{x: qgemm_slots_threads}, shared: plan.shared, cluster: plan.cluster}
	plan.kernel(d, l, unsafe.Slice((*byte)(unsafe.Pointer(c)), unsafe.Sizeof(*c)))
}

var qgemmNorms = map[device.NormKind]func(d *Device, l launch, y, x, scale, shift, order tensor.Tensor, in, rows8 int32, ldx int64, eps, offset float32){
	device.RMS: (*Device).qgemm_order_rms, device.Layer: (*Device).qgemm_order_layer,
}

// ordered returns x of p as qgemm takes it, its rows in whole eights: normalized, or what a gate opened before, or as it is.
func (d *Device) ordered(p *packed) tensor.Tensor {
	m, rows8 := p.list[0], inEights(p.x.Rows)
	xs := d.scratch(scratchOrdered, tensor.F16, m.in/exl2_block_rows*rows8, exl2_block_rows)
	l := launch{blocks: dim{x: p.x.Rows, y: min(pieces(d.sms, p.x.Rows), 4)}, threads: dim{x: qgemm_order_row_threads}, shared: pieces(m.in, 8) * 16}
	in, rows := int32(m.in), int32(rows8)
	switch x := p.x; {
	case !p.scale.Nil():
		qgemmNorms[p.norm.Kind](d, l, xs, x, p.scale, p.shift, m.order, in, rows, int64(x.Stride), p.norm.Eps, p.norm.Offset)
	case p.ordered:
		o := d.opened
		d.qgemm_order_f16(l, xs, o.gate, o.up, m.order, in, rows, int32(o.act), int64(o.gate.Stride), int64(o.up.Stride))
	default:
		d.qgemm_order_f16(l, xs, x, tensor.Tensor{}, m.order, in, rows, 0, int64(x.Stride), 0)
	}
	return xs
}
