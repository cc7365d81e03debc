package cuda

import (
	"unsafe"

	"exl2/internal/tensor"
)

// planes is an operand of products: a matrix [k, m] of fp16 as it is, in one plane,
// or of float32, in two (kernels/planes.cuh).
type planes struct {
	at    uintptr
	next  int // halves from one plane to the next
	tiles int // in a row
	count int
	most  uintptr // the largest magnitude, if it is lifted by that
}

const (
	tileRows   = 32
	tileCols   = 64
	tileHalves = tileRows * tileCols
)

// planeHalves returns the size of a plane of a matrix [k, m]; pairs of rows of tiles
// are whole.
func planeHalves(k, m int) int { return tilesOver(k, 2*tileRows) * 2 * tilesOver(m, tileCols) * tileHalves }

func tilesOver(n, tile int) int { return (n + tile - 1) / tile }

// planesBytes is the memory of count planes; products read a tile past the end.
func planesBytes(count, k, m int) int { return (count*planeHalves(k, m) + tileHalves) * 2 }

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

// Modes of products: kernels/product.cuh has the same list.
const (
	upperResult = 1
	fromM       = 2
	toM         = 4
	belowFromN  = 8
)

// of sets the operands of a product.
func (p productItem) of(a, b planes) productItem {
	p.a, p.aPlane, p.aTiles, p.aMost = a.at, int64(a.next), int32(a.tiles), a.most
	p.b, p.bPlane, p.bTiles, p.bMost = b.at, int64(b.next), int32(b.tiles), b.most
	return p
}

// blocks returns the tiles of 128 x 128 of a product.
func (p productItem) blocks() int {
	const side = 128
	across := tilesOver(int(p.m1)-int(p.m0)/tileCols*tileCols, side)
	return across * tilesOver(int(p.n1)-int(p.n0)/tileCols*tileCols, side)
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
	l := launch{blocks: dim{x: blocks, y: count}, early: true}
	if d.hopper() {
		const stages, slack = 6, 1024
		l.threads, l.shared = dim{x: 288}, stages*productStage+slack
		productHopper[aPlanes-1][bPlanes-1](d, l, list)
		return
	}
	stages := min(3, d.shared/productStage)
	l.threads, l.shared = dim{x: 256}, stages*productStage
	productAny[aPlanes-1][bPlanes-1](d, l, list, int32(stages))
}

// product computes one product.
func (d *Device) product(p productItem, aPlanes, bPlanes int) {
	list := d.table([]productItem{p})
	d.runProducts(list.pointer(), 1, p.blocks(), aPlanes, bPlanes)
	list.free()
}

// room is a piece of device memory that holds whatever it is asked for, one after
// another.
type room struct {
	d    *Device
	mem  tensor.Tensor
	at   uintptr
	left int
}

const roomAlign = 256

// padded returns the bytes that take takes for n.
func padded(n int) int { return (n + roomAlign - 1) / roomAlign * roomAlign }

// newRoom allocates memory that is not zeroed.
func (d *Device) newRoom(bytes int) *room {
	r := &room{d: d, mem: d.reserve(bytes), left: bytes}
	if d.err == nil {
		r.at = d.address("workspace", r.mem)
	}
	return r
}

// take returns the address of the next n bytes.
func (r *room) take(n int) uintptr {
	at := r.at
	r.at, r.left = r.at+uintptr(padded(n)), r.left-padded(n)
	if r.left < 0 {
		panic("cuda: workspace too small")
	}
	return at
}

func (r *room) pointer() pointer { return pointer(r.d.address("workspace", r.mem)) }
func (r *room) free()            { r.d.Free(r.mem) }

// table uploads a list of structs.
func table[E any](d *Device, list []E) *room {
	var e E
	data := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(list))), len(list)*int(unsafe.Sizeof(e)))
	r := d.newRoom(max(len(data), 1))
	if len(data) > 0 {
		d.Upload(r.mem.Reshape(1, len(data)), data)
	}
	return r
}
