package cuda

import (
	"bytes"
	"testing"

	"exl2/internal/exl2"
	"exl2/internal/half"
	"exl2/internal/tensor"
)

// keeping opens a fake GPU of Hopper's kind that may keep a gigabyte.
func keeping(t *testing.T, f *fake) *Device {
	f.attr[attributeMajor], f.attr[attributeMinor], f.attr[attributeSMs] = 9, 0, 132
	d := f.open(t)
	t.Cleanup(func() { d.Close() })
	d.KeepDecoded(1 << 30)
	d.weightRing()
	return d
}

// multiplied returns where the weights of a share are, which so many products have read.
func multiplied(d *Device, s share, times int) *prepared {
	d.kept.hold()
	defer d.kept.letGo()
	for range times {
		d.weights(s)
	}
	return d.ahead.queue[0]
}

// alone is a share of one matrix.
func alone(m *matrix) share {
	s := share{n: 1}
	s.list[0] = m
	return s
}

// Weights are kept when they are multiplied the second time.
func TestKeptAgain(t *testing.T) {
	d := keeping(t, newFake())
	a, b := alone(fakeMatrix(d, 1024, 1024)), alone(fakeMatrix(d, 512, 1024))
	for i, c := range []struct {
		s    share
		want bool
	}{{a, false}, {b, false}, {a, true}, {b, true}, {b, true}, {a, true}} {
		if got := multiplied(d, c.s, 1).slab != nil; got != c.want {
			t.Errorf("product %d: kept: %v, want %v", i, got, c.want)
		}
	}
}

// Small shares have slabs in common, large ones their own; when the last matrix of a slab is
// freed the slab is.
func TestKeptIsFreed(t *testing.T) {
	d := keeping(t, newFake())
	small := []*matrix{fakeMatrix(d, 1024, 1024), fakeMatrix(d, 1024, 1024)} // of 2 MiB decoded
	large := fakeMatrix(d, 8192, 4096)                                       // of 64 MiB
	for _, m := range append(small, large) {
		multiplied(d, alone(m), 2)
	}
	if want := slabBytes + 64<<20; d.Kept() != want || len(d.kept.slabs) != 2 {
		t.Errorf("%d bytes in %d slabs, want %d in 2", d.Kept(), len(d.kept.slabs), want)
	}
	for i, want := range []int{slabBytes + 64<<20, 64 << 20, 0} {
		m := append(small, large)[i]
		d.forget(m)
		if d.Kept() != want {
			t.Errorf("%d matrices are freed, %d bytes are kept, want %d", i+1, d.Kept(), want)
		}
	}
	if p := multiplied(d, alone(large), 2); p.slab == nil || d.Kept() != 64<<20 {
		t.Errorf("a matrix that comes later: %d bytes are kept", d.Kept())
	}
}

// A matrix that says where columns go takes them along.
func TestKeptByPlaces(t *testing.T) {
	d := keeping(t, newFake())
	gate, down := fakeMatrix(d, 1024, 1024), fakeMatrix(d, 1024, 1024)
	down.places = d.Alloc(tensor.F16, 1, 1024)
	s := alone(gate)
	s.places = down.places
	multiplied(d, s, 2)
	if d.Kept() == 0 {
		t.Error("nothing is kept")
	}
	if d.forget(down); d.Kept() != 0 {
		t.Errorf("%d bytes are kept in the order of a matrix that is freed", d.Kept())
	}
}

// short has the fake say that memory is used up until some has been freed.
func (f *fake) short() {
	f.fails[cuMemAlloc] = outOfMemory
	f.called = func(s symbol) {
		if s == cuMemFree {
			delete(f.fails, cuMemAlloc)
		}
	}
}

