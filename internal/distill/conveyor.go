package distill

import (
	"fmt"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// A conveyor brings what is kept in the host's memory to the device, shortly before it is
// needed, and back, while the device works.
type conveyor struct {
	dev   device.Carrier
	slots []slot
	list  []visit // of the pass
	at    int     // how many of them have left
}

// slotsEach is how many modules are on the way or at work: one that comes, one that is
// there and one that leaves.
const slotsEach = 3

// A slot is room for a module.
type slot struct {
	room          tensor.Tensor // U8 [1, bytes]
	arrived, over device.Mark
	free          device.Mark // when it has room again
}

// A ware is a tensor that is kept in the host's memory.
type ware struct {
	home tensor.Tensor
	put  func(x tensor.Tensor) // tells of where it is now
}

// A cargo is what a module has in the host's memory.
type cargo struct {
	sources, values, moments []ware
	home                     device.Mark // when what has changed is back
}

// A visit is a module's use of some of its cargo.
type visit struct {
	*cargo
	wares   []ware
	changes bool
}

// sizes lists shapes for slotBytes.
func sizes(list ...[]ware) (n int) {
	for _, wares := range list {
		for _, w := range wares {
			n += padded(w.home.Bytes())
		}
	}
	return n
}

// padded is what a tensor takes of a slot.
func padded(n int) int { return (n + 255) / 256 * 256 }

// newConveyor makes room for the largest of cargos on d.
func newConveyor(d device.Quantize, list []*cargo) (*conveyor, error) {
	carrier, ok := d.(device.Carrier)
	if !ok {
		return nil, fmt.Errorf("train: %s does not copy beside its work", d.Name())
	}
	most := 0
	for _, c := range list {
		c.home = carrier.NewMark()
		most = max(most, sizes(c.sources), sizes(c.values, c.moments))
	}
	v := &conveyor{dev: carrier}
	for range slotsEach {
		s := slot{room: d.Alloc(tensor.U8, 1, most), arrived: carrier.NewMark(), over: carrier.NewMark()}
		s.free = s.over
		carrier.Set(s.over) // the room is cleared
		v.slots = append(v.slots, s)
	}
	return v, nil
}

// begin says what will be visited, and has the first ones come.
func (c *conveyor) begin(list []visit) {
	c.list, c.at = list, 0
	for i := range min(len(list), len(c.slots)) {
		c.send(i)
	}
}

// each calls f for the wares of a visit, with their place in its slot.
func (c *conveyor) each(number int, f func(w ware, here tensor.Tensor)) {
	room, off := c.slots[number%len(c.slots)].room, 0
	for _, w := range c.list[number].wares {
		here := tensor.New(w.home.Type, w.home.Rows, w.home.Cols, room.Mem)
		here.Off = off
		off += padded(here.Bytes())
		f(w, here)
	}
}

// send has a visit's wares come.
func (c *conveyor) send(number int) {
	s := &c.slots[number%len(c.slots)]
	c.each(number, func(w ware, here tensor.Tensor) {
		c.dev.Carry(here, w.home, s.arrived, s.free, c.list[number].home)
	})
}

// enter begins the next visit: its wares are where they were put.
func (c *conveyor) enter() {
	c.dev.Await(c.slots[c.at%len(c.slots)].arrived)
	c.each(c.at, func(w ware, here tensor.Tensor) { w.put(here) })
}

// leave ends it.
func (c *conveyor) leave() {
	v, s := c.list[c.at], &c.slots[c.at%len(c.slots)]
	c.dev.Set(s.over)
	s.free = s.over
	if v.changes {
		c.each(c.at, func(w ware, here tensor.Tensor) { c.dev.Carry(w.home, here, v.home, s.over) })
		s.free = v.home
	}
	if next := c.at + len(c.slots); next < len(c.list) {
		c.send(next)
	}
	c.at++
}

// settle has everything that is issued later find all wares at home.
func (c *conveyor) settle(list []*cargo) {
	for _, s := range c.slots {
		c.dev.Await(s.arrived)
	}
	for _, x := range list {
		c.dev.Await(x.home)
	}
}
