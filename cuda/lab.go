package cuda

import (
	"os"
	"strconv"

	"exl2/internal/device"
)

func labKind(p *packed) int {
	switch {
	case p.tiles() >= 900:
		return 16
	case p.then == device.Add && p.list[0].in > p.list[0].out:
		return 8
	case p.then == device.Add:
		return 2
	case p.then == device.Gate:
		return 4
	}
	return 1
}

func (d *Device) labBlocks(p *packed) int {
	if p.x.Rows != 1 {
		return d.sms
	}
	if n := labCaps[labKind(p)]; n > 0 {
		return min(d.sms, n)
	}
	return d.sms
}

var labEarly, _ = strconv.Atoi(os.Getenv("EXL2_EARLY"))

var labCaps = func() (caps [32]int) {
	for i := range caps {
		caps[i], _ = strconv.Atoi(os.Getenv("EXL2_CAP" + strconv.Itoa(i)))
	}
	return caps
}()

func labPackings() []packing {
	if os.Getenv("EXL2_NARROW") == "" {
		return nil
	}
	return []packing{{(*Device).qmatmul_narrow, kernel_qmatmul_narrow, few_rows_many_warps, 3, 1, true}}
}
