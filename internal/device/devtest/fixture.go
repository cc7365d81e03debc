package devtest

import (
	"bytes"
	"errors"
	"fmt"

	"exl2/internal/affine"
	"exl2/internal/device"
	"exl2/internal/exl2"
	"exl2/internal/tensor"
)

// Types of operands: activation stands for the activation type of whatever
// device it is, residual for F32. Both may be ranges of columns.
const (
	activation tensor.Type = 255
	residual   tensor.Type = 254
)

// A fixture allocates the operands of a case on one device.
type fixture struct {
	dev      device.Device
	round    tensor.Type // what activations are rounded to on every device
	gap      int         // guard columns of activations and of the residual stream
	operands []*operand
	matrices []device.Matrix
	groups   []device.Group
	caches   []device.Cache
	prepared []func()                                // what gives caches their initial contents
	score    func(results map[string][]byte) float64 // may not be worse than the reference's, if there is one
}

// An operand is a tensor between two guard rows, and perhaps guard columns.
type operand struct {
	name    string
	tensor  tensor.Tensor
	block   tensor.Tensor // the tensor and its guards
	initial []byte        // of block
	written bool          // by the operation
	limit   *limit        // of this operand, in the place of the case's
}

// gap is the guard columns on each side of operands that have them.
const gap = 8

// add allocates an operand whose elements are data.
func (f *fixture) add(o operand, t tensor.Type, rows, cols, gap int, data []byte) tensor.Tensor {
	o.block = f.dev.Alloc(t, rows+2, gap+cols+gap)
	o.tensor = o.block.Slice(1, rows+1).Columns(gap, gap+cols)
	o.initial = guards(t, (rows+2)*(gap+cols+gap))
	for r := range rows {
		copy(o.row(o.initial, r), data[r*cols*t.Size():])
	}
	f.dev.Upload(o.block, o.initial)
	f.operands = append(f.operands, &o)
	return o.tensor
}

// row returns row r of the tensor in the bytes of the block.
func (o *operand) row(block []byte, r int) []byte {
	size := o.tensor.Type.Size()
	at := (r + 1) * o.block.Cols * size
	at += (o.block.Cols - o.tensor.Cols) / 2 * size
	return block[at : at+o.tensor.Cols*size]
}

// split returns the bytes of the tensor, and those around it with the tensor's
// initial ones in their places.
func (o *operand) split(block []byte) (inside, outside []byte) {
	inside = make([]byte, 0, o.tensor.Bytes())
	for r := range o.tensor.Rows {
		row := o.row(block, r)
		inside = append(inside, row...)
		copy(row, o.row(o.initial, r))
	}
	return inside, block
}

// holds reports whether the tensor's initial bytes are those.
func (o *operand) holds(inside []byte) bool {
	for r := range o.tensor.Rows {
		row := o.row(o.initial, r)
		if !bytes.Equal(row, inside[r*len(row):(r+1)*len(row)]) {
			return false
		}
	}
	return true
}

// floats allocates an operand of floating-point values.
func (f *fixture) floats(o operand, t tensor.Type, rows, cols int, v values) tensor.Tensor {
	switch t {
	case activation:
		t, v = f.dev.Activation(), rounded(v, f.round)
	case residual:
		t = tensor.F32
	default:
		return f.add(o, t, rows, cols, 0, encode(t, rows*cols, v))
	}
	return f.add(o, t, rows, cols, f.gap, encode(t, rows*cols, v))
}

// in allocates what the operation reads.
func (f *fixture) in(name string, t tensor.Type, rows, cols int, v values) tensor.Tensor {
	return f.floats(operand{name: name}, t, rows, cols, v)
}

// inOut allocates what the operation changes.
func (f *fixture) inOut(name string, t tensor.Type, rows, cols int, v values) tensor.Tensor {
	return f.floats(operand{name: name, written: true}, t, rows, cols, v)
}

// out allocates what the operation writes.
func (f *fixture) out(name string, t tensor.Type, rows, cols int) tensor.Tensor {
	return f.inOut(name, t, rows, cols, nothing)
}

// ints allocates integers that the operation reads.
func (f *fixture) ints(name string, rows, cols int, v []int32) tensor.Tensor {
	return f.add(operand{name: name}, tensor.I32, rows, cols, 0, encodeInts(v))
}

// intsOut allocates integers that the operation changes.
func (f *fixture) intsOut(name string, rows, cols int, v []int32) tensor.Tensor {
	return f.add(operand{name: name, written: true}, tensor.I32, rows, cols, 0, encodeInts(v))
}

// bytes allocates bytes that the operation reads.
func (f *fixture) bytes(name string, rows, cols int, v []byte) tensor.Tensor {
	return f.add(operand{name: name}, tensor.U8, rows, cols, 0, v)
}

// bytesOut allocates bytes that the operation changes.
func (f *fixture) bytesOut(name string, rows, cols int, v []byte) tensor.Tensor {
	return f.add(operand{name: name, written: true}, tensor.U8, rows, cols, 0, v)
}

// within gives the operand that was allocated last a limit of its own.
func (f *fixture) within(l limit) { f.operands[len(f.operands)-1].limit = &l }

