package cuda

import (
	"unsafe"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// carrier is what copies beside the device's stream: a stream each way, and events.
type carrier struct {
	streams [2]uintptr // to the GPU, to the host
	marks   []uintptr
	ring    ring // of Fetch, once it is called
}

// NewMark makes a mark.
func (d *Device) NewMark() device.Mark {
	d.carrier.marks = append(d.carrier.marks, d.event())
	return device.Mark(len(d.carrier.marks) - 1)
}

// Set sets a mark.
func (d *Device) Set(m device.Mark) {
	d.do("Set", cuEventRecord, d.carrier.marks[m], d.stream)
}

// Await waits for a mark.
func (d *Device) Await(m device.Mark) {
	d.do("Await", cuStreamWaitEvent, d.stream, d.carrier.marks[m], 0)
}

// Carry copies.
func (d *Device) Carry(dst, src tensor.Tensor, done device.Mark, after ...device.Mark) {
	d.forbidWhileRecording("Carry")
	d.forbidWhileTaping("Carry")
	to, from := d.own("Carry", dst), d.own("Carry", src)
	want(dst.Type == src.Type && dst.Bytes() == src.Bytes() && dst.Dense() && src.Dense() && (to.host == nil) != (from.host == nil), "Carry", dst, src)
	way, call := 0, cuMemcpyHtoDAsync
	if to.host != nil {
		way, call = 1, cuMemcpyDtoHAsync
	}
	stream := d.carrierStream(way)
	for _, m := range after {
		d.do("Carry", cuStreamWaitEvent, stream, d.carrier.marks[m], 0)
	}
	if n := dst.Bytes(); n > 0 {
		d.do("Carry", call, d.address("Carry", dst), d.address("Carry", src), uintptr(n), stream)
	}
	d.do("Carry", cuEventRecord, d.carrier.marks[done], stream)
}

// carrierStream returns the stream of a way, which it makes when it is asked for first.
func (d *Device) carrierStream(way int) uintptr {
	s := &d.carrier.streams[way]
	if *s == 0 {
		const nonBlocking = 1
		at := new(uintptr)
		d.do("Carry", cuStreamCreate, uintptr(unsafe.Pointer(at)), nonBlocking)
		stream := *at
		d.onClose(func() { d.try(cuStreamDestroy, stream) })
		*s = stream
	}
	return *s
}

// settle waits for all copies.
func (c *carrier) settle(d *Device) {
	for _, s := range c.streams {
		if s != 0 {
			d.try(cuStreamSynchronize, s)
		}
	}
}
