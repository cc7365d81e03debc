package cuda

import (
	"slices"
	"testing"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// A chain is products around a stream, as layers have them, of matrices of which nothing is
// read.
type chain struct {
	f                *fake
	d                *Device
	stream, x, scale tensor.Tensor
	o, reader        *matrix
}

func newChain(t *testing.T, rows int) *chain {
	f := newFake()
	f.attr[attributeMajor], f.attr[attributeMinor], f.attr[attributeSMs], f.attr[attributeSharedOptIn] = 9, 0, 132, 227<<10
	d := f.open(t)
	sorted := func(out int, order uint64) *matrix {
		m := fakeMatrix(d, 256, out)
		m.sorted, m.order, m.places, m.unitBlocks = order, d.Alloc(tensor.F16, 1, 256), d.Alloc(tensor.F16, 1, 256), []uint16{0, 4}
		return m
	}
	return &chain{f, d, d.Alloc(tensor.F32, rows, 256), d.Alloc(tensor.F16, rows, 256), d.Alloc(tensor.F32, 1, 256), sorted(256, 3), sorted(96, 5)}
}

// reads are the products that normalize the stream.
func (c *chain) reads(left bool) device.Products {
	y := c.d.Alloc(tensor.F16, c.stream.Rows, 96)
	return device.Products{X: c.stream, Scale: c.scale, List: []device.Product{{W: c.reader, Y: y}}, Left: left}
}

// adds are those that add to it, of x in their order.
func (c *chain) adds(reader *device.Products) device.Products {
	return device.Products{X: c.x, Sorted: true, List: []device.Product{{W: c.o, Y: c.stream}}, Then: device.Add, Reader: reader}
}

// made returns the kernels that make p.
func (c *chain) made(t *testing.T, p device.Products) []string {
	t.Helper()
	c.d.trail.clear()
	if !c.d.Products(p) || c.d.err != nil {
		t.Fatal("no products", c.d.err)
	}
	return slices.Clone(c.d.trail.names)
}

// A norm is left out where the products before have left what it reads: of one row to
// sixteen, if nobody has come between, and the norm and the order are those that were named.
func TestLinks(t *testing.T) {
	for rows, links := range map[int]bool{1: true, 2: true, 4: true, 8: true, 16: true} {
		c := newChain(t, rows)
		next := c.reads(true)
		other := next
		other.Scale = c.d.Alloc(tensor.F32, 1, 256)
		for i, step := range []struct {
			name string
			p    device.Products
			left bool
		}{
			{"nothing is left", c.reads(false), false},
			{"o", c.adds(&next), false},
			{"left", next, true},
			{"o again", c.adds(&next), false},
			{"left, but who knows", c.reads(false), false},
			{"nobody reads it", c.adds(nil), false},
			{"nothing is left, whatever is said", next, false},
			{"o for the next", c.adds(&next), false},
			{"and for nobody", c.adds(nil), false},
			{"what was left is old", next, false},
			{"o once more", c.adds(&next), false},
			{"another norm", other, false},
		} {
			c.d.packed, c.d.batch = joinProduct{packedProduct: packedProduct{norm: one_row_no_norm}}, batchProduct{}
			names := c.made(t, step.p)
			link := c.d.packed.link
			if rows > normedRows {
				link = c.d.batch.link
			}
			if got := link.squares != 0; got != (step.left && links) || got && c.d.packed.norm != one_row_no_norm {
				t.Errorf("%d rows, %d, %s: linked is %v by %v", rows, i, step.name, got, names)
			}
			if adds := step.p.Then == device.Add; adds && (link.left != 0) != (links && step.p.Reader != nil) {
				t.Errorf("%d rows, %d, %s: left at %d", rows, i, step.name, link.left)
			}
		}
	}
}

// Attention leaves its result in the order of those that read it, of two rows to sixteen, and of
// one whose queries were multiplied by a linked product.
func TestMixedInOrder(t *testing.T) {
	for _, rows := range []int{0, 1, 2, 16, 17} {
		took := rows == 1
		c := newChain(t, max(1, rows))
		c.d.took = took
		y := c.x
		places := c.d.placesFor(y, device.Attend{Heads: 4, KVHeads: 4, HeadDim: 64, Reader: c.o})
		if got, want := !places.Nil(), rows > 0 && rows <= 16; got != want {
			t.Errorf("%d rows in order: %v, want %v", rows, got, want)
		}
		if places.Nil() {
			continue
		}
		p := c.adds(nil)
		p.Left, p.Sorted = true, false
		if got := c.made(t, p); len(got) != 1 {
			t.Errorf("%d rows: %v, want one kernel", rows, got)
		}
	}
}

// What is gated is left in the order of those that read it, of one row if the norm in front can be left out; who then leave the stream for the next,
// if that norm has found powers for it. Nobody finds it twice.
func TestGatedInOrder(t *testing.T) {
	for _, c := range []struct {
		rows int
		norm device.NormKind
		want bool
	}{{1, device.RMS, true}, {1, device.Layer, false}, {2, device.Layer, true}, {16, device.RMS, true}, {17, device.RMS, false}} {
		chain := newChain(t, c.rows)
		next, first := chain.reads(true), chain.reads(false)
		first.Norm.Kind = c.norm
		if c.rows <= batch_rows_most {
			chain.made(t, first)
		}
		gate := chain.d.Alloc(chain.x.Type, c.rows, chain.x.Cols)
		if got := chain.d.ActMulFor(chain.x, gate, tensor.Tensor{}, device.ReLU, chain.o); got != c.want {
			t.Errorf("%d rows, norm %v: %v, %v", c.rows, c.norm, got, chain.d.err)
		}
		if !c.want {
			continue
		}
		p := chain.adds(&next)
		p.Left, p.Sorted = true, false
		chain.made(t, p)
		if left := chain.d.packed.link.left | chain.d.batch.link.left; (left != 0) != (c.norm == device.RMS) || chain.d.mixed != (mixed{}) {
			t.Errorf("%d rows: left at %d; still there: %v", c.rows, left, chain.d.mixed)
		}
	}
}
