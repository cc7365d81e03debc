package devtest

import (
	"exl2/internal/device"
	"exl2/internal/tensor"
)

// A Carrying is a device that copies to and from another memory as a device.Carrier may:
// as early as it can or, if it is Late, not before somebody waits for it.
type Carrying struct {
	device.Quantize
	Host device.Memory // what stands for the host's memory
	Late bool

	marks []moment
	queue [2][]carried // to the device, to the host
	done  [2]int       // how many of them are
	home  map[tensor.Memory]bool
}

// A moment is the end of a copy: the last one of a queue's first so many.
type moment struct{ way, number int }

// carried is a copy.
type carried struct {
	dst, src tensor.Tensor
	after    []moment
}

// AllocHost allocates what stands for the host's memory.
func (c *Carrying) AllocHost(t tensor.Type, rows, cols int) (tensor.Tensor, bool) {
	x := c.Host.Alloc(t, rows, cols)
	if c.home == nil {
		c.home = map[tensor.Memory]bool{}
	}
	c.home[x.Mem] = true
	return x, true
}

// Free frees either memory.
func (c *Carrying) Free(t tensor.Tensor) {
	if c.home[t.Mem] {
		delete(c.home, t.Mem)
		c.Host.Free(t)
		return
	}
	c.Quantize.Free(t)
}

// NewMark makes a mark.
func (c *Carrying) NewMark() device.Mark {
	c.marks = append(c.marks, moment{})
	return device.Mark(len(c.marks) - 1)
}

// Set sets a mark: operations are done as they are issued.
func (c *Carrying) Set(m device.Mark) { c.marks[m] = moment{} }

// Await waits for a mark.
func (c *Carrying) Await(m device.Mark) { c.until(c.marks[m]) }

// Carry copies.
func (c *Carrying) Carry(dst, src tensor.Tensor, done device.Mark, after ...device.Mark) {
	way := 0
	if c.home[dst.Mem] {
		way = 1
	}
	if c.home[src.Mem] == c.home[dst.Mem] || dst.Type != src.Type || dst.Bytes() != src.Bytes() {
		panic("devtest: Carry from " + src.String() + " to " + dst.String())
	}
	x := carried{dst: dst, src: src}
	for _, m := range after {
		x.after = append(x.after, c.marks[m])
	}
	c.queue[way] = append(c.queue[way], x)
	c.marks[done] = moment{way, len(c.queue[way])}
	if !c.Late {
		c.until(c.marks[done])
	}
}

// until makes the copies that end with m, and those that they wait for.
func (c *Carrying) until(m moment) {
	for c.done[m.way] < m.number {
		x := c.queue[m.way][c.done[m.way]]
		for _, before := range x.after {
			c.until(before)
		}
		c.Copy(x.dst, x.src)
		c.done[m.way]++
	}
}