// Who finds no memory takes what is kept, whichever device of the GPU keeps it; from then on
// weights are in the ring.
func TestKeptIsTakenBack(t *testing.T) {
	for _, c := range []struct {
		name string
		who  func(f *fake, d *Device) *Device
	}{
		{"the device itself", func(_ *fake, d *Device) *Device { return d }},
		{"another one of the GPU", func(f *fake, d *Device) *Device {
			other, err := d.drv.open(0)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { other.Close() })
			return other
		}},
	} {
		f := newFake()
		d := keeping(t, f)
		m := fakeMatrix(d, 1024, 1024)
		multiplied(d, alone(m), 2)
		free, _ := d.MemInfo()
		who := c.who(f, d)
		f.short()
		who.Alloc(tensor.F32, 1, 8)
		if err := who.Sync(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if after, _ := d.MemInfo(); d.Kept() != 0 || free-after != slabBytes {
			t.Errorf("%s: %d bytes are kept; %d were free with %d kept, %d are without", c.name, d.Kept(), free, slabBytes, after)
		}
		if p := multiplied(d, alone(m), 2); p.slab != nil || d.Kept() != 0 {
			t.Errorf("%s: weights are kept again", c.name)
		}
		f.short()
		who.Alloc(tensor.F32, 1, 8)
		if err := who.Sync(); err == nil {
			t.Errorf("%s: no error though nothing is kept", c.name)
		}
		clear(f.fails)
	}
}

// What is refused when more is to be kept is no failure, and is in the ring.
func TestNoRoomToKeep(t *testing.T) {
	f := newFake()
	d := keeping(t, f)
	m := fakeMatrix(d, 1024, 1024)
	f.fails[cuMemAlloc] = outOfMemory
	if p := multiplied(d, alone(m), 2); p.slab != nil || d.Sync() != nil {
		t.Errorf("in a slab: %v; error %v", p.slab != nil, d.Sync())
	}
	clear(f.fails)
	if p := multiplied(d, alone(m), 2); p.slab != nil || d.Kept() != 0 {
		t.Errorf("%d bytes are kept after a refusal", d.Kept())
	}
}

// A recording decodes for itself: what is kept may be taken before it is replayed.
func TestRecordingKeepsNothing(t *testing.T) {
	d := keeping(t, newFake())
	s := alone(fakeMatrix(d, 1024, 1024))
	var slabs []bool
	if _, err := d.Record(func() {
		if !d.recording {
			slabs = append(slabs, multiplied(d, s, 2).slab != nil)
			return
		}
		d.weights(s)
		slabs = append(slabs, d.ahead.queue[0].slab != nil)
	}); err != nil {
		t.Fatal(err)
	}
	if len(slabs) != 2 || !slabs[0] || slabs[1] {
		t.Errorf("kept before and while it is recorded: %v, want true and false", slabs)
	}
}

// While a stream is recorded, from the first call to the last, nobody frees memory in it.
func TestRecordingHoldsKept(t *testing.T) {
	f := newFake()
	d := keeping(t, f)
	x := d.Alloc(tensor.F32, 1, 8)
	calls := 0
	f.called = func(s symbol) {
		if s != cuStreamBeginCapture && s != cuStreamEndCapture {
			return
		}
		if calls++; d.kept.mu.TryLock() {
			d.kept.mu.Unlock()
			t.Errorf("%s: others may free", exported[s])
		}
	}
	if _, err := d.Record(func() { d.AddScaled(x, x, 1) }); err != nil || calls != 2 {
		t.Errorf("%v, %d calls", err, calls)
	}
	f.called = nil
	if !d.kept.mu.TryLock() {
		t.Fatal("held when it is recorded")
	}
	d.kept.mu.Unlock()
}

