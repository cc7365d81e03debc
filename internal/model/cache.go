package model

import (
	"exl2/internal/arch"
	"exl2/internal/device"
	"exl2/internal/tensor"
)

// PageRows is the number of positions in a page of a cache.
const PageRows = 256

// CacheSize says what a Cache has room for.
type CacheSize struct {
	Layers    int // that are cached apart; 1 when modules run one at a time
	Sequences int
	Positions int // of each sequence, at most
}

// PagesEach returns the pages that a sequence takes at most.
func (z CacheSize) PagesEach() int { return (z.Positions + PageRows - 1) / PageRows }

// shape returns what a device needs to know.
func (z CacheSize) shape(spec arch.Spec) device.CacheShape {
	k := spec.Attn.KVHeads * spec.Attn.HeadDim
	v := k
	if l := spec.Latent; l.KVRank > 0 { // values are part of the keys
		k, v = l.Rope+l.KVRank, 0
	}
	return device.CacheShape{Layers: z.Layers, Pages: z.Sequences * z.PagesEach(), PageRows: PageRows, K: k, V: v}
}

// A Cache is the keys and values of sequences in the layers that a device has,
// and the table of their pages.
type Cache struct {
	CacheSize
	Cache device.Cache
	Table tensor.Tensor // I32 [sequences, pages of each]

	dev device.Device
}

// NewCache allocates a cache on d in which every sequence has all of its pages.
func NewCache(d device.Device, spec arch.Spec, z CacheSize) *Cache {
	c := &Cache{CacheSize: z, dev: d, Cache: d.NewCache(z.shape(spec)), Table: d.Alloc(tensor.I32, z.Sequences, z.PagesEach())}
	c.Assign(NewPages(z).Table())
	return c
}

// Assign sets the page table, by sequence.
func (c *Cache) Assign(table []int32) { upload(c.dev, c.Table, table) }

// Free frees the cache.
func (c *Cache) Free() {
	c.dev.FreeCache(c.Cache)
	c.dev.Free(c.Table)
}

// CacheBytes returns the device memory that NewCache takes on d.
func CacheBytes(d device.Device, spec arch.Spec, z CacheSize) int {
	return d.CacheBytes(z.shape(spec)) + 4*z.Sequences*z.PagesEach()
}
