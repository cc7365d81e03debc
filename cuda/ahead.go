package cuda

import (
	"exl2/internal/tensor"
)

// A share is columns lo to hi of matrices of one order, or, if hi is 0, all of them, whose
// weights are decoded to lie below each other: a row a column, in the order that places
// says, if it is there.
type share struct {
	list   [mostMatrices]*matrix
	n      int
	places tensor.Tensor
	lo, hi int
}

// columns returns which ones matrix i has.
func (s share) columns(i int) (lo, hi int) {
	if s.hi == 0 {
		return 0, s.list[i].out
	}
	return s.lo, s.hi
}

// rows returns the columns of all matrices.
func (s share) rows() (n int) {
	for i := range s.n {
		lo, hi := s.columns(i)
		n += hi - lo
	}
	return n
}

func (s share) bytes() int { return s.rows() * s.list[0].in * tensor.F16.Size() }

// prepared is a share whose weights are decoded to a place in the ring, or to one where
// they are kept, or in part.
type prepared struct {
	share
	place tensor.Tensor // F16
	to    []unpacking   // what is left to do of each matrix
	units int           // of all
	slab  *slab         // that has the place; nil of the ring's
}

// take takes up to so many units from what is left, and returns how many those are.
func (p *prepared) take(units int, out []unpacking) ([]unpacking, int) {
	taken := 0
	for i := range p.to {
		u := &p.to[i]
		if n := min(units-taken, int(u.end-u.first)); n > 0 && len(out) < gemm_tiles_most_unpackings {
			part := *u
			part.end = u.first + int32(n)
			u.first, taken = part.end, taken+n
			out = append(out, part)
		}
	}
	return out, taken
}

// ringBytes is the memory in which weights are decoded: those of a layer of 32 billion weights' models, so that while
// some are multiplied as many others can be decoded.
const ringBytes = 1 << 30

// mostAhead is how many shares are looked at: those that are kept take none of the ring.
const mostAhead = 16

// A lookahead is the shares that are multiplied, the first one, and after that, as far as
// they are decoded. What comes is what came the last time.
type lookahead struct {
	queue   []*prepared
	follows map[share]share
	last    share
}

// weightRing returns the ring.
func (d *Device) weightRing() tensor.Tensor { return d.scratch(scratchRing, tensor.U8, 1, ringBytes) }

// weights returns the weights of a share, decoded. The caller holds the keeper, unless it
// is recording.
func (d *Device) weights(s share) tensor.Tensor {
	a := &d.ahead
	if d.kept.taken {
		a.queue, d.kept.taken = nil, false
	}
	if a.follows == nil {
		a.follows = map[share]share{}
	}
	if a.last.n > 0 {
		a.follows[a.last] = s
	}
	a.last = s
	a.queue = a.queue[min(1, len(a.queue)):]
	if len(a.queue) == 0 || a.queue[0].share != s {
		a.queue = a.queue[:0]
		d.foresee(s)
	}
	first := a.queue[0]
	for i, u := range first.to {
		if u.first < u.end {
			d.unpack(u)
			first.to[i].first = u.end
		}
	}
	return first.place
}

// prepared describes a share of which nothing is decoded, and a place for it.
func (d *Device) prepared(s share, place tensor.Tensor) *prepared {
	p, row := &prepared{share: s, place: place}, 0
	for i, m := range s.list[:s.n] {
		lo, hi := s.columns(i)
		u := d.unpacking(place.Slice(row, row+hi-lo), m, s.places, lo, hi)
		p.to, p.units, row = append(p.to, u), p.units+int(u.end-u.first), row+hi-lo
	}
	return p
}

// foresee adds a share to the queue, if there is room: where it is kept, or in the ring.
func (d *Device) foresee(s share) bool {
	a := &d.ahead
	if _, again := a.follows[s]; again && !d.recording { // replays do not find what is kept
		if p := d.keep(s); p != nil {
			a.queue = append(a.queue, p)
			return true
		}
	}
	at, ok := a.room(s.bytes())
	if ok {
		w := d.weightRing()
		w.Type, w.Rows, w.Cols, w.Stride, w.Off = tensor.F16, s.rows(), s.list[0].in, s.list[0].in, w.Off+at
		a.queue = append(a.queue, d.prepared(s, w))
	}
	return ok
}

// room returns where in the ring there is room behind the shares of the queue.
func (a *lookahead) room(bytes int) (at int, ok bool) {
	var first, last *prepared
	for _, p := range a.queue {
		if p.slab != nil {
			continue
		}
		if last = p; first == nil {
			first = p
		}
	}
	if first == nil {
		return 0, bytes <= ringBytes
	}
	at, end := last.place.Off+aligned(last.bytes()), ringBytes
	if last.place.Off < first.place.Off {
		end = first.place.Off
	} else if at+bytes > end {
		at, end = 0, first.place.Off
	}
	return at, at+bytes <= end
}

// aligned returns what so many bytes take where all begins at places that suit copies.
func aligned(bytes int) int { return (bytes + 1023) &^ 1023 }

// lookAhead returns what is to be decoded of shares to come, up to so many units.
func (d *Device) lookAhead(units int) (out []unpacking) {
	a := &d.ahead
	for i := 1; units > 0 && len(out) < gemm_tiles_most_unpackings; i++ {
		if i == len(a.queue) && !d.foreseeShare() {
			break
		}
		var taken int
		out, taken = a.queue[i].take(units, out)
		units -= taken
	}
	return out
}

// foreseeShare adds to the queue what came after its last share the last time, if that is
// known and there is room.
func (d *Device) foreseeShare() bool {
	a := &d.ahead
	s, ok := a.follows[a.queue[len(a.queue)-1].share]
	return ok && len(a.queue) < mostAhead && d.foresee(s)
}

// forgetWeights forgets what is decoded: others write to the ring.
func (d *Device) forgetWeights() { d.ahead.queue, d.ahead.last = nil, share{} }

// forget forgets what follows what, and what is kept of m, which is freed.
func (d *Device) forget(m *matrix) {
	d.forbidWhileRecording("FreeEXL2")
	d.ahead = lookahead{}
	d.forgetKept(m)
}
