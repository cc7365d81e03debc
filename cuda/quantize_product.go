package cuda

import (
	"unsafe"

	"exl2/internal/tensor"
)

// planes is an operand of products: a matrix [k, m] of fp16 as it is, in one plane,
// or of float32, in two (kernels/planes.cuh).
type planes struct {
	mem   tensor.Tensor // F16
	count int
	next  int           // halves from one plane to the next
	tiles int           // in a row
	most  tensor.Tensor // the largest magnitude, if it is lifted by that
}

// planeHalves returns the size of a plane of a matrix [k, m]; pairs of rows of tiles
// are whole.
func planeHalves(k, m int) int {
	return pieces(k, 2*planes_tile_rows) * 2 * pieces(m, planes_tile_cols) * planes_tile_halves
}

// planesHalves is the memory of count planes; products read a tile past the end.
func planesHalves(count, k, m int) int { return count*planeHalves(k, m) + planes_tile_halves }

// planesBytes is what takePlanes takes.
func planesBytes(count, k, m int) int { return padded(2 * planesHalves(count, k, m)) }

// takePlanes returns room for planes of a matrix [k, m].
func (r *room) takePlanes(count, k, m int) planes {
	return newPlanes(count, k, m, r.take(tensor.F16, 1, planesHalves(count, k, m)))
}

// newPlanes returns planes of a matrix [k, m] in memory of planesHalves.
func newPlanes(count, k, m int, mem tensor.Tensor) planes {
	return planes{mem: mem, count: count, next: planeHalves(k, m), tiles: pieces(m, planes_tile_cols)}
}

// How an operand is lifted: kernels/scaled.cuh has the same list.
const (
	byLargest  = 0
	byDiagonal = 1
	byRoot     = 2
	byEight    = 3
)

// What matrices are lifted by, unless by their largest number.
const (
	diagonalLift = 32
	eightLift    = 8
)

// productItem is a product of a launch: kernels/product.cuh has the same struct.
type productItem struct {
	a, b, from, to, aMost, bMost, rows uintptr
	aPlane, bPlane                     int64
	aTiles, bTiles                     int32
	m0, m1, n0, n1, k0, k1, ld         int32
	alpha                              float32
	mode, _                            int32
}

const productBytes = int(unsafe.Sizeof(productItem{}))

// Modes of products: kernels/product.cuh has the same list.
const (
	upperResult = 1
	fromM       = 2
	toM         = 4
	belowFromN  = 8
)

// of sets the operands of a product.
func (p productItem) of(d *Device, a, b planes) productItem {
	p.a, p.aPlane, p.aTiles, p.aMost = d.at(a.mem), int64(a.next), int32(a.tiles), d.at(a.most)
	p.b, p.bPlane, p.bTiles, p.bMost = d.at(b.mem), int64(b.next), int32(b.tiles), d.at(b.most)
	return p
}

// at returns the address of a tensor in a struct, 0 of an absent one.
func (d *Device) at(t tensor.Tensor) uintptr {
	if t.Nil() {
		return 0
	}
	return d.address("product", t)
}

// blocks returns the tiles of 128 x 128 of a product.
func (p productItem) blocks() int {
	across := pieces(int(p.m1)-int(p.m0)/planes_tile_cols*planes_tile_cols, productSide)
	return across * pieces(int(p.n1)-int(p.n0)/planes_tile_cols*planes_tile_cols, productSide)
}

type productFunc func(d *Device, l launch, list pointer, stages int32)

// byPlanes has the kernels by the planes of a and b.
var (
	productAny    = [2][2]productFunc{{(*Device).product_11, (*Device).product_12}, {(*Device).product_21, (*Device).product_22}}
	productHopper = [2][2]func(d *Device, l launch, list pointer){{(*Device).product_hopper_11, (*Device).product_hopper_12},
		{(*Device).product_hopper_21, (*Device).product_hopper_22}}
)

// productStage is the bytes of a step's tiles in shared memory.
const productStage = 32 << 10

