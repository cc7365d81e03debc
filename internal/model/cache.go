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
	Layers    int // whose keys and values are kept apart; 1 when modules run one at a time
	Recurrent int // layers of linear attention, whose states are kept apart; likewise
	Sequences int
	Positions int // of each sequence, at most
}

// CacheOf is a cache for layers of a model from one to another.
func CacheOf(spec arch.Spec, from, to, sequences, positions int) CacheSize {
	z := CacheSize{Sequences: sequences, Positions: positions}
	z.Layers, z.Recurrent = spec.Keeping(from, to)
	return z
}

// WholeCache is a cache for all layers.
func WholeCache(spec arch.Spec, sequences, positions int) CacheSize {
	return CacheOf(spec, 0, spec.Layers, sequences, positions)
}

// SharedCache is a cache that all layers share, for modules that run one at a time.
func SharedCache(spec arch.Spec, sequences, positions int) CacheSize {
	z := WholeCache(spec, sequences, positions)
	z.Layers, z.Recurrent = min(z.Layers, 1), min(z.Recurrent, 1)
	return z
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
// the table of their pages, and the states of linear attention, which are those behind the
// last position that a sequence has been given.
type Cache struct {
	CacheSize
	Cache device.Cache
	Table tensor.Tensor // I32 [sequences, pages of each]

	dev   device.Device
	state device.DeltaState // a row for each sequence of each layer with linear attention
}

// NewCache allocates a cache on d in which every sequence has all of its pages.
func NewCache(d device.Device, spec arch.Spec, z CacheSize) *Cache {
	c := &Cache{CacheSize: z, dev: d, Cache: d.NewCache(z.shape(spec)), Table: d.Alloc(tensor.I32, z.Sequences, z.PagesEach())}
	c.states(spec)
	c.Assign(NewPages(z).Table())
	return c
}

// Assign sets the page table, by sequence.
func (c *Cache) Assign(table []int32) { upload(c.dev, c.Table, table) }

// Free frees the cache.
func (c *Cache) Free() {
	c.dev.FreeCache(c.Cache)
	c.dev.Free(c.Table)
	c.dev.Free(c.state.State)
	c.dev.Free(c.state.Inputs)
}

// CacheBytes returns the device memory that NewCache takes on d.
func CacheBytes(d device.Device, spec arch.Spec, z CacheSize) int {
	return d.CacheBytes(z.shape(spec)) + 4*z.Sequences*z.PagesEach() + z.stateBytes(d, spec)
}
