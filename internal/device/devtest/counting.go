package devtest

import (
	"errors"
	"fmt"
	"slices"

	"exl2/internal/affine"
	"exl2/internal/device"
	"exl2/internal/exl2"
	"exl2/internal/tensor"
)

// A Counter is a device that keeps account of what has been made and not freed:
// memory that is lost shows on no device whose memory is collected. It is not a
// Borrower, a Peer or a Meter, whatever its device is.
type Counter struct {
	device.Quantize
	live   map[any]thing // by memory, matrix or cache
	made   int
	bytes  int
	peak   int
	faults []error
}

// A thing is something made.
type thing struct {
	name   string
	number int // in the order of making
	bytes  int
}

// Counting returns a device that does what d does, and counts.
func Counting(d device.Quantize) *Counter {
	return &Counter{Quantize: d, live: map[any]thing{}}
}

// Live lists what has been made and not freed, oldest first.
func (c *Counter) Live() (names []string) {
	var all []thing
	for _, x := range c.live {
		all = append(all, x)
	}
	slices.SortFunc(all, func(a, b thing) int { return a.number - b.number })
	for _, x := range all {
		names = append(names, x.name)
	}
	return names
}

// Bytes returns the size of what is live, Peak the largest that has been.
func (c *Counter) Bytes() int { return c.bytes }

// Peak returns the largest number of bytes that has been live at once.
func (c *Counter) Peak() int { return c.peak }

// Faults returns what has been freed twice, or never made, nil if nothing has.
func (c *Counter) Faults() error { return errors.Join(c.faults...) }

func (c *Counter) add(key any, name string, bytes int) {
	c.made++
	c.live[key] = thing{fmt.Sprintf("%d: %s", c.made, name), c.made, bytes}
	c.bytes += bytes
	c.peak = max(c.peak, c.bytes)
}

func (c *Counter) remove(key any, what string) {
	x, ok := c.live[key]
	if !ok {
		c.faults = append(c.faults, fmt.Errorf("devtest: %s is freed, and not live", what))
		return
	}
	delete(c.live, key)
	c.bytes -= x.bytes
}

// Alloc allocates memory, and counts it.
func (c *Counter) Alloc(t tensor.Type, rows, cols int) tensor.Tensor {
	x := c.Quantize.Alloc(t, rows, cols)
	c.add(x.Mem, x.String(), x.Bytes())
	return x
}

// Free frees memory, and counts it.
func (c *Counter) Free(t tensor.Tensor) {
	if !t.Nil() {
		c.remove(t.Mem, t.String())
	}
	c.Quantize.Free(t)
}

// ReadyToDescend makes what descents share, and counts it.
func (c *Counter) ReadyToDescend(f device.Factor) tensor.Tensor {
	x := c.Quantize.ReadyToDescend(f)
	if !x.Nil() {
		c.add(x.Mem, x.String(), x.Bytes())
	}
	return x
}

// LoadEXL2 loads a matrix, and counts it.
func (c *Counter) LoadEXL2(m *exl2.Matrix, out int) device.Matrix {
	return c.matrix(c.Quantize.LoadEXL2(m, out))
}

// LoadAffine loads a matrix, and counts it.
func (c *Counter) LoadAffine(m *affine.Matrix) device.Matrix {
	return c.matrix(c.Quantize.LoadAffine(m))
}

// Assemble makes a matrix, and counts it.
func (c *Counter) Assemble(x device.Coding, words, scales, perm tensor.Tensor, out int) device.Matrix {
	return c.matrix(c.Quantize.Assemble(x, words, scales, perm, out))
}

func (c *Counter) matrix(m device.Matrix) device.Matrix {
	c.add(m, matrixName(m), m.Bytes())
	return m
}

func matrixName(m device.Matrix) string { return fmt.Sprintf("matrix %dx%d", m.In(), m.Out()) }

// FreeEXL2 frees a matrix, and counts it.
func (c *Counter) FreeEXL2(m device.Matrix) {
	c.remove(m, matrixName(m))
	c.Quantize.FreeEXL2(m)
}

// Group makes a group, and counts it.
func (c *Counter) Group(list []device.Matrix, dense, biases []tensor.Tensor) device.Group {
	g := c.Quantize.Group(list, dense, biases)
	c.add(g, groupName(g), 0)
	return g
}

func groupName(g device.Group) string {
	return fmt.Sprintf("group of %d %dx%d", g.Len(), g.In(), g.Out())
}

// FreeGroup frees a group, and counts it.
func (c *Counter) FreeGroup(g device.Group) {
	c.remove(g, groupName(g))
	c.Quantize.FreeGroup(g)
}

// NewCache makes a cache, and counts it.
func (c *Counter) NewCache(s device.CacheShape) device.Cache {
	x := c.Quantize.NewCache(s)
	c.add(x, cacheName(x), x.Bytes())
	return x
}

func cacheName(c device.Cache) string { return fmt.Sprintf("cache of %d layers", c.Shape().Layers) }

// FreeCache frees a cache, and counts it.
func (c *Counter) FreeCache(x device.Cache) {
	c.remove(x, cacheName(x))
	c.Quantize.FreeCache(x)
}
