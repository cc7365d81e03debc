package cuda

import (
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// hopperFake opens a fake GPU of Hopper's kind.
func hopperFake(t *testing.T) *Device {
	f := newFake()
	f.attr[attributeMajor], f.attr[attributeMinor], f.attr[attributeSMs] = 9, 0, 132
	return f.open(t)
}

// fakeMatrix is a matrix of which nothing is read.
func fakeMatrix(d *Device, in, out int) *matrix {
	some := d.Alloc(tensor.I32, 1, 4)
	return &matrix{in: in, out: out, padded: (out + 31) &^ 31, units128: in / 128, words: some, scales: some, units: some, unitPlaces: some}
}

// orderedMatrix is one that has an order, and units of four bits in groups of a unit.
func orderedMatrix(d *Device, in, out int) *matrix {
	m := fakeMatrix(d, in, out)
	m.widest, m.unitGroups, m.sorted = 4, 1, 1
	m.order, m.places = d.Alloc(tensor.F16, 1, in), d.Alloc(tensor.F16, 1, in)
	for i := range m.units128 {
		m.unitBlocks = append(m.unitBlocks, uint16(i*exl2_unit_blocks))
	}
	return m
}

// leave has the stream that p reads be left for its matrices, which have orderedMatrix's order.
func leave(d *Device, p device.Products) {
	at := d.addressOrNull
	d.linked = stream{x: at(p.X), rows: p.X.Rows, cols: p.X.Cols, parts: 1, sorted: 1, scale: at(p.Scale), norm: p.Norm, powers: true}
}

// contents is what decoding has left in memory: by where a matrix begins, which one is
// there, by its words, and which of its units.
type contents map[uint64]*decodedThere

type decodedThere struct {
	words, bytes uint64
	units        map[int32]bool
}

// write notes what u decodes, in whose place nothing else is left.
func (c contents) write(u unpacking) {
	bytes := uint64(2 * u.out * u.in)
	for at, there := range c {
		if at < u.to+bytes && u.to < at+there.bytes && (at != u.to || there.words != u.words) {
			delete(c, at)
		}
	}
	if c[u.to] == nil {
		c[u.to] = &decodedThere{u.words, bytes, map[int32]bool{}}
	}
	for i := u.first; i < u.end; i++ {
		c[u.to].units[i] = true
	}
}

// lacks returns how many units of a matrix are not where they should be.
func (c contents) lacks(u unpacking) int {
	there := c[u.to]
	if there == nil || there.words != u.words {
		return int(u.end - u.first)
	}
	return int(u.end) - len(there.units)
}

// watching has c note what d decodes in launches of its own.
func watching(d *Device, f *fake, c contents) (launched *int) {
	launched = new(int)
	f.called = func(s symbol) {
		if (s == cuLaunchKernel || s == cuLaunchKernelEx) && d.args.kernel == kernel_unpack_f16 {
			u := *(*unpacking)(unsafe.Pointer(&d.args.buf))
			c.write(u)
			*launched += int(u.end - u.first)
		}
	}
	return launched
}

// someShares draws shares of whole matrices.
func someShares(t *rapid.T, d *Device) (all []share) {
	for range rapid.IntRange(1, 6).Draw(t, "shares") {
		s := share{n: rapid.IntRange(1, mostMatrices).Draw(t, "matrices")}
		in := 128 * rapid.IntRange(1, 64).Draw(t, "in")
		for i := range s.n {
			s.list[i] = fakeMatrix(d, in, rapid.IntRange(1, 5000).Draw(t, "out"))
		}
		all = append(all, s)
	}
	return all
}

// Whatever is multiplied in whatever order, all weights are there when they are multiplied,
// whether they are kept or in the ring, and also when somebody takes the memory back. What is
// kept is decoded once, and takes no more than it may.
func TestLookahead(t *testing.T) {
	f := newFake()
	f.attr[attributeMajor], f.attr[attributeMinor], f.attr[attributeSMs] = 9, 0, 132
	f.apart = true
	d := f.open(t)
	rapid.Check(t, func(t *rapid.T) {
		d.stopKeeping()
		d.ahead = lookahead{}
		all, have := someShares(t, d), contents{}
		launched := watching(d, f, have)
		limit := rapid.SampledFrom([]int{0, 1 << 20, 100 << 20, 1 << 40}).Draw(t, "limit")
		d.KeepDecoded(limit)
		done := map[share]int{} // units that are decoded of what is kept
		for step := range rapid.IntRange(1, 30).Draw(t, "steps") {
			s := all[step%len(all)]
			if rapid.IntRange(0, 9).Draw(t, "jump") == 0 {
				s = all[rapid.IntRange(0, len(all)-1).Draw(t, "to")]
			}
			if rapid.IntRange(0, 9).Draw(t, "taken") == 0 && d.takeBack() {
				limit, done = 0, map[share]int{}
			}
			func() {
				d.weightRing()
				d.kept.hold()
				defer d.kept.letGo()
				*launched = 0
				place := d.weights(s)
				first := d.ahead.queue[0]
				if first.share != s || place != first.place {
					t.Fatalf("step %d: not the weights that are asked for", step)
				}
				for i, u := range d.prepared(s, place).to {
					if n := have.lacks(u); n > 0 {
						t.Fatalf("step %d: %d units of matrix %d are not there", step, n, i)
					}
				}
				if first.slab != nil {
					if done[s] += *launched; done[s] > first.units {
						t.Fatalf("step %d: %d units decoded, there are %d", step, done[s], first.units)
					}
				}
				for _, u := range d.lookAhead(rapid.IntRange(0, 3*first.units).Draw(t, "units")) {
					have.write(u)
					for _, p := range d.ahead.queue {
						if p.slab != nil && d.at(p.place) <= uintptr(u.to) && uintptr(u.to) < d.at(p.place)+uintptr(p.bytes()) {
							done[p.share] += int(u.end - u.first)
							break
						}
					}
				}
			}()
			if n := int(d.kept.bytes.Load()); n > limit {
				t.Fatalf("step %d: %d bytes are kept, want at most %d", step, n, limit)
			}
			checkPlaces(t, d.ahead.queue)
		}
		f.called = nil
	})
}

func checkPlaces(t *rapid.T, queue []*prepared) {
	for i, p := range queue {
		if p.place.Off%1024 != 0 || p.slab == nil && p.place.Off+p.bytes() > ringBytes {
			t.Fatalf("share %d: %d bytes at %d", i, p.bytes(), p.place.Off)
		}
		for j, q := range queue[:i] {
			if p != q && p.place.Mem == q.place.Mem && p.place.Off < q.place.Off+q.bytes() && q.place.Off < p.place.Off+p.bytes() {
				t.Fatalf("shares %d and %d: %d bytes at %d, %d at %d", j, i, q.bytes(), q.place.Off, p.bytes(), p.place.Off)
			}
		}
	}
}

// What came the last time is decoded ahead.
func TestForesight(t *testing.T) {
	d := hopperFake(t)
	a, b := share{n: 1}, share{n: 1}
	a.list[0], b.list[0] = fakeMatrix(d, 256, 64), fakeMatrix(d, 512, 128) // of 4 and 16 units
	count := func(list []unpacking) (n int32) {
		for _, u := range list {
			n += u.end - u.first
		}
		return n
	}
	for _, c := range []struct {
		multiply share
		ahead    int
		want     int32 // units that are decoded ahead
	}{{a, 100, 0}, {b, 100, 0}, {a, 10, 10}, {b, 22, 22}, {a, 0, 0}, {b, 100, 2 + 16 + 4 + 16}} {
		d.weights(c.multiply)
		if got := count(d.lookAhead(c.ahead)); got != c.want {
			t.Errorf("%d columns, %d units at most: %d units ahead, want %d", c.multiply.rows(), c.ahead, got, c.want)
		}
	}
	d.forgetWeights()
	d.weights(a)
	if got := count(d.lookAhead(5)); got != 5 {
		t.Errorf("%d units ahead after forgetting what is decoded, want 5", got)
	}
}
