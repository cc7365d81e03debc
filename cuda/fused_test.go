package cuda

import (
	"testing"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// A gate and what it opens are one product if they read x in one known order; others
// are left to whoever asked.
func TestGateParts(t *testing.T) {
	d := hopperFake(t)
	for _, c := range []struct {
		name     string
		gate, up uint64 // orders
		want     bool
	}{
		{"one order", 3, 3, true},
		{"two orders", 3, 5, false},
		{"unknown orders", 0, 0, false},
	} {
		for _, rows := range []int{1, 12, 512} {
			x := d.Alloc(tensor.F16, rows, 256)
			gate, up := fakeMatrix(d, 256, 96), fakeMatrix(d, 256, 96)
			gate.sorted, up.sorted = c.gate, c.up
			gate.order, up.order = d.Alloc(tensor.I32, 1, 256), d.Alloc(tensor.I32, 1, 256)
			parts, ok := d.parts(device.Products{X: x, Then: device.Gate, List: []device.Product{{W: gate, Y: d.Alloc(tensor.F16, rows, 96)}, {W: up}}})
			if ok != c.want || ok && (len(parts) != 1 || parts[0].n != 2) {
				t.Errorf("%s, %d rows: %d parts, %v, want %v", c.name, rows, len(parts), ok, c.want)
			}
		}
	}
}