// spent is out of an operand that the operation may leave as it likes.
func (f *fixture) spent(name string, t tensor.Type, rows, cols int) tensor.Tensor {
	x := f.out(name, t, rows, cols)
	f.within(spent)
	return x
}

// matrix loads an EXL2 matrix.
func (f *fixture) matrix(m *exl2.Matrix, out int) device.Matrix {
	w := f.dev.LoadEXL2(m, out)
	f.matrices = append(f.matrices, w)
	return w
}

// affine loads an affine matrix.
func (f *fixture) affine(m *affine.Matrix) device.Matrix {
	w := f.dev.LoadAffine(m)
	f.matrices = append(f.matrices, w)
	return w
}

// cache makes a cache.
func (f *fixture) cache(s device.CacheShape) device.Cache {
	c := f.dev.NewCache(s)
	f.caches = append(f.caches, c)
	return c
}

// prepare calls what gives caches their initial contents, now and at every
// reset.
func (f *fixture) prepare(fn func()) {
	fn()
	f.prepared = append(f.prepared, fn)
}

// reset gives caches and operands that have been written their initial values.
func (f *fixture) reset() {
	for _, fn := range f.prepared {
		fn()
	}
	for _, o := range f.operands {
		if o.written {
			f.dev.Upload(o.block, o.initial)
		}
	}
}

// results returns the bytes of every operand, guards excluded, after checking
// that guards and inputs are what they were.
func (f *fixture) results() ([][]byte, error) {
	all := make([][]byte, len(f.operands))
	for i, o := range f.operands {
		data := make([]byte, o.block.Bytes())
		f.dev.Download(data, o.block)
		if err := f.dev.Sync(); err != nil {
			return nil, err
		}
		inside, outside := o.split(data)
		if !bytes.Equal(outside, o.initial) {
			return nil, fmt.Errorf("memory around %s is written", o.name)
		}
		if !o.written && !o.holds(inside) {
			return nil, fmt.Errorf("%s, which is only read, is written", o.name)
		}
		all[i] = inside
	}
	return all, nil
}

// free frees everything.
func (f *fixture) free() {
	for _, o := range f.operands {
		f.dev.Free(o.block)
	}
	for _, g := range f.groups {
		f.dev.FreeGroup(g)
	}
	for _, m := range f.matrices {
		f.dev.FreeEXL2(m)
	}
	for _, c := range f.caches {
		f.dev.FreeCache(c)
	}
}

// otherway is how much a result may be the worse, of which a few columns went another way: rounding
// what is left at rows to fp16 changes a loss by six ten-thousandths either way, by nothing on average.
const otherway = 2e-3

// verify runs a case on the reference and on a device and returns the first
// difference.
func verify(ref, d device.Device, c testCase) error {
	expected := &fixture{dev: ref, round: d.Activation(), gap: c.gap}
	call := c.build(expected)
	call(ref)
	want, err := expected.results()
	if err != nil {
		return fmt.Errorf("reference: %w", err)
	}
	f := &fixture{dev: d, round: d.Activation(), gap: c.gap}
	defer f.free()
	call = c.build(f)
	call(d)
	got, err := f.results()
	if err != nil {
		return err
	}
	for i, o := range f.operands {
		l := c.limit
		if o.limit != nil {
			l = *o.limit
		}
		if o.written {
			if err := l.compare(o.name, o.tensor, got[i], expected.operands[i].tensor.Type, want[i]); err != nil {
				return err
			}
		}
	}
	if f.score != nil {
		if a, b := f.score(f.named(got)), expected.score(expected.named(want)); !(a <= b*(1+otherway)) {
			return fmt.Errorf("the loss is %v, the reference's %v", a, b)
		}
	}
	if c.direct {
		return f.again("called again", got, func() { call(d) })
	}
	return verifyRecorded(f, got, func() { call(d) })
}

// named returns results by the names of their operands.
func (f *fixture) named(results [][]byte) map[string][]byte {
	all := map[string][]byte{}
	for i, o := range f.operands {
		all[o.name] = results[i]
	}
	return all
}

// verifyRecorded checks that a recording does what the call has done.
func verifyRecorded(f *fixture, want [][]byte, call func()) error {
	var replay func()
	if err := f.again("while recorded", want, func() {
		var err error
		if replay, err = f.dev.Record(call); err != nil {
			replay = nil
		}
	}); err != nil || replay == nil {
		return fmt.Errorf("recording: %w", errors.Join(err, f.dev.Sync()))
	}
	for _, moment := range []string{"replayed", "replayed again"} {
		if err := f.again(moment, want, replay); err != nil {
			return err
		}
	}
	return nil
}

// again checks that a call on the initial values gives the results wanted.
func (f *fixture) again(moment string, want [][]byte, call func()) error {
	f.reset()
	call()
	got, err := f.results()
	if err != nil {
		return fmt.Errorf("%s: %w", moment, err)
	}
	for i, o := range f.operands {
		if ignored := o.limit != nil && o.limit.any; !ignored && !bytes.Equal(got[i], want[i]) {
			return fmt.Errorf("%s: %s differs from what the call gives", moment, o.name)
		}
	}
	return nil
}
