package cuda

import (
	"exl2/internal/device"
	"exl2/internal/tensor"
)

// cache is keys and values in fp16, layer by layer.
type cache struct {
	shape device.CacheShape
	k, v  []tensor.Tensor // F16 [pages·page rows, columns], by layer
}

func (c *cache) Shape() device.CacheShape { return c.shape }

// Bytes is what all pages take.
func (c *cache) Bytes() int { return cacheBytes(c.shape) }

func cacheBytes(s device.CacheShape) int {
	return s.Layers * s.Pages * s.PageRows * (s.K + s.V) * tensor.F16.Size()
}

// CacheBytes returns the bytes of a cache.
func (d *Device) CacheBytes(s device.CacheShape) int { return cacheBytes(s) }

// NewCache allocates a cache.
func (d *Device) NewCache(s device.CacheShape) device.Cache {
	c := &cache{shape: s}
	for range s.Layers {
		c.k = append(c.k, d.Alloc(tensor.F16, s.Pages*s.PageRows, s.K))
		c.v = append(c.v, d.Alloc(tensor.F16, s.Pages*s.PageRows, s.V))
	}
	return c
}

// FreeCache frees a cache.
func (d *Device) FreeCache(of device.Cache) {
	c := of.(*cache)
	for i := range c.k {
		d.Free(c.k[i])
		d.Free(c.v[i])
	}
}

// Layer returns the keys and values of a layer, as tests look at them.
func (c *cache) Layer(layer int) (k, v tensor.Tensor) { return c.k[layer], c.v[layer] }
