package cuda

import (
	"unsafe"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

const mostMatrices = products_most_matrices

// packed is products of few rows of one x by packed weights.
type packed struct {
	x       tensor.Tensor // rows begin at 16 bytes
	ordered bool          // x is in the stored order of the matrices
	norm    device.Norm   // of x, if it is normalized first
	scale   tensor.Tensor // absent if it is not
	shift   tensor.Tensor
	list    [mostMatrices]*matrix // all of one order
	n       int
	y, bias [mostMatrices]tensor.Tensor
	then    device.Then
	act     device.Act
	to      tensor.Tensor // where columns of y go, or absent
	from    tensor.Tensor // what comes there, as to
	turn    device.Turning
	leaving leaving // for whom results are left, or nothing
	beside  int     // bytes of shared memory that are left for them

	again  bool             // the products in front read the same, and like them
	left   bool             // something may have been left for it
	reader *device.Products // what reads the sum next, if that is known
	link   link
	powers tensor.Tensor // where powers of what is normalized go, or absent
	joins  *device.Sum   // what y joins, or nil
	join   join          // what of that, or of what is read, is to be told, or nothing
}

// tiles returns the tiles of all matrices; of a gate, pairs.
func (p *packed) tiles() (n int) {
	if p.then == device.Gate {
		return p.list[0].tiles()
	}
	for _, m := range p.list[:p.n] {
		n += m.tiles()
	}
	return n
}

// blocks returns of how many blocks p is made, on some multiprocessors: one for each, or, of one row beside which others attend,
// as few as have no more tiles each, so that there is room for those.
func (p *packed) blocks(sms int) int {
	tiles := p.tiles()
	n := min(sms, tiles)
	if p.leaving.words != 0 && p.x.Rows == 1 {
		return pieces(tiles, pieces(tiles, n))
	}
	return n
}

// A need is what products want of shared memory.
type need struct {
	widest int // bits
	run    int // tiles of a block
	each   int // tiles whose sums make one of results
	in     int // columns of x
	units  int // of the matrices of a product, with padding
	groups int // of a unit
	areas  int // units of x that warps bring for themselves, or 0 (areas.go)
	blocks int // blocks of x that they do
	most   int // units of a matrix
	beside int // bytes that are for another kernel's block

	digitless bool // of a matrix: rows are not multiplied by digits
}

// needs returns what p does, made by some blocks.
func (p *packed) needs(blocks int) need {
	n := need{run: pieces(p.tiles(), blocks), each: 1, in: p.list[0].in, beside: p.beside}
	if p.then == device.Gate {
		n.each = 2
	}
	n.run *= n.each
	for _, m := range p.list[:p.n] {
		n.widest, n.groups = max(n.widest, m.widest), max(n.groups, m.unitGroups)
		n.most = max(n.most, m.units128)
		n.digitless = n.digitless || m.digitless
		n.units += pieces(m.groups, exl2_unit_blocks)*exl2_unit_blocks + exl2_unit_blocks
	}
	if p.ordered {
		_, n.areas = p.areas()
		_, n.blocks = p.portions()
	}
	return n
}

// A packing is a variant of a packed product, this one or that of rows.go: its kernel, the
// warps of a block, the slots that a warp has for units, the most rows of x, and whether a row
// is of digits.
type packing struct {
	kernel             func(d *Device, l launch, product []byte)
	name               kernel
	warps, slots, rows int
	digits             bool
}

// parted reports whether it is a row's whose x is in order, of which warps bring what they need.
func (p packing) parted() bool {
	return p.name == kernel_qmatmul_one || p.name == kernel_qmatmul_one_wide
}

// leaves reports whether it can leave results for those who attend.
func (p packing) leaves() bool {
	return p.digits || p.name == kernel_qmatmul_two || p.name == kernel_qmatmul_two_wide
}

// packings lists the variants, better ones first.
var packings = []packing{
	{(*Device).qmatmul_one, kernel_qmatmul_one, few_rows_many_warps, 3, 1, true},
	{(*Device).qmatmul_one_wide, kernel_qmatmul_one_wide, few_rows_many_warps, 2, 1, true},
	{(*Device).qmatmul_placed, kernel_qmatmul_placed, few_rows_many_warps, 3, 1, true},
	{(*Device).qmatmul_placed_wide, kernel_qmatmul_placed_wide, few_rows_many_warps, 2, 1, true},
	{(*Device).qmatmul_halves, kernel_qmatmul_halves, few_rows_many_warps, 2, 1, false},
	{(*Device).qmatmul_more, kernel_qmatmul_more, few_rows_many_warps, 2, few_rows_most, false},
	{(*Device).qmatmul_few, kernel_qmatmul_few, few_rows_few_warps, 1, few_rows_most, false},
}

// A packedPlan is how products are launched.
type packedPlan struct {
	packing
	groups              int // of a unit, that a lane has the scales of
	slot, round, shared int
	results             int  // bytes
	areas               bool // warps bring x for themselves, as areas or portions
}

// plan returns how products with some rows of x are made.
func (d *Device) plan(n need, rows int) (plan packedPlan, ok bool) {
	if plan, ok = d.digitsPlan(n, rows); ok {
		return plan, true
	}
	for _, v := range packings {
		shared := d.sharedFor(v.name)
		if v.parted() { // as that which joins takes some more
			shared = d.sharedFor(kernel_qmatmul_one_joined)
		}
		if plan, ok = packedPlanOf(v, shared, n, rows); ok {
			return plan, true
		}
	}
	return plan, false
}

const keptResult = 48 // bytes of Kept (kernels/few_finish.cuh)

// packedPlanOf returns how a variant makes them: with sums of as many tiles as a share of the
// memory has room for.
func packedPlanOf(v packing, shared int, n need, rows int) (plan packedPlan, ok bool) {
	const sumsShare = 8
	if rows > v.rows || v.digits && (v.parted() != (n.blocks > 0) || n.most > step_most_steps*v.warps || n.digitless) {
		return plan, false
	}
	plan = packedPlan{packing: v, groups: n.groups}
	if v.digits {
		plan.groups = (n.groups + 1) / 2 // a lane has one of two
	}
	side := 1 + plan.groups // words of a lane beside those of a unit
	if v.digits {
		side = 2*plan.groups - 1
	}
	plan.slot = side*unit_lane_bytes + 4*exl2_chunk_words*n.widest
	tile := 4 * v.warps * exl2_tile_columns * v.rows // bytes of sums
	if v.digits {
		tile += keptResult * exl2_tile_columns
	}
	plan.round = min((n.run+1)/2, max(shared/sumsShare/tile/2, 1), v.warps/2) * 2
	x := rows * packedRow(n.in)
	if v.digits {
		x = digitRow(n.in)
		if plan.areas = v.parted(); plan.areas {
			x = portionsShared(n.blocks)
		}
	}
	plan.shared = v.slots*v.warps*plan.slot + plan.round*tile + x
	if !v.digits {
		plan.shared += 4 * n.units
	}
	return plan, plan.shared <= shared
}

// packedRow returns the bytes of shared memory that a row of x takes (kernels/packed.cuh).
func packedRow(in int) int {
	const unit = 64
	return tensor.F16.Size() * (pieces(in, unit)*unit + packed_row_padding)
}

// digitRow is packedRow of a row of digits (kernels/digits.cuh).
func digitRow(in int) int { return tensor.I32.Size() / tensor.F16.Size() * packedRow(in) }

// fit returns how many of some rows there is room for at a time.
func (d *Device) fit(n need, rows int) int {
	for rows = min(rows, few_rows_most); rows > 0; rows-- {
		if _, ok := d.plan(n, rows); ok {
			return rows
		}
	}
	return 0
}

// packedMatrix is Matrix of kernels/products.cuh, packedProduct Product of kernels/few_rows.cuh.
type packedMatrix struct {
	words, scales, units, places, y, bias   uint64
	ldy                                     int64
	chunks, groups, tiles, count, out, base int32
}

type packedProduct struct {
	count, share, rest, then    int32
	slot, round, groups, leaves int32
	matrices                    [mostMatrices]packedMatrix
	x, places, scale, shift, to uint64
	ldx                         int64
	tiles, act, norm, in        int32
	wide, rows                  int32
	eps, offset                 float32
	units, results              int32
	leaving                     leaving
	link                        link
	areas                       [mostMatrices + 1]area
	portions                    [few_rows_many_warps + 2]portion
}

// packedProducts makes products of up to eight rows, for which there must be a plan.
func (d *Device) packedProducts(p *packed) {
	if d.err != nil {
		return
	}
	n := p.needs(d.sms)
	plan, _ := d.plan(n, p.x.Rows)
	c := &d.packed.packedProduct
	d.describe(c, p)
	c.slot, c.round, c.units, c.groups = int32(plan.slot), int32(plan.round), int32(n.units), int32(plan.groups)
	c.results = int32(plan.results)
	if plan.digits || plan.areas {
		c.units = 0
		for i, m := range p.list[:p.n] {
			c.matrices[i].places = d.addressOrNull(m.unitSteps)
			if p.x.Rows == 1 {
				c.matrices[i].count = int32(m.stepsOfWarp())
			}
		}
	}
	if plan.areas {
		c.areas, _ = p.areas()
		c.portions, _ = p.portions()
	}
	l := launch{blocks: dim{x: p.blocks(d.sms)}, threads: dim{x: 32 * plan.warps}, shared: sharedBeside(plan.shared, p.beside)}
	if p.join.cols > 0 {
		d.packed.join = p.join
		d.packed.join.each = int32(pieces(int(p.join.cols), l.blocks.x))
		d.qmatmul_one_joined(l, unsafe.Slice((*byte)(unsafe.Pointer(&d.packed)), unsafe.Sizeof(d.packed)))
		return
	}
	plan.kernel(d, l, unsafe.Slice((*byte)(unsafe.Pointer(c)), unsafe.Sizeof(*c)))
}

// describe tells the kernel what p is.
func (d *Device) describe(c *packedProduct, p *packed) {
	at := d.addressOrNull
	tiles := p.tiles()
	blocks := p.blocks(d.sms)
	*c = packedProduct{x: at(p.x), scale: at(p.scale), shift: at(p.shift), to: at(p.to), ldx: int64(p.x.Stride),
		count: int32(p.n), tiles: int32(tiles), share: int32(tiles / blocks), rest: int32(tiles % blocks),
		then: int32(p.then), act: int32(p.act), norm: one_row_no_norm, in: int32(p.list[0].in), rows: int32(p.x.Rows), leaving: p.leaving, leaves: flag(p.leaving.words != 0)}
	if !p.ordered {
		c.places = at(p.list[0].places)
	}
	if !p.scale.Nil() {
		c.norm, c.eps, c.offset = int32(p.norm.Kind), p.norm.Eps, p.norm.Offset
	}
	c.wide = flag(p.y[0].Type == tensor.F32)
	c.matrices = d.packedMatrices(p)
	c.link = p.link
	if !p.powers.Nil() {
		c.link.powers = at(p.powers)
	}
}

// packedMatrices describes the matrices of p.
func (d *Device) packedMatrices(p *packed) (list [mostMatrices]packedMatrix) {
	at := d.addressOrNull
	base := 0
	for i, m := range p.list[:p.n] {
		list[i] = packedMatrix{words: at(m.words), scales: at(m.scales), units: at(m.units), places: at(m.unitPlaces), bias: at(p.bias[i]),
			chunks: int32(m.chunks), groups: int32(m.groups), tiles: int32(m.tiles()), count: int32(m.units128), out: int32(m.out), base: int32(base)}
		if p.then != device.Gate {
			base += m.tiles()
		}
		if y := p.y[i]; !y.Nil() {
			list[i].y, list[i].ldy = at(y), int64(y.Stride)
		}
	}
	return list
}
