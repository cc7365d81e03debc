package model

import (
	"exl2/internal/arch"
	"exl2/internal/device"
	"exl2/internal/tensor"
)

// recurrent makes linear attention, or convolutions.
func (b *builder) recurrent(m *Module) {
	if b.Spec.Short.Kernel > 0 {
		b.short(m)
		return
	}
	b.delta(m)
}

// BackBytes is what the way back through linear attention takes beside gradients, of so many runs.
func BackBytes(d device.Device, spec arch.Spec, runs, span int) int {
	b, ok := d.(device.Backward)
	switch g := deltaOf(spec); {
	case !ok || !spec.Recurrent():
		return 0
	case spec.Short.Kernel > 0:
		return runs * span * spec.Hidden * tensor.F32.Size()
	default:
		return runs*span*g.Values()*(2*d.Activation().Size()+tensor.F32.Size()) + b.GatedDeltaBackBytes(g, runs, span)
	}
}

// states makes what the layers of a cache that have linear attention, or convolutions, know of sequences.
func (c *Cache) states(spec arch.Spec) {
	if c.Recurrent == 0 {
		return
	}
	shape, rows := deltaOf(spec), c.Recurrent*c.Sequences
	if s := spec.Short; s.Kernel > 0 {
		if s.Kernel > 1 {
			c.state.Inputs = c.dev.Alloc(tensor.F32, rows, (s.Kernel-1)*spec.Hidden)
		}
		return
	}
	c.state.State = c.dev.Alloc(tensor.F32, rows, shape.StateSize())
	if shape.Kernel > 1 {
		c.state.Inputs = c.dev.Alloc(c.dev.Activation(), rows, (shape.Kernel-1)*shape.Columns())
	}
}

// recurrent returns what a layer knows, its number being one of those that have states.
func (c *Cache) recurrent(layer int) device.DeltaState {
	i, s := layer%c.Recurrent, c.state
	for _, t := range []*tensor.Tensor{&s.State, &s.Inputs} {
		if !t.Nil() {
			*t = t.Slice(i*c.Sequences, (i+1)*c.Sequences)
		}
	}
	return s
}

// StateBytes is what the states of a sequence take, in all layers of the cache that have one.
func (c *Cache) StateBytes() int {
	return (c.state.State.Bytes() + c.state.Inputs.Bytes()) / max(c.Sequences, 1)
}

// stateBytes returns the memory of states.
func (z CacheSize) stateBytes(d device.Device, spec arch.Spec) int {
	if s := spec.Short; s.Kernel > 0 {
		return z.Recurrent * z.Sequences * 4 * (s.Kernel - 1) * spec.Hidden
	}
	shape := deltaOf(spec)
	return z.Recurrent * z.Sequences * (4*shape.StateSize() + d.Activation().Size()*(shape.Kernel-1)*shape.Columns())
}
