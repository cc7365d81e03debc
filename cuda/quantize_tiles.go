package cuda

import (
	"unsafe"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// tiledMoment and tiledMoments are Moment and Moments of kernels/gram_tiles.cu.
type tiledMoment struct {
	x, y [attend_hopper_map_bytes]byte
	h    uint64
	ld   int64
	m, n int32
	_    [10]int32
}

type tiledMoments struct {
	moments  [gram_tiles_most_moments]tiledMoment
	tiles    uint64
	count, k int32
	_        [12]int32
}

// tilesGram reports whether gram_tiles.cu adds a moment.
func (d *Device) tilesGram(m device.Moment) bool {
	copied := func(t tensor.Tensor) bool {
		return t.Type == tensor.F16 && t.Off%16 == 0 && t.Stride%8 == 0 && t.Cols >= gram_tiles_box
	}
	return d.hopper() && copied(m.X) && copied(m.Y)
}

// tilesWith reports whether two moments go in one launch: of as many rows, of two h.
func (d *Device) tilesWith(a, b device.Moment) bool {
	return a.X.Rows == b.X.Rows && d.at(a.H) != d.at(b.H)
}

// gramTiles adds one moment, or two.
func (d *Device) gramTiles(list ...device.Moment) {
	if d.err != nil || list[0].X.Rows == 0 {
		return
	}
	p, tiles := &tiledMoments{k: int32(list[0].X.Rows)}, []int32(nil)
	for i, m := range list {
		checkGram(m.H, m.X, m.Y)
		to := &p.moments[i]
		to.h, to.ld, to.m, to.n = uint64(d.at(m.H)), int64(m.H.Stride), int32(m.H.Rows), int32(m.H.Cols)
		copy(to.x[:], d.tileMap(m.X, gram_tiles_depth))
		copy(to.y[:], d.tileMap(m.Y, gram_tiles_depth))
		tiles = appendTiles(tiles, i, m.H, sameTensor(m.X, m.Y))
	}
	at := table(d, tiles)
	defer d.Free(at)
	p.tiles, p.count = uint64(d.at(at)), int32(len(tiles))
	const cluster = gram_tiles_cluster_blocks
	l := launch{blocks: dim{x: cluster * min(d.sms/cluster, len(tiles))}, threads: dim{x: gram_tiles_threads}, shared: gram_tiles_shared_bytes, cluster: cluster}
	d.gram_tiles(l, unsafe.Slice((*byte)(unsafe.Pointer(p)), unsafe.Sizeof(*p)))
}

// appendTiles lists the tiles of a moment, those that run at a time near each other, or
// those of them that are not below its diagonal.
func appendTiles(list []int32, moment int, h tensor.Tensor, upper bool) []int32 {
	const band, high, wide = 8, gram_tiles_cluster_blocks * gram_tiles_bm, gram_tiles_bn // of what a cluster computes
	down := pieces(h.Rows, high)
	for top := 0; top < down; top += band {
		for j := range pieces(h.Cols, wide) {
			for i := top; i < min(top+band, down); i++ {
				if !upper || i*high < (j+1)*wide {
					list = append(list, int32(moment<<(2*gram_tiles_column_bits)|i<<gram_tiles_column_bits|j))
				}
			}
		}
	}
	return list
}
