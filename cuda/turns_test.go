package cuda

import (
	"testing"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// How rows turn is computed once for the layers of a prompt.
func TestTurnsOnce(t *testing.T) {
	f := newFake()
	f.attr[attributeMajor], f.attr[attributeMinor], f.attr[attributeSMs] = 9, 0, 132
	d := closing(t, f.open(t))
	const rows = 300
	batch := device.Batch{Pos: d.Alloc(tensor.I32, 1, rows), Seq: d.Alloc(tensor.I32, 1, rows), Table: d.Alloc(tensor.I32, 1, 8), Span: rows, Pass: 1}
	cache := d.NewCache(device.CacheShape{Layers: 2, Pages: 8, PageRows: 256, K: 128, V: 128})
	first := device.Turning{Freqs: d.Alloc(tensor.F32, 1, 64), Which: 7, HeadDim: 128, Rope: device.Rope{Dims: 128}, Cache: cache, Batch: batch}
	after := func(change func(*device.Turning)) device.Turning {
		n := first
		change(&n)
		return n
	}
	for _, c := range []struct {
		name string
		next device.Turning
		want bool // it is computed again
	}{
		{"the next layer", after(func(n *device.Turning) { n.Layer = 1 }), false},
		{"frequencies of its own, the same", after(func(n *device.Turning) { n.Freqs = d.Alloc(tensor.F32, 1, 64) }), false},
		{"the next pass", after(func(n *device.Turning) { n.Batch.Pass = 2 }), true},
		{"other frequencies", after(func(n *device.Turning) { n.Which = 9 }), true},
		{"frequencies that nothing is known of", after(func(n *device.Turning) { n.Which = 0 }), true},
		{"other rows", after(func(n *device.Turning) { n.Batch.Pos = d.Alloc(tensor.I32, 1, rows) }), true},
		{"steps, which move on by themselves", after(func(n *device.Turning) { n.Batch.Span = 1 }), true},
	} {
		d.turned = turned{}
		d.turns(&first)
		d.trail = trail{}
		d.turns(&c.next)
		if got := len(d.trail.names) > 0; got != c.want {
			t.Errorf("%s: computed: %v, want %v", c.name, got, c.want)
		}
	}
	if err := d.Sync(); err != nil {
		t.Error(err)
	}
}
