package cuda

import (
	"runtime"
	"unsafe"
)

// Record makes a CUDA graph of the operations that fn issues, and issues them
// once. fn is called twice: first as it is, which loads its kernels, then to be
// recorded. It must not allocate, free, upload or download.
func (d *Device) Record(fn func()) (replay func(), err error) {
	d.forbidWhileRecording("Record")
	d.forbidWhileTaping("Record")
	fn()
	d.settle()
	if d.err != nil {
		return nil, d.err
	}
	graph := d.capture(fn)
	exec := new(uintptr)
	if d.do("Record", cuGraphInstantiate, uintptr(unsafe.Pointer(exec)), graph, 0) {
		d.onClose(func() { d.try(cuGraphExecDestroy, *exec) })
	}
	if graph != 0 {
		d.try(cuGraphDestroy, graph)
	}
	names := append([]string(nil), d.trail.names...)
	return func() { d.replay(*exec, names) }, d.err
}

// capture returns the graph of the operations that fn issues.
func (d *Device) capture(fn func()) (graph uintptr) {
	runtime.LockOSThread() // a capture begins and ends on one thread
	defer runtime.UnlockOSThread()
	d.kept.hold() // or others free memory in the recorded stream
	defer d.kept.letGo()
	const threadLocal = 1 // other threads may do as they like meanwhile
	if !d.do("Record", cuStreamBeginCapture, d.stream, threadLocal) {
		return 0
	}
	d.recording = true
	d.forgetWeights() // which replays do not find decoded
	defer d.forgetWeights()
	out := new(uintptr)
	defer func() { // fn may panic
		d.recording = false
		r := d.try(cuStreamEndCapture, d.stream, uintptr(unsafe.Pointer(out)))
		if r != success && d.err == nil {
			d.fail("Record", r)
		}
		graph = *out
	}()
	fn()
	d.settle()
	return graph
}

// replay issues a recording, whose last kernels have the given names.
func (d *Device) replay(exec uintptr, names []string) {
	d.forbidWhileRecording("replay")
	d.forbidWhileTaping("replay")
	for _, name := range names {
		d.trail.add(name)
	}
	d.forgetWeights()
	d.turned = turned{}
	d.do("replay", cuGraphLaunch, exec, d.stream)
}
