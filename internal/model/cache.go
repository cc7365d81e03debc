package model

import (
	"slices"

	"exl2/internal/arch"
	"exl2/internal/device"
	"exl2/internal/tensor"
)

// PageRows is the number of positions in a page of a cache.
const PageRows = 256

// CacheSize says what a Cache has room for.
type CacheSize struct {
	Kinds     []CacheKind // of layers with keys and values, by how many columns these have
	Recurrent int         // layers of linear attention, whose states are kept apart; 1 when modules run one at a time
	Sequences int
	Positions int // of each sequence, at most

	spots []spot // of layers
	first int    // layer
}

// A spot is where a layer has its keys and values in a cache.
type spot struct {
	kind, layer int
	stores      bool // others attend to what the first layer has stored of those that have the same
}

// A CacheKind is layers whose keys have as many columns, and so have their values.
type CacheKind struct {
	Layers int // whose keys and values are kept apart; 1 when modules run one at a time
	K, V   int // columns; no values where they are part of the keys
}

// kindOf returns what a layer keeps, of no layers yet.
func kindOf(spec arch.Spec, layer int) CacheKind {
	if l := spec.Latent; l.KVRank > 0 {
		return CacheKind{K: l.Rope + l.KVRank}
	}
	n := spec.AttnOf(layer).Keys()
	return CacheKind{K: n, V: n}
}

// CacheOf is a cache for layers of a model from one to another.
func CacheOf(spec arch.Spec, from, to, sequences, positions int) CacheSize {
	z := CacheSize{Sequences: sequences, Positions: positions, first: from}
	_, z.Recurrent = spec.Keeping(from, to)
	lent := map[int]spot{} // by who lends
	for l := from; l < to; l++ {
		if !spec.Caches(l) {
			z.spots = append(z.spots, spot{})
			continue
		}
		at, there := lent[spec.Lender(l)]
		if at.stores = !there; !there {
			at.kind, at.layer = z.add(kindOf(spec, l))
			lent[spec.Lender(l)] = at
		}
		z.spots = append(z.spots, at)
	}
	return z
}

// add counts a layer of a kind, and returns which kind that is, and which layer of it.
func (z *CacheSize) add(kind CacheKind) (i, layer int) {
	if i = z.kind(kind.K); i < 0 {
		i, z.Kinds = len(z.Kinds), append(z.Kinds, kind)
	}
	z.Kinds[i].Layers++
	return i, z.Kinds[i].Layers - 1
}

// kind returns which kind has so many columns of keys, or -1.
func (z CacheSize) kind(columns int) int {
	return slices.IndexFunc(z.Kinds, func(k CacheKind) bool { return k.K == columns })
}

// WholeCache is a cache for all layers.
func WholeCache(spec arch.Spec, sequences, positions int) CacheSize {
	return CacheOf(spec, 0, spec.Layers, sequences, positions)
}

// SharedCache is a cache that all layers share, for modules that run one at a time.
func SharedCache(spec arch.Spec, sequences, positions int) CacheSize {
	z := WholeCache(spec, sequences, positions)
	for i := range z.Kinds {
		z.Kinds[i].Layers = 1
	}
	for i := range z.spots {
		z.spots[i].layer, z.spots[i].stores = 0, true
	}
	z.Recurrent = min(z.Recurrent, 1)
	return z
}

// PagesEach returns the pages that a sequence takes at most.
func (z CacheSize) PagesEach() int { return (z.Positions + PageRows - 1) / PageRows }

// shapes returns what a device needs to know, for each kind.
func (z CacheSize) shapes() (list []device.CacheShape) {
	for _, k := range z.Kinds {
		list = append(list, device.CacheShape{Layers: k.Layers, Pages: z.Sequences * z.PagesEach(), PageRows: PageRows, K: k.K, V: k.V})
	}
	return list
}

// A Cache is the keys and values of sequences in the layers that a device has,
// the table of their pages, and the states of linear attention, which are those behind the
// last position that a sequence has been given.
type Cache struct {
	CacheSize
	Table tensor.Tensor // I32 [sequences, pages of each], of all kinds

	dev   device.Device
	kinds []device.Cache
	state device.DeltaState // a row for each sequence of each layer with linear attention
}

// NewCache allocates a cache on d in which every sequence has all of its pages.
func NewCache(d device.Device, spec arch.Spec, z CacheSize) *Cache {
	c := &Cache{CacheSize: z, dev: d, Table: d.Alloc(tensor.I32, z.Sequences, z.PagesEach())}
	for _, s := range z.shapes() {
		c.kinds = append(c.kinds, d.NewCache(s))
	}
	c.states(spec)
	c.Assign(NewPages(z).Table())
	return c
}

// Assign sets the page table, by sequence.
func (c *Cache) Assign(table []int32) { upload(c.dev, c.Table, table) }

// Free frees the cache.
func (c *Cache) Free() {
	for _, k := range c.kinds {
		c.dev.FreeCache(k)
	}
	c.dev.Free(c.Table)
	c.dev.Free(c.state.State)
	c.dev.Free(c.state.Inputs)
}

// PositionBytes is what a position of a sequence takes, in all layers of the cache.
func (c *Cache) PositionBytes() (sum int) {
	for _, k := range c.kinds {
		sum += k.Bytes() / (k.Shape().Pages * k.Shape().PageRows)
	}
	return sum
}

// CacheBytes returns the device memory that NewCache takes on d.
func CacheBytes(d device.Device, spec arch.Spec, z CacheSize) int {
	n := 4*z.Sequences*z.PagesEach() + z.stateBytes(d, spec)
	for _, s := range z.shapes() {
		n += d.CacheBytes(s)
	}
	return n
}

// of returns the cache of a device that has a layer's keys and values, and the layer there.
func (c *Cache) of(layer int) (device.Cache, int) {
	at := c.spots[layer-c.first]
	return c.kinds[at.kind], at.layer
}

// stores reports whether a layer stores what it attends to, or another one has.
func (c *Cache) stores(layer int) bool { return c.spots[layer-c.first].stores }
