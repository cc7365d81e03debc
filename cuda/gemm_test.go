package cuda

import "testing"

// The tile of a product, and among how many blocks its sums are divided.
func TestVariant(t *testing.T) {
	hopper, ampere := &Device{sms: 132, major: 9, target: "sm_90a"}, &Device{sms: 108, major: 8, target: "sm_80"}
	turing := &Device{sms: 68, major: 7, target: "sm_75"}
	for _, c := range []struct {
		name         string
		d            *Device
		m, n, k      int
		tile, splits [2]int // rows and columns; splits of K and the fewest columns of one
	}{
		{"hopper, a prompt", hopper, 2048, 4096, 4096, [2]int{128, 256}, [2]int{1, 4096}},
		{"hopper, a short one", hopper, 128, 4096, 4096, [2]int{128, 128}, [2]int{4, 1024}},
		{"hopper, few columns", hopper, 16, 256, 4096, [2]int{128, 128}, [2]int{8, 512}},
		{"hopper, short rows", hopper, 16, 256, 256, [2]int{128, 128}, [2]int{1, 256}},
		{"rows of no whole chunks", hopper, 2048, 4096, 4095, [2]int{64, 64}, [2]int{1, 4095}},
		{"ampere, a prompt", ampere, 2048, 4096, 4096, [2]int{128, 256}, [2]int{1, 4096}},
		{"ampere, a short one", ampere, 32, 4096, 4096, [2]int{64, 64}, [2]int{1, 4096}},
		{"turing has too little shared memory for the largest", turing, 2048, 4096, 4096, [2]int{128, 128}, [2]int{1, 4096}},
	} {
		v := c.d.variant(c.m, c.n, c.k, true)
		splits := c.d.splitK(v, c.m, c.n, c.k)
		if v.m != c.tile[0] || v.n != c.tile[1] || splits != c.splits[0] || c.k/splits < c.splits[1] {
			t.Errorf("%s: tiles of %d x %d split %d times, want %+v", c.name, v.m, v.n, splits, c)
		}
	}
}