// runProducts computes a list of count products in device memory, each of up to
// blocks tiles, of operands of aPlanes and bPlanes.
func (d *Device) runProducts(list pointer, count, blocks, aPlanes, bPlanes int) {
	l := launch{blocks: dim{x: blocks, y: count}}
	if d.hopper() {
		const stages, slack = 6, 1024
		l.threads, l.shared = dim{x: 288}, stages*productStage+slack
		productHopper[aPlanes-1][bPlanes-1](d, l, list)
		return
	}
	stages := max(2, min(3, d.shared/productStage))
	l.threads, l.shared = dim{x: 256}, stages*productStage
	productAny[aPlanes-1][bPlanes-1](d, l, list, int32(stages))
}

// product computes one product.
func (d *Device) product(p productItem, aPlanes, bPlanes int) {
	list := table(d, []productItem{p})
	d.runProducts(pointer(d.at(list)), 1, p.blocks(), aPlanes, bPlanes)
	d.Free(list)
}

// operandItem is a matrix that planes are made of: kernels/operand.cu has the same
// struct.
type operandItem struct {
	planes, x, most             uintptr
	plane                       int64
	k, m, stride, tiles, how, _ int32
}

// item is what makes planes of x.
func (p planes) item(d *Device, x tensor.Tensor, how int32) operandItem {
	return operandItem{
		planes: d.at(p.mem), x: d.at(x), most: d.at(p.most), plane: int64(p.next),
		k: int32(x.Rows), m: int32(x.Cols), stride: int32(x.Stride), tiles: int32(p.tiles), how: how,
	}
}

// An operandRun is matrices that planes are made of in one launch.
type operandRun struct {
	table        tensor.Tensor
	count        int
	rows, blocks int // most of all
}

func (d *Device) operandRun(list []operandItem) operandRun {
	r := operandRun{table: table(d, list), count: len(list)}
	for _, i := range list {
		over := overTiles(int(i.k), planes{tiles: int(i.tiles)})
		r.rows, r.blocks = max(r.rows, int(i.k)), max(r.blocks, over.blocks.x)
	}
	return r
}

// measure raises the numbers that matrices are lifted by.
func (r operandRun) measure(d *Device) {
	l := launch{blocks: dim{x: min(r.rows, pieces(8*d.sms, max(r.count, 1))), y: r.count}, threads: dim{x: 256}}
	d.operand_largest_each(l, pointer(d.at(r.table)))
}

// split makes planes of the first count.
func (r operandRun) split(d *Device, count int) {
	d.operand_f32_each(launch{blocks: dim{x: r.blocks, y: count}, threads: dim{x: 256}}, pointer(d.at(r.table)))
}

func (r operandRun) free(d *Device) { d.Free(r.table) }

// room is a piece of device memory out of which tensors are taken, one after
// another.
type room struct {
	d    *Device
	mem  tensor.Tensor // U8
	used int
}

// padded returns the bytes of room that n bytes take.
func padded(n int) int {
	const align = 256
	return (n + align - 1) / align * align
}

// newRoom allocates memory that is not zeroed.
func (d *Device) newRoom(bytes int) *room { return &room{d: d, mem: d.reserve(bytes)} }

// take returns a tensor whose elements may be anything.
func (r *room) take(t tensor.Type, rows, cols int) tensor.Tensor {
	x := tensor.New(t, rows, cols, r.mem.Mem)
	x.Off = r.used
	if r.used += padded(x.Bytes()); r.used > r.mem.Cols {
		panic("cuda: workspace too small")
	}
	return x
}

// takeZeros returns a tensor of zeros.
func (r *room) takeZeros(t tensor.Type, rows, cols int) tensor.Tensor {
	x := r.take(t, rows, cols)
	r.d.do("workspace", cuMemsetD8Async, r.d.at(x), 0, uintptr(x.Bytes()), r.d.stream)
	return x
}

func (r *room) free() { r.d.Free(r.mem) }
