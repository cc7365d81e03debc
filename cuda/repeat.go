package cuda

import (
	"slices"

	"exl2/internal/tensor"
)

// A tape is the operations of a function that is to be repeated: launches with their
// arguments, and what else is issued to the stream. What the function uploads, and frees,
// stays where it is until the tape is freed.
type tape struct {
	calls []taped
	kept  []tensor.Tensor
}

// A taped call is a launch, or another call of the driver.
type taped struct {
	launch    launch
	kernel    kernel
	arguments []byte
	whole     bool

	op     string
	symbol symbol
	args   []uintptr // nil of a launch
}

// Repeat calls fn, and returns a function that issues its operations again, without what
// the host does between them. fn may allocate, free and upload, but not wait.
func (d *Device) Repeat(fn func()) (again, free func()) {
	if d.tape != nil {
		panic("cuda: Repeat within Repeat")
	}
	t := &tape{}
	d.settle()
	func() {
		d.tape = t
		defer func() { d.tape = nil }() // fn may panic
		fn()
		d.settle()
	}()
	return func() { d.play(t) }, func() {
		for _, x := range t.kept {
			d.Free(x)
		}
	}
}

// play issues what is on a tape.
func (d *Device) play(t *tape) {
	d.turned = turned{}
	for i := range t.calls {
		c := &t.calls[i]
		if c.args != nil {
			d.do(c.op, c.symbol, c.args...)
			continue
		}
		a := d.begin(c.kernel)
		a.size, a.whole = uintptr(copy(a.buf[:], c.arguments)), c.whole
		d.launch(a, c.launch)
	}
}

// tapeLaunch notes a launch, if operations are taped.
func (d *Device) tapeLaunch(a *arguments, l launch) {
	if d.tape != nil {
		d.tape.calls = append(d.tape.calls, taped{launch: l, kernel: a.kernel, arguments: slices.Clone(a.buf[:a.size]), whole: a.whole})
	}
}

// tapeCall notes a call of the driver that is a part of what is repeated.
func (d *Device) tapeCall(op string, s symbol, args []uintptr) {
	if d.tape != nil && (s == cuMemsetD8Async || s == cuMemcpyDtoDAsync) {
		d.tape.calls = append(d.tape.calls, taped{op: op, symbol: s, args: slices.Clone(args)})
	}
}
