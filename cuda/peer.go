package cuda

import (
	"fmt"
	"unsafe"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// CopyTo copies src to dst, in the memory of another GPU.
func (d *Device) CopyTo(to device.Device, dst, src tensor.Tensor) bool {
	other, ok := to.(*Device)
	if ok {
		d.CopyPeer(dst, other, src)
	}
	return ok
}

// CopyPeer copies src, in the memory of d, to dst, in the memory of device to:
// after the operations issued on both so far, and before those issued later.
// GPUs that cannot reach each other's memory copy through the host.
func (d *Device) CopyPeer(dst tensor.Tensor, to *Device, src tensor.Tensor) {
	d.forbidWhileRecording("CopyPeer")
	d.forbidWhileTaping("CopyPeer")
	to.forbidWhileRecording("CopyPeer")
	if dst.Type != src.Type || dst.Bytes() != src.Bytes() {
		panic(fmt.Sprintf("cuda: CopyPeer: %v to %v", src, dst))
	}
	from, at := d.address("CopyPeer", src), to.address("CopyPeer", dst)
	n := uintptr(src.Bytes())
	switch {
	case n == 0 || d.err != nil || to.err != nil:
	case d.ctx == to.ctx:
		to.waitFor(d, func() { d.do("CopyPeer", cuMemcpyDtoDAsync, at, from, n, d.stream) })
	case d.reaches(to):
		to.waitFor(d, func() { d.do("CopyPeer", cuMemcpyPeerAsync, at, to.ctx, from, d.ctx, n, d.stream) })
	default:
		d.copyThroughHost(dst, to, src)
	}
}

// waitFor has from do its operations once d is done with earlier ones, and d
// wait for them.
func (d *Device) waitFor(from *Device, operations func()) {
	d.do("CopyPeer", cuEventRecord, d.mark, d.stream)
	from.do("CopyPeer", cuStreamWaitEvent, from.stream, d.mark, 0)
	operations()
	from.do("CopyPeer", cuEventRecord, from.mark, from.stream)
	d.do("CopyPeer", cuStreamWaitEvent, d.stream, from.mark, 0)
}

// reaches reports whether d can write the memory of another GPU, and lets it.
func (d *Device) reaches(to *Device) bool {
	var can int32
	if d.try(cuDeviceCanAccessPeer, uintptr(unsafe.Pointer(&can)), d.handle, to.handle) != success || can == 0 {
		return false
	}
	r := d.try(cuCtxEnablePeerAccess, to.ctx, 0)
	return r == success || r == peerAccessEnabled
}

func (d *Device) copyThroughHost(dst tensor.Tensor, to *Device, src tensor.Tensor) {
	data := make([]byte, src.Bytes())
	d.Download(data, src)
	if d.err == nil {
		to.Upload(dst, data)
	}
}
