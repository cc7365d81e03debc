package devtest

import (
	"strings"
	"testing"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// brokenQuantize is a device whose quantizing goes wrong somewhere.
type brokenQuantize struct {
	device.Quantize
	spoilt func(x tensor.Tensor) // changes what an operation has written
}

func (b *brokenQuantize) GPTQ(list []device.Coding, f device.Factor, loss tensor.Tensor) {
	b.Quantize.GPTQ(list, f, loss)
	for _, c := range list {
		b.spoilt(c.Codes)
	}
}

func (b *brokenQuantize) Descend(list []device.Coding, f device.Factor, passes int) {
	b.Quantize.Descend(list, f, passes)
	for _, c := range list {
		b.spoilt(c.Codes)
	}
}

func (b *brokenQuantize) Pairs(list []device.Coding, f device.Factor) {
	b.Quantize.Pairs(list, f)
	for _, c := range list {
		b.spoilt(c.Codes)
	}
}

func (b *brokenQuantize) SearchScale(list []device.Coding, g int, importance tensor.Tensor) {
	b.Quantize.SearchScale(list, g, importance)
	b.spoilt(list[0].Scales)
}

func (b *brokenQuantize) Pack(words, scales tensor.Tensor, c device.Coding) {
	b.Quantize.Pack(words, scales, c)
	b.spoilt(words)
}

func (b *brokenQuantize) InverseFactor(u, h tensor.Tensor, damp float32, ok tensor.Tensor) {
	b.Quantize.InverseFactor(u, h, damp, ok)
	b.spoilt(ok)
}

// Record repeats the broken operations.
func (b *brokenQuantize) Record(fn func()) (func(), error) {
	fn()
	return fn, b.Sync()
}

// flip flips the lowest bit of every so many bytes.
func flip(d device.Device, x tensor.Tensor, every int) {
	data := download(d, x)
	for i := 0; i < len(data); i += every {
		data[i] ^= 1
	}
	d.Upload(x, data)
}

// Each kind of mistake in quantizing is found.
func TestQuantizingMistakesAreFound(t *testing.T) {
	all := map[string][]testCase{}
	for _, g := range quantizeGroups() {
		all[g.name] = g.cases
	}
	for _, m := range []struct {
		op    string
		of    string // part of the name of the case
		every int    // byte is wrong
		want  string
	}{
		{"GPTQ", "several blocks", 1 << 30, "0 codes: byte 0 of 67584 differs"},
		{"GPTQ", "realistic 256", 10, "0 codes: 3277 of 32768 elements differ"},
		{"Descend", "no pass", 1 << 30, "0 codes: byte 0"},
		{"Descend", "realistic 256", 40, "the loss is"},
		{"Pairs", "groups across", 1 << 30, "0 codes: byte 0"},
		{"SearchScale", "a later group", 1 << 30, "0 scales: byte 0"},
		{"Pack", "1:4b_128g", 1 << 30, "words: byte 0"},
		{"InverseFactor", "indefinite", 1 << 30, "ok[0, 0] is 1, want 0"},
		{"InverseFactor", "k=33 damp=0", 1 << 30, "ok[0, 0] is 0, want 1"},
	} {
		b := &brokenQuantize{Quantize: openQuantize(t)}
		b.spoilt = func(x tensor.Tensor) { flip(b.Quantize, x, m.every) }
		tried := false
		for _, c := range all[m.op] {
			if tried || !strings.HasPrefix(c.name, m.of) {
				continue
			}
			tried = true
			if err := verify(CPU(t), b, c); err == nil || !strings.Contains(err.Error(), m.want) {
				t.Errorf("%s: %v, want %q", m.op, err, m.want)
			}
		}
		if !tried {
			t.Errorf("%s: no case %q", m.op, m.of)
		}
	}
}

// Everything that is counted as made is named until it is freed.
func TestCounting(t *testing.T) {
	d := Counting(openQuantize(t))
	x, c := d.Alloc(tensor.F32, 2, 3), d.NewCache(device.CacheShape{Layers: 1, Pages: 1, PageRows: 16, K: 8, V: 8})
	m := d.LoadEXL2(quantized(64, 32, "1:4b_64g"), 32)
	if live := d.Live(); len(live) != 3 {
		t.Errorf("%v are live, want a tensor, a matrix and a cache", live)
	}
	d.Free(tensor.Tensor{})
	d.Free(x.Slice(0, 1)) // any part stands for its memory
	if live := d.Live(); len(live) != 2 {
		t.Errorf("%v are live", live)
	}
	d.FreeCache(c)
	d.FreeEXL2(m)
	if live := d.Live(); len(live) != 0 || d.Peak() != 24+d.CacheBytes(c.Shape())+m.Bytes() {
		t.Errorf("%v are live, the peak is %d bytes", live, d.Peak())
	}
	if err := d.Sync(); err != nil {
		t.Error(err)
	}
	for name, again := range map[string]func(){"tensor": func() { d.Free(x) }, "matrix": func() { d.FreeEXL2(m) }, "cache": func() { d.FreeCache(c) }} {
		again()
		if d.Faults() == nil {
			t.Errorf("a %s that is freed twice goes unnoticed", name)
		}
	}
}
