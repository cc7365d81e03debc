package cuda

import (
	"unsafe"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// tilesMatrix and tilesProduct are Matrix and Product of kernels/gemm_tiles.cu.
type tilesMatrix struct {
	y, bias                  uint64
	ldy                      int64
	row, columns, tiles, gap int32
}

type tilesProduct struct {
	x, w                                      [attend_hopper_map_bytes]byte
	matrices                                  [gemm_tiles_most_matrices]tilesMatrix
	m, k, count, tiles, gap, act, wide, ahead int32
	unpackings                                [gemm_tiles_most_unpackings]unpacking
	order, turns, places                      uint64
	dim, units, beside, idle                  int32
	halves                                    [attend_hopper_map_bytes]byte
	whole, unread                             int32
	_                                         [14]int32
}

// A tiledProduct is products of many rows of x by matrices that lie below each other in
// w: y = x·wᵀ + bias, or what then says.
type tiledProduct struct {
	x, w tensor.Tensor
	list []tiledMatrix
	then device.Then
	act  device.Act

	order  tensor.Tensor // of the columns of a gate: those that biases have there, or absent
	ahead  []unpacking   // what is decoded meanwhile
	beside int           // units of that, beside products; the others' where there are none
	turns  turns         // of Turn
	unread int           // rows, the first ones, whose queries need not be computed
}

// A tiledMatrix is where a product goes; of the second of a gate, y is absent.
type tiledMatrix struct {
	y, bias tensor.Tensor
	columns int
}

// tiledRows is the fewest rows of x for which gemm_tiles.cu is worth while.
const tiledRows = gemm_tiles_bm + 1

// tiles reports whether gemm_tiles.cu multiplies x by w.
func (d *Device) tiles(x, w tensor.Tensor) bool {
	return d.hopper() && x.Rows >= tiledRows && x.Cols%8 == 0 && atSixteenBytes(x) && atSixteenBytes(w)
}

// A tiling is kernels, by what is done with products, and the columns of their tiles.
type tiling struct {
	kernels [device.Turn + 1]tilesFunc
	columns int
}

type tilesFunc = func(d *Device, l launch, p []byte)

var tilings = []tiling{
	{[...]tilesFunc{device.Put: (*Device).gemm_tiles_256_store, device.Add: (*Device).gemm_tiles_256_add, device.Gate: (*Device).gemm_tiles_256_gate, device.Turn: (*Device).gemm_tiles_256_turn}, gemm_tiles_wide},
	{[...]tilesFunc{device.Put: (*Device).gemm_tiles_128_store, device.Add: (*Device).gemm_tiles_128_add, device.Gate: (*Device).gemm_tiles_128_gate, device.Turn: (*Device).gemm_tiles_128_turn}, gemm_tiles_slim},
}

// count returns the tiles, of columns, of all matrices.
func (t tiling) count(p *tiledProduct) (n int) {
	if p.then == device.Gate {
		return pieces(p.list[0].columns, t.columns/2)
	}
	for _, m := range p.list {
		n += pieces(m.columns, t.columns)
	}
	return n
}

// A division is how clusters divide tiles: so many of those are whole, each one after that is
// two halves, in the last round. Some clusters have less to do than others then.
type division struct{ clusters, whole, last, idle int }

// divide divides the tiles of p. Only wide ones are halved.
func (t tiling) divide(d *Device, p *tiledProduct) division {
	const cluster = gemm_tiles_cluster_blocks
	tiles := t.count(p) * pieces(p.x.Rows, cluster*gemm_tiles_bm)
	v := division{clusters: min(d.sms/cluster, tiles), whole: tiles}
	rest := tiles % v.clusters
	switch {
	case t.columns == gemm_tiles_wide && rest > 0 && 2*rest <= v.clusters:
		v.whole, v.last, v.idle = tiles-rest, t.columns/2, v.clusters-2*rest
	case rest > 0:
		v.last, v.idle = t.columns, v.clusters-rest
	}
	return v
}

// busy returns how many columns the cluster multiplies that has most to do. A half takes three
// quarters of what a whole tile does.
func (v division) busy(t tiling) int {
	last := v.last
	if last < t.columns {
		last = last * 3 / 2
	}
	return v.whole/v.clusters*t.columns + last
}

// tilingFor chooses the kernel that leaves multiprocessors idle the least; wide tiles do
// their work a tenth faster.
func (d *Device) tilingFor(p *tiledProduct) tiling {
	wide, slim := tilings[0].divide(d, p), tilings[1].divide(d, p)
	if wide.whole > 0 && 10*wide.busy(tilings[0]) <= 11*slim.busy(tilings[1]) {
		return tilings[0]
	}
	return tilings[1]
}

// idleUnits returns how many units the warps that have no tile in the last round decode
// while others multiply theirs: one each in the time of so many weights of a tile.
func (d *Device) idleUnits(p *tiledProduct) int {
	const weights = 50000
	t := d.tilingFor(p)
	v := t.divide(d, p)
	return v.idle * gemm_tiles_cluster_blocks * gemm_tiles_warps * (p.x.Cols * v.last / weights)
}

// multiplyTiles makes products for which tiles holds.
func (d *Device) multiplyTiles(p *tiledProduct) {
	if d.err != nil {
		return
	}
	t := d.tilingFor(p)
	c := &tilesProduct{m: int32(p.x.Rows), k: int32(p.x.Cols), count: int32(len(p.list)), tiles: int32(t.count(p)),
		act: int32(p.act), wide: flag(p.list[0].y.Type == tensor.F32)}
	copy(c.x[:], d.tileMap(p.x, gemm_tiles_bm))
	copy(c.w[:], d.tileMap(p.w, t.columns/2))
	copy(c.halves[:], d.tileMap(p.w, t.columns/4))
	c.order, c.turns, c.places, c.dim = uint64(d.at(p.order)), uint64(d.at(p.turns.turns)), uint64(d.at(p.turns.places)), int32(p.turns.dim)
	v := t.divide(d, p)
	c.ahead, c.beside, c.idle, c.whole = int32(copy(c.unpackings[:], p.ahead)), int32(p.beside), int32(gemm_tiles_cluster_blocks*(v.clusters-v.idle)), int32(v.whole)
	c.unread = int32(p.unread)
	for _, u := range p.ahead {
		c.units += u.end - u.first
	}
	row, tiles := 0, 0
	for i, m := range p.list {
		c.matrices[i] = tilesMatrix{y: uint64(d.at(m.y)), bias: uint64(d.at(m.bias)), ldy: int64(m.y.Stride), row: int32(row), columns: int32(m.columns), tiles: int32(tiles)}
		row, tiles = row+m.columns, tiles+pieces(m.columns, t.columns)
	}
	const cluster = gemm_tiles_cluster_blocks
	l := launch{blocks: dim{x: cluster * v.clusters}, threads: dim{x: gemm_tiles_threads}, shared: gemm_tiles_shared_bytes, cluster: cluster}
	t.kernels[p.then](d, l, unsafe.Slice((*byte)(unsafe.Pointer(c)), unsafe.Sizeof(*c)))
}
