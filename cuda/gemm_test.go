package cuda

import (
	"testing"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// Tiles that two blocks share leave as few multiprocessors idle as there is a choice.
func TestTiling(t *testing.T) {
	d := &Device{sms: 132, major: 9, target: "sm_90a"}
	for _, c := range []struct {
		name    string
		rows    int
		columns []int
		then    device.Then
		want    int
	}{
		{"q, k and v of a prompt", 2048, []int{4096, 4096, 4096}, device.Put, 256},
		{"of a short one", 512, []int{4096, 4096, 4096}, device.Put, 128},
		{"output of a short one", 512, []int{4096}, device.Add, 128},
		{"output of a prompt", 2048, []int{4096}, device.Add, 256},
		{"gate and up of a prompt", 2048, []int{11008, 11008}, device.Gate, 256},
		{"few columns", 129, []int{32, 32}, device.Gate, 128},
	} {
		p := &tiledProduct{x: tensor.New(tensor.F16, c.rows, 4096, nil), then: c.then}
		for _, n := range c.columns {
			p.list = append(p.list, tiledMatrix{columns: n})
		}
		if got := d.tilingFor(p).columns; got != c.want {
			t.Errorf("%s: tiles of %d columns, want %d", c.name, got, c.want)
		}
	}
}

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
