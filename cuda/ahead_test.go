package cuda

import (
	"testing"

	"pgregory.net/rapid"

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

// Whatever is multiplied in whatever order, weights are decoded once before they are
// multiplied, and the places of those that are needed lie apart.
func TestLookahead(t *testing.T) {
	d := hopperFake(t)
	rapid.Check(t, func(t *rapid.T) {
		d.forget()
		var all []share
		for range rapid.IntRange(1, 6).Draw(t, "shares") {
			s := share{n: rapid.IntRange(1, mostMatrices).Draw(t, "matrices")}
			in := 128 * rapid.IntRange(1, 64).Draw(t, "in")
			for i := range s.n {
				s.list[i] = fakeMatrix(d, in, rapid.IntRange(1, 5000).Draw(t, "out"))
			}
			all = append(all, s)
		}
		for step := range rapid.IntRange(1, 30).Draw(t, "steps") {
			s := all[step%len(all)]
			if rapid.IntRange(0, 9).Draw(t, "jump") == 0 {
				s = all[rapid.IntRange(0, len(all)-1).Draw(t, "to")]
			}
			d.weights(s)
			for _, u := range d.ahead.queue[0].to {
				if u.first != u.end {
					t.Fatalf("step %d: units %d to %d are not decoded", step, u.first, u.end)
				}
			}
			d.lookAhead(rapid.IntRange(0, 3*d.ahead.queue[0].units).Draw(t, "units"))
			checkPlaces(t, d.ahead.queue)
		}
	})
}

func checkPlaces(t *rapid.T, queue []prepared) {
	for i, p := range queue {
		if p.at%1024 != 0 || p.at+p.bytes() > ringBytes {
			t.Fatalf("share %d: %d bytes at %d", i, p.bytes(), p.at)
		}
		for j, q := range queue[:i] {
			if p.at < q.at+q.bytes() && q.at < p.at+p.bytes() {
				t.Fatalf("shares %d and %d: %d bytes at %d, %d at %d", j, i, q.bytes(), q.at, p.bytes(), p.at)
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
