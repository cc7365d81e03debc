package cuda

import (
	"slices"
	"testing"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// gives is a product of x in order that joins the stream, normalized.
func (c *chain) gives(reader *device.Products) device.Products {
	y := c.d.Alloc(tensor.F16, c.stream.Rows, c.stream.Cols)
	sum := &device.Sum{X: c.stream, Y: y, Scale: c.scale, Times: 1, Then: 1, Reader: reader}
	return device.Products{X: c.x, Sorted: true, List: []device.Product{{W: c.o, Y: y}}, Joins: sum}
}

// What a product of one row gives joins the stream as those bring that who read it next. For whoever comes in between, it is added.
func TestJoins(t *testing.T) {
	const joins, sum = "qmatmul_one_joined", "sum_stream_f32"
	for _, test := range []struct {
		name    string
		between func(c *chain, next device.Products)
		want    []string
	}{
		{"its reader", func(c *chain, next device.Products) { c.d.Products(next) }, []string{joins}},
		{"another norm", func(c *chain, next device.Products) {
			next.Scale = c.d.Alloc(tensor.F32, 1, 256)
			c.d.Products(next)
		}, []string{joins, sum, "qmatmul_placed"}},
		{"who does not know", func(c *chain, next device.Products) {
			next.Left = false
			c.d.Products(next)
		}, []string{joins, sum, "qmatmul_placed"}},
		{"who joins it, too, and the reader", func(c *chain, next device.Products) {
			c.d.Products(c.gives(&next))
			c.d.Products(next)
		}, []string{joins, sum, joins}},
		{"the host", func(c *chain, _ device.Products) { c.d.Download(make([]byte, 4*256), c.stream) }, []string{joins, sum}},
		{"a copy", func(c *chain, _ device.Products) { c.d.Copy(c.d.Alloc(tensor.F32, 1, 256), c.stream) }, []string{joins, sum}},
		{"the end of a recording", func(c *chain, next device.Products) {
			p := c.gives(&next)
			c.d.Record(func() { c.d.Products(p) })
		}, []string{joins, sum, joins, sum, joins, sum}},
		{"the end of what is repeated", func(c *chain, next device.Products) {
			p := c.gives(&next)
			c.d.Repeat(func() { c.d.Products(p) })
		}, []string{joins, sum, joins, sum}},
	} {
		c := newChain(t, 1)
		next := c.reads(true)
		c.made(t, c.reads(false)) // by which powers are known
		c.d.trail.clear()
		if !c.d.Products(c.gives(&next)) || c.d.unjoined.X.Nil() {
			t.Fatalf("%s: nothing is to be joined: %v", test.name, c.d.err)
		}
		names := []string{joins}
		c.f.launched(c.d, func(name string) { names = append(names, name) })
		test.between(c, next)
		if got := slices.Compact(names); !slices.Equal(got, test.want) || c.d.err != nil || !c.d.unjoined.X.Nil() {
			t.Errorf("%s: %v, want %v; %v", test.name, got, test.want, c.d.err)
		}
	}
}

// What cannot be joined by its reader is refused: of more rows, out of order, by nobody, by norms that look at more than squares.
func TestRefusesToJoin(t *testing.T) {
	for name, change := range map[string]func(c *chain, p, next *device.Products){
		"nobody reads it":      func(_ *chain, p, _ *device.Products) { p.Joins.Reader = nil },
		"out of order":         func(_ *chain, p, _ *device.Products) { p.Sorted = false },
		"not normalized":       func(_ *chain, p, _ *device.Products) { p.Joins.Scale = tensor.Tensor{} },
		"a layer norm":         func(_ *chain, p, _ *device.Products) { p.Joins.Norm.Kind = device.Layer },
		"read by a layer norm": func(_ *chain, _, next *device.Products) { next.Norm.Kind = device.Layer },
		"read by several orders": func(c *chain, _, next *device.Products) {
			next.List = append(next.List, device.Product{W: c.o, Y: c.x})
		},
		"read of another stream":  func(c *chain, _, next *device.Products) { next.X = c.d.Alloc(tensor.F32, 1, 256) },
		"turned":                  func(_ *chain, _, next *device.Products) { next.Then = device.Turn },
		"no powers are known yet": func(c *chain, _, _ *device.Products) { c.d.linked.powers = false },
	} {
		c := newChain(t, 1)
		next := c.reads(true)
		c.made(t, c.reads(false))
		p := c.gives(&next)
		if change(c, &p, &next); c.d.Products(p) || c.d.err != nil {
			t.Errorf("%s: taken, %v", name, c.d.err)
		}
	}
	c := newChain(t, 2)
	next := c.reads(true)
	if c.made(t, c.reads(false)); c.d.Products(c.gives(&next)) {
		t.Error("two rows: taken")
	}
}