// What is taken back leaves the driver's pool, too: a launch takes nothing of that.
func TestTakenForLaunch(t *testing.T) {
	f := newFake()
	d := keeping(t, f)
	d.pool.handle = 1
	multiplied(d, alone(fakeMatrix(d, 1024, 1024)), 2)
	if d.Kept() == 0 {
		t.Fatal("nothing is kept")
	}
	f.fails[cuLaunchKernelEx] = outOfMemory
	f.called = func(s symbol) {
		if s == cuMemPoolTrimTo && f.calls[cuMemFreeAsync] > 0 {
			delete(f.fails, cuLaunchKernelEx)
		}
	}
	x := d.Alloc(tensor.F32, 1, 8)
	d.AddScaled(x, x, 1)
	if err := d.Sync(); err != nil || d.Kept() != 0 {
		t.Errorf("%v, %d bytes are kept", err, d.Kept())
	}
	f.called = nil
}

// Without weights to keep, and on GPUs that multiply otherwise, nothing is.
func TestDecodedBytes(t *testing.T) {
	hopper, other := hopperFake(t), newFake().open(t)
	for _, c := range []struct {
		d    *Device
		rows int
		want int
	}{{hopper, 2048, 2 * 4096 * 11008}, {hopper, tiledRows, 2 * 4096 * 11008}, {hopper, tiledRows - 1, 0}, {other, 2048, 0}} {
		if got := c.d.DecodedBytes(c.rows, 4096, 11008); got != c.want {
			t.Errorf("%s, %d rows: %d bytes, want %d", c.d.target, c.rows, got, c.want)
		}
	}
}

// codedMatrix is an EXL2 matrix [in, out] of 4 bits with some codes.
func codedMatrix(in, out, group int) *exl2.Matrix {
	q := exl2.Quantized{In: in, Out: out, Groups: exl2.Uniform(4, group).Groups(in), Codes: make([]uint8, in*out)}
	for i := range q.Codes {
		q.Codes[i] = uint8(i*7+i/out*3) % 16
	}
	q.Scales = make([]uint8, len(q.Groups)*out)
	for i := range q.Scales {
		q.Scales[i] = uint8(i*5) % 16
	}
	for range q.Groups {
		q.ScaleMax = append(q.ScaleMax, half.ToF16(0.01))
	}
	for i := range in {
		q.Perm = append(q.Perm, int32(i*5%in))
	}
	return q.Pack()
}

// On a GPU: products by weights that are kept, that are taken back because memory has run
// out, and that are in the ring, are the same to the bit.
func TestKeptProducts(t *testing.T) {
	const rows, in, out = 500, 1024, 1536
	d := closing(t, openGPU(t))
	m := d.LoadEXL2(codedMatrix(in, out, 128), out)
	x := d.Alloc(tensor.F16, rows, in)
	values := make([]half.F16, rows*in)
	for i := range values {
		values[i] = half.ToF16(float32(i%23-11) / 16)
	}
	d.Upload(x, tensor.BytesOf(values))
	product := func() []byte {
		y := d.Alloc(tensor.F16, rows, out)
		d.QMatMul(y, x, m, tensor.Tensor{})
		defer d.Free(y)
		return download(d, y)
	}
	want := product()
	d.KeepDecoded(1 << 30)
	for range 3 {
		if !bytes.Equal(product(), want) {
			t.Error("products are others when weights are kept")
		}
	}
	if kept := d.Kept(); kept != 0 != d.hopper() {
		t.Errorf("%d bytes are kept on %s", kept, d.name)
	}
	full := d.Kept() > 0 // memory is, until something is freed
	real := *d.drv
	d.drv.invoke = func(s symbol, args []uintptr) result {
		switch {
		case s == cuMemFreeAsync || s == cuMemFree:
			full = false
		case full && (s == cuMemAllocAsync || s == cuMemAlloc):
			return outOfMemory
		}
		return real.invoke(s, args)
	}
	defer func() { d.drv.invoke = real.invoke }()
	d.Free(d.Alloc(tensor.U8, 1, 1<<20))
	if !bytes.Equal(product(), want) || d.Kept() != 0 {
		t.Errorf("%d bytes are kept; or products are others when weights are taken back", d.Kept())
	}
	d.FreeEXL2(m)
	if err := d.Sync(); err != nil {
		t.Error(err)
	}
}
