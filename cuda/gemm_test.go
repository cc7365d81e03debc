package cuda

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
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

// Tiles of the last round are halved where each half finds a cluster of its own.
func TestDivide(t *testing.T) {
	d := &Device{sms: 132}
	for _, c := range []struct {
		name          string
		rows, columns int
		then          device.Then
		want          division
	}{
		{"two rounds but for some", 2048, 4096, device.Add, division{clusters: 66, whole: 128, last: 256, idle: 4}},
		{"a few more than ten rounds", 2048, 11008, device.Gate, division{clusters: 66, whole: 660, last: 128, idle: 10}},
		{"as many halves as clusters", 256, 99 * 256, device.Put, division{clusters: 66, whole: 66, last: 128}},
		{"one half more", 256, 100 * 256, device.Put, division{clusters: 66, whole: 100, last: 256, idle: 32}},
		{"whole rounds", 512, 66 * 256, device.Put, division{clusters: 66, whole: 132}},
		{"fewer than clusters", 512, 4096, device.Add, division{clusters: 32, whole: 32}},
	} {
		p := &tiledProduct{x: tensor.New(tensor.F16, c.rows, 64, nil), then: c.then, list: []tiledMatrix{{columns: c.columns}}}
		if got := tilings[0].divide(d, p); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// Halves of tiles make the bits that whole ones do, which a GPU of two multiprocessors has.
func TestHalvesOfTiles(t *testing.T) {
	d := closing(t, openGPU(t))
	if !d.hopper() {
		t.Skip("another GPU has other kernels")
	}
	const rows, k, pairs = 600, 192, 3
	columns := (d.sms/pairs + 2) * gemm_tiles_wide
	x, w, bias := d.Alloc(tensor.F16, rows, k), d.Alloc(tensor.F16, 2*columns, k), d.Alloc(tensor.F32, 1, columns)
	numbers := rand.New(rand.NewPCG(1, 2))
	for _, m := range []tensor.Tensor{x, w} {
		data := make([]byte, m.Bytes())
		for i := 0; i < len(data); i += 2 {
			binary.LittleEndian.PutUint16(data[i:], uint16(numbers.Uint32()&0x83ff|0x3400)) // 0.25 to 0.5, of either sign
		}
		d.Upload(m, data)
	}
	d.Upload(bias, bytes.Repeat([]byte{0, 0, 0x80, 0x3f}, columns))
	for name, c := range map[string]struct {
		then device.Then
		y    tensor.Type
	}{"put": {device.Put, tensor.F16}, "put wide": {device.Put, tensor.F32}, "added": {device.Add, tensor.F32}, "gate": {device.Gate, tensor.F16}} {
		y, sms := [2]tensor.Tensor{d.Alloc(c.y, rows, columns), d.Alloc(c.y, rows, columns)}, d.sms
		for i, n := range []int{sms, 2} {
			d.Clear(y[i])
			p := &tiledProduct{x: x, w: w.Slice(0, columns), then: c.then, list: []tiledMatrix{{y: y[i], bias: bias, columns: columns}}}
			if c.then == device.Gate {
				p.w, p.list = w, append(p.list, tiledMatrix{bias: bias, columns: columns})
			}
			d.sms = n
			if v := d.tilingFor(p).divide(d, p); (v.last == gemm_tiles_wide/2) != (i == 0) {
				t.Errorf("%s: %d multiprocessors have %+v", name, n, v)
			}
			d.multiplyTiles(p)
			d.sms = sms
		}
		if !bytes.Equal(download(d, y[0]), download(d, y[1])) {
			t.Errorf("%s: halves make other bits", name)
		}
	}
	if err := d.Sync(); err != nil {
		t.Error(err)
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
