package cuda

import (
	"fmt"

	"exl2/internal/device"
	"exl2/internal/parallel"
	"exl2/internal/tensor"
)

// ring is page-locked host memory in slots that are used in turn. Transfers go
// through it: they need no copy by the driver, and an upload's source may be
// reused at once. A slot is used again when its event says that its last
// transfer is done.
type ring struct {
	slots [ringSlots]slot
	next  int
}

type slot struct {
	host  []byte
	at    pointer
	event uintptr
}

// 16 slots of 1 MB: small uploads of several decode steps are under way at a
// time, and large ones keep the bus busy while the next slots are filled.
const (
	ringSlots = 16
	slotBytes = 1 << 20
)

func (d *Device) prepareRing(r *ring) {
	host, at := d.pinned(ringSlots * slotBytes)
	if d.err != nil {
		return
	}
	for i := range r.slots {
		lo := i * slotBytes
		r.slots[i] = slot{host: host[lo : lo+slotBytes], at: at + pointer(lo), event: d.event()}
	}
}

// take returns the next slot once it is free.
func (r *ring) take(d *Device, op string) *slot {
	s := &r.slots[r.next]
	r.next = (r.next + 1) % ringSlots
	d.do(op, cuEventSynchronize, s.event)
	return s
}

// copiedAtOnce is how many slots are filled or emptied at a time, each by a core: one core
// copies at a fifth of the speed of the bus, and memory that is used for the first time at
// less.
const copiedAtOnce = ringSlots / 2

// Upload copies src to dst. It returns when src may be reused.
func (d *Device) Upload(dst tensor.Tensor, src []byte) {
	d.forbidWhileRecording("Upload")
	if len(src) != dst.Bytes() {
		panic(fmt.Sprintf("cuda: Upload: %d bytes to %v", len(src), dst))
	}
	for at := d.address("Upload", dst); len(src) > 0 && d.err == nil; {
		slots := d.ring.takeFor(d, "Upload", len(src))
		each(slots, func(i int) { copy(slots[i].host, src[i*slotBytes:]) })
		for _, s := range slots {
			n := min(len(src), slotBytes)
			d.do("Upload", cuMemcpyHtoDAsync, at, uintptr(s.at), uintptr(n), d.stream)
			d.do("Upload", cuEventRecord, s.event, d.stream)
			src, at = src[n:], at+uintptr(n)
		}
	}
}

// takeFor returns free slots for some bytes, a few at most.
func (r *ring) takeFor(d *Device, op string, bytes int) []*slot {
	slots := make([]*slot, min(pieces(bytes, slotBytes), copiedAtOnce))
	for i := range slots {
		slots[i] = r.take(d, op)
	}
	return slots
}

// each calls f for every slot, at once if there are several.
func each(slots []*slot, f func(i int)) {
	if len(slots) == 1 { // the parameters of a step, a token
		f(0)
		return
	}
	parallel.For(len(slots), f)
}

// Download waits for earlier operations and copies src to dst, which is left
// as it is if something has failed.
func (d *Device) Download(dst []byte, src tensor.Tensor) {
	d.download("Download", dst, src, &d.ring, d.stream)
}

// Fetch is Download of what was there when a mark was set, beside operations issued since, some of
// which may wait for slots of the other ring.
func (d *Device) Fetch(dst []byte, src tensor.Tensor, after device.Mark) {
	stream, r := d.carrierStream(1), &d.carrier.ring
	if r.slots[0].host == nil {
		d.prepareRing(r)
	}
	d.do("Fetch", cuStreamWaitEvent, stream, d.carrier.marks[after], 0)
	d.download("Fetch", dst, src, r, stream)
}

// download copies src to dst, by way of a ring, behind what a stream has.
func (d *Device) download(op string, dst []byte, src tensor.Tensor, r *ring, stream uintptr) {
	d.forbidWhileRecording(op)
	d.forbidWhileTaping(op)
	if len(dst) != src.Bytes() {
		panic(fmt.Sprintf("cuda: %s: %d bytes from %v", op, len(dst), src))
	}
	at, left := d.address(op, src), len(dst)
	var coming [][]*slot
	for len(dst) > 0 && d.err == nil {
		for left > 0 && len(coming) < ringSlots/copiedAtOnce {
			slots := r.takeFor(d, op, left)
			for _, s := range slots {
				n := min(left, slotBytes)
				d.do(op, cuMemcpyDtoHAsync, uintptr(s.at), at, uintptr(n), stream)
				d.do(op, cuEventRecord, s.event, stream)
				at, left = at+uintptr(n), left-n
			}
			coming = append(coming, slots)
		}
		slots := coming[0]
		if d.do(op, cuEventSynchronize, slots[len(slots)-1].event) { // and so are those before it
			each(slots, func(i int) { copy(dst[i*slotBytes:], slots[i].host) })
			dst, coming = dst[min(len(dst), len(slots)*slotBytes):], coming[1:]
		}
	}
}
