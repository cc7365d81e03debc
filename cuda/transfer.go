package cuda

import (
	"fmt"

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

func (d *Device) prepareRing() {
	host, at := d.pinned(ringSlots * slotBytes)
	if d.err != nil {
		return
	}
	for i := range d.ring.slots {
		lo := i * slotBytes
		d.ring.slots[i] = slot{host: host[lo : lo+slotBytes], at: at + pointer(lo), event: d.event()}
	}
}

// take returns the next slot once it is free.
func (d *Device) take(op string) *slot {
	s := &d.ring.slots[d.ring.next]
	d.ring.next = (d.ring.next + 1) % ringSlots
	d.do(op, cuEventSynchronize, s.event)
	return s
}

// Upload copies src to dst. It returns when src may be reused.
func (d *Device) Upload(dst tensor.Tensor, src []byte) {
	d.forbidWhileRecording("Upload")
	if len(src) != dst.Bytes() {
		panic(fmt.Sprintf("cuda: Upload: %d bytes to %v", len(src), dst))
	}
	for at := d.address("Upload", dst); len(src) > 0 && d.err == nil; {
		s := d.take("Upload")
		n := copy(s.host, src)
		d.do("Upload", cuMemcpyHtoDAsync, at, uintptr(s.at), uintptr(n), d.stream)
		d.do("Upload", cuEventRecord, s.event, d.stream)
		src, at = src[n:], at+uintptr(n)
	}
}

// Download waits for earlier operations and copies src to dst, which is left
// as it is if something has failed.
func (d *Device) Download(dst []byte, src tensor.Tensor) {
	d.forbidWhileRecording("Download")
	if len(dst) != src.Bytes() {
		panic(fmt.Sprintf("cuda: Download: %d bytes from %v", len(dst), src))
	}
	at, left := d.address("Download", src), len(dst)
	var coming []*slot
	for len(dst) > 0 && d.err == nil {
		for left > 0 && len(coming) < ringSlots {
			s, n := d.take("Download"), min(left, slotBytes)
			d.do("Download", cuMemcpyDtoHAsync, uintptr(s.at), at, uintptr(n), d.stream)
			d.do("Download", cuEventRecord, s.event, d.stream)
			coming, at, left = append(coming, s), at+uintptr(n), left-n
		}
		if d.do("Download", cuEventSynchronize, coming[0].event) {
			dst = dst[copy(dst, coming[0].host):]
			coming = coming[1:]
		}
	}
}
