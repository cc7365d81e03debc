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

// prepared is a share whose weights are decoded to a place in the ring, or in part.
type prepared struct {
	share
	at    int         // bytes
	to    []unpacking // what is left to do of each matrix
	units int         // of all
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

// ringBytes is the memory in which weights are decoded: those of a layer, so that while
// some are multiplied as many others can be decoded.
const ringBytes = 512 << 20

// A lookahead is the shares that are multiplied, the first one, and after that, as far as
// they are decoded. What comes is what came the last time.
type lookahead struct {
	queue   []prepared
	follows map[share]share
	last    share
}

// weights returns the weights of a share, decoded.
func (d *Device) weights(s share) tensor.Tensor {
	a := &d.ahead
	if a.follows == nil {
		a.follows = map[share]share{}
	}
	if a.last.n > 0 {
		a.follows[a.last] = s
	}
	a.last = s
	a.queue = a.queue[min(1, len(a.queue)):]
	if len(a.queue) == 0 || a.queue[0].share != s {
		a.queue = append(a.queue[:0], d.prepared(s, 0))
	}
	for i, u := range a.queue[0].to {
		if u.first < u.end {
			d.unpack(u)
			a.queue[0].to[i].first = u.end
		}
	}
	return d.ringPlace(s, a.queue[0].at)
}

// ringPlace returns a share's place in the ring.
func (d *Device) ringPlace(s share, at int) tensor.Tensor {
	w := d.scratch(scratchRing, tensor.U8, 1, ringBytes)
	w.Type, w.Rows, w.Cols, w.Stride, w.Off = tensor.F16, s.rows(), s.list[0].in, s.list[0].in, w.Off+at
	return w
}

// prepared describes a share of which nothing is decoded.
func (d *Device) prepared(s share, at int) prepared {
	p, w, row := prepared{share: s, at: at}, d.ringPlace(s, at), 0
	for i, m := range s.list[:s.n] {
		lo, hi := s.columns(i)
		u := d.unpacking(w.Slice(row, row+hi-lo), m, s.places, lo, hi)
		p.to, p.units, row = append(p.to, u), p.units+int(u.end-u.first), row+hi-lo
	}
	return p
}

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

// foreseeShare adds to the queue what came after its last share the last time, if it is
// known and there is room.
func (d *Device) foreseeShare() bool {
	a := &d.ahead
	first, last := &a.queue[0], &a.queue[len(a.queue)-1]
	s, ok := a.follows[last.share]
	if !ok {
		return false
	}
	at, end := last.at+(last.bytes()+1023)&^1023, ringBytes
	if last.at < first.at {
		end = first.at
	} else if at+s.bytes() > end {
		at, end = 0, first.at
	}
	if at+s.bytes() > end {
		return false
	}
	a.queue = append(a.queue, d.prepared(s, at))
	return true
}

// forgetWeights forgets what is decoded: others write to the ring.
func (d *Device) forgetWeights() { d.ahead.queue, d.ahead.last = nil, share{} }

// forget forgets what follows what: a matrix is freed.
func (d *Device) forget() { d.ahead = lookahead{} }
