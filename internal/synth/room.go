package synth

import (
	"fmt"
	"math"

	"exl2/internal/machine"
)

// checkRoom refuses a model of which a tensor does not fit the machine's memory, or that
// does not fit the disk of dir, where that is known.
func (m *Model) checkRoom(dir string) error {
	all, largest := int64(0), int64(0)
	name := ""
	for _, i := range m.Infos() {
		n, err := i.Bytes()
		if err != nil {
			return fmt.Errorf("%s: %s: %w", m.Shape.Name, i.Name, err)
		}
		if n > largest {
			largest, name = n, i.Name
		}
		all += min(n, math.MaxInt64-all)
	}
	if free, known := machine.FreeMemory(); known && largest > int64(free) {
		return fmt.Errorf("out of memory: %s: %s takes %s, %s are free; give a smaller shape", m.Shape.Name, name, machine.Size(largest), machine.Size(int64(free)))
	}
	if disk, known := machine.DiskOf(dir); known && all > int64(disk.Free) {
		return fmt.Errorf("out of disk: %s takes %s, %s are free for %s; give fewer --layers, a smaller shape, or another --out-dir", m.Shape.Name, machine.Size(all), machine.Size(int64(disk.Free)), dir)
	}
	return nil
}
