package cpu

import (
	"fmt"

	"exl2/internal/device"
	"exl2/internal/parallel"
	"exl2/internal/tensor"
)

// cache is keys and values in float32, layer by layer.
type cache struct {
	shape device.CacheShape
	k, v  [][]float32 // by layer: [pages·PageRows, columns]
}

func (c *cache) Shape() device.CacheShape { return c.shape }
func (c *cache) Bytes() int               { return cacheBytes(c.shape) }

func cacheBytes(s device.CacheShape) int { return s.Layers * s.Pages * s.PageRows * (s.K + s.V) * 4 }

// NewCache makes a cache of zeros.
func (d *Device) NewCache(s device.CacheShape) device.Cache {
	if min(s.Layers, s.Pages, s.K, s.V) < 0 || s.PageRows < 1 {
		panic(fmt.Sprintf("cpu: NewCache: %+v", s))
	}
	c, rows := &cache{shape: s}, s.Pages*s.PageRows
	for range s.Layers {
		c.k, c.v = append(c.k, make([]float32, rows*s.K)), append(c.v, make([]float32, rows*s.V))
	}
	return c
}

// FreeCache leaves the memory to the garbage collector.
func (d *Device) FreeCache(c device.Cache) {
	if c, ok := c.(*cache); ok && c != nil {
		c.k, c.v = nil, nil
	}
}

// CacheBytes returns the size of a cache's pages.
func (d *Device) CacheBytes(s device.CacheShape) int { return cacheBytes(s) }

// pages is one layer of a cache, and what a batch has of it.
type pages struct {
	k, v         []float32
	kCols, vCols int
	table        []int32
	tableCols    int
	rowsAPage    int
}

func pagesOf(op string, c device.Cache, layer int, b device.Batch) pages {
	m, ok := c.(*cache)
	if !ok || layer < 0 || layer >= len(m.k) {
		panic(fmt.Sprintf("cpu: %s: layer %d of a cache of %+v", op, layer, c.Shape()))
	}
	return pages{
		k: m.k[layer], v: m.v[layer], kCols: m.shape.K, vCols: m.shape.V,
		table: ints(op, b.Table), tableCols: b.Table.Cols, rowsAPage: m.shape.PageRows,
	}
}

// row returns the row of the cache that holds a position of a sequence.
func (p pages) row(seq, pos int) int {
	return int(p.table[seq*p.tableCols+pos/p.rowsAPage])*p.rowsAPage + pos%p.rowsAPage
}

// gather copies one head of positions lo to hi of a sequence, from keys or
// values, into dst [hi-lo, dim].
func (p pages) gather(dst, from []float32, cols, seq, lo, hi, at, dim int) {
	for pos := lo; pos < hi; pos++ {
		r := p.row(seq, pos)
		copy(dst[(pos-lo)*dim:(pos-lo+1)*dim], from[r*cols+at:r*cols+at+dim])
	}
}

// span returns one head, which begins at column at, of positions lo to hi of a
// sequence, from keys or values: rows of stride. It copies them to buf, of
// (hi-lo)·dim, unless they lie in order.
func (p pages) span(buf, from []float32, cols, seq, lo, hi, at, dim int) (rows []float32, stride int) {
	first := p.row(seq, lo)
	for pos := lo + p.rowsAPage - lo%p.rowsAPage; pos < hi; pos += p.rowsAPage {
		if p.row(seq, pos) != first+pos-lo {
			p.gather(buf, from, cols, seq, lo, hi, at, dim)
			return buf, dim
		}
	}
	return from[first*cols+at:], cols
}

// Store puts rows of keys and values in their places.
func (d *Device) Store(c device.Cache, layer int, k, v tensor.Tensor, b device.Batch) {
	p := pagesOf("Store", c, layer, b)
	want(k.Rows == b.Pos.Cols && v.Rows == k.Rows && k.Cols == p.kCols && v.Cols == p.vCols, "Store", k, v, b.Pos)
	pos, seq := ints("Store", b.Pos), ints("Store", b.Seq)
	keys, values := rowsOf("Store", k), rowsOf("Store", v)
	parallel.Runs(k.Rows, rowTile, func(lo, hi int) {
		for r := lo; r < hi; r++ {
			at := p.row(int(seq[r]), int(pos[r]))
			copy(p.k[at*p.kCols:(at+1)*p.kCols], keys.row(r))
			copy(p.v[at*p.vCols:(at+1)*p.vCols], values.row(r))
		}
	})
}
