package cuda

import (
	"os"
	"strconv"

	"exl2/internal/device"
)

var lab = os.Getenv("EXL2_LAB")

var labWarps = func() int {
	if lab == "" {
		return few_rows_many_warps
	}
	return 16
}()

func labPackings() (list []packing) {
	placed := packing{(*Device).qmatmul_lab_placed, kernel_qmatmul_lab_placed, 16, 3, 1, true, false}
	one := packing{(*Device).qmatmul_lab_one, kernel_qmatmul_lab_one, 16, 3, 1, true, false}
	switch lab[:min(1, len(lab))] {
	case "1":
		list = []packing{one, placed}
	case "2":
		list = []packing{{(*Device).qmatmul_lab_one2, kernel_qmatmul_lab_one2, 16, 4, 1, true, false}, one, placed}
	case "3":
		list = []packing{{(*Device).qmatmul_lab_one3, kernel_qmatmul_lab_one3, 16, 4, 1, true, false}, one, placed}
	case "4":
		list = []packing{{(*Device).qmatmul_lab_one4, kernel_qmatmul_lab_one4, 16, 3, 1, true, false}, one, placed}
	}
	return list
}

func labParted(k kernel) bool {
	return k == kernel_qmatmul_lab_one || k == kernel_qmatmul_lab_one2 || k == kernel_qmatmul_lab_one3 || k == kernel_qmatmul_lab_one4
}

func labShared(p packing, shared int) int {
	if lab == "" || p.warps != 8 || !p.digits || p.whole {
		return shared
	}
	return min(shared, 115000)
}

// labLaunch makes of every product one of two kinds, of which there is room for one block each on a multiprocessor: by
// shared memory, and by registers. EXL2_LAB=.s has them alone.
func labLaunch(plan packedPlan, p *packed, l *launch) {
	if lab == "" || plan.warps != 8 || !plan.digits {
		return
	}
	if len(lab) > 1 && lab[1] == 's' {
		l.shared = max(l.shared, 200000)
		return
	}
	l.beside = true
	if p.then == device.Add && p.ordered {
		l.threads.x = 32 * 11
	} else {
		l.shared = max(l.shared, 115840)
	}
}

// labBlocks is how many blocks a product of one row has at most: EXL2_CAP, or of those that are added EXL2_CAPB.
func (d *Device) labBlocks(p *packed) int {
	n := d.sms
	if p.x.Rows != 1 {
		return n
	}
	cap := labCap
	if p.then == device.Add && labCapB > 0 {
		cap = labCapB
	}
	if p.tiles() >= 900 {
		cap = 0
	}
	if cap > 0 {
		n = min(n, cap)
	}
	return n
}

var labCap, _ = strconv.Atoi(os.Getenv("EXL2_CAP"))
var labCapB, _ = strconv.Atoi(os.Getenv("EXL2_CAPB"))
