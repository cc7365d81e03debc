package cuda

import (
	"slices"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// cache is keys and values in fp16, layer by layer.
type cache struct {
	shape device.CacheShape
	k, v  []tensor.Tensor // F16 [pages·page rows, columns], by layer
	maps  tensor.Tensor   // U8 [layers·map heights·2, bytes]: tiles of keys and of values, for attend_hopper.cu
}

func (c *cache) Shape() device.CacheShape { return c.shape }

// Bytes is what all pages take.
func (c *cache) Bytes() int { return cacheBytes(c.shape) + c.maps.Bytes() }

func cacheBytes(s device.CacheShape) int {
	return s.Layers * s.Pages * s.PageRows * (s.K + s.V) * tensor.F16.Size()
}

// CacheBytes returns the bytes of a cache.
func (d *Device) CacheBytes(s device.CacheShape) int {
	return cacheBytes(s) + d.mapRows(s)*attend_hopper_map_bytes
}

// mapRows returns how many descriptions of tiles a cache has.
func (d *Device) mapRows(s device.CacheShape) int {
	if d.hopper() && s.K == s.V && s.K > 0 && s.K%8 == 0 && s.PageRows%pageUnit == 0 {
		return 2 * len(mapHeights) * s.Layers
	}
	return 0
}

// NewCache allocates a cache.
func (d *Device) NewCache(s device.CacheShape) device.Cache {
	c := &cache{shape: s}
	for range s.Layers {
		c.k = append(c.k, d.Alloc(tensor.F16, s.Pages*s.PageRows, s.K))
		c.v = append(c.v, d.Alloc(tensor.F16, s.Pages*s.PageRows, s.V))
	}
	if n := d.mapRows(s); n > 0 && d.err == nil {
		c.maps = d.Alloc(tensor.U8, n, attend_hopper_map_bytes)
		d.Upload(c.maps, d.tileMaps(c))
	}
	return c
}

// mapHeights are the most positions that attend_hopper.cu copies at a time, by the
// dimensions of heads.
var mapHeights = [...]int{attend_hopper_keys_128, attend_hopper_keys_256, attend_hopper_keys_512}

// tileMaps describes the keys and the values of every layer, in tiles of every height.
func (d *Device) tileMaps(c *cache) (all []byte) {
	for i := range c.k {
		for _, rows := range mapHeights {
			for c.shape.PageRows%rows != 0 {
				rows /= 2
			}
			all = append(all, d.tileMap(c.k[i], rows)...)
			all = append(all, d.tileMap(c.v[i], rows)...)
		}
	}
	return all
}

// tilesOf returns those of a layer's keys and values.
func (c *cache) tilesOf(layer, rows int) tensor.Tensor {
	at := 2 * (layer*len(mapHeights) + slices.Index(mapHeights[:], rows))
	return c.maps.Slice(at, at+2)
}

// FreeCache frees a cache.
func (d *Device) FreeCache(of device.Cache) {
	c := of.(*cache)
	for i := range c.k {
		d.Free(c.k[i])
		d.Free(c.v[i])
	}
	if !c.maps.Nil() {
		d.Free(c.maps)
	}
}

// Layer returns the keys and values of a layer, as tests look at them.
func (c *cache) Layer(layer int) (k, v tensor.Tensor) { return c.k[layer], c.v[layer] }
