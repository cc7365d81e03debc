package cuda

import (
	"fmt"
	"os"
	"unsafe"

	"exl2/internal/tensor"
)

var clockFile = os.Getenv("EXL2_CLOCKS")

var clocks struct {
	t     tensor.Tensor
	n     int
	names []string
}

const clockLaunches, clockBytes = 600, 132 * 8 * 8

func (d *Device) labClock(plan packedPlan, p *packed) uint64 {
	if clockFile == "" || !plan.digits || clocks.n == clockLaunches {
		return 0
	}
	if clocks.n == 0 {
		clocks.t = d.Alloc(tensor.I32, clockLaunches, clockBytes/4)
	}
	at := uint64(d.address("clock", clocks.t)) + uint64(clocks.n)*clockBytes
	clocks.n++
	clocks.names = append(clocks.names, fmt.Sprint(p.then, " ", p.list[0].in, " ", p.tiles()))
	return at
}

func (d *Device) labDump() {
	if clocks.n == 0 {
		return
	}
	out := make([]byte, clockLaunches*clockBytes)
	const toHost = 1
	d.do("clocks", cuMemcpyDtoHAsync, uintptr(unsafe.Pointer(&out[0])), uintptr(d.address("clock", clocks.t)), uintptr(len(out)), d.stream)
	d.try(cuStreamSynchronize, d.stream)
	f, _ := os.Create(clockFile)
	for _, n := range clocks.names {
		fmt.Fprintln(f, n)
	}
	fmt.Fprintln(f, "--")
	f.Write(out)
	f.Close()
}
