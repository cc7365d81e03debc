package devtest

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// bytesOf returns n bytes of a pattern.
func bytesOf(seed, n int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = byte(mix(seed, i))
	}
	return out
}

func download(d device.Device, t tensor.Tensor) []byte {
	out := make([]byte, t.Bytes())
	d.Download(out, t)
	return out
}

// synced fails the test if the device has failed.
func synced(t *testing.T, d device.Device) {
	t.Helper()
	if err := d.Sync(); err != nil {
		t.Fatal(err)
	}
}

func testMemory(t *testing.T, open func(t testing.TB) device.Device) {
	d := opened(t, open)
	t.Run("zeroed", func(t *testing.T) { testZeroed(t, d) })
	for _, n := range []int{0, 1, 3, 4096, 1<<20 - 1, 1 << 20, 1<<20 + 1, 40<<20 + 5} {
		t.Run(fmt.Sprintf("there and back, %d bytes", n), func(t *testing.T) {
			x, src := d.Alloc(tensor.U8, 1, n), bytesOf(2, n)
			sent := bytes.Clone(src)
			d.Upload(x, sent)
			clear(sent) // it may be reused at once
			if !bytes.Equal(download(d, x), src) {
				t.Error("other bytes come back")
			}
			synced(t, d)
			d.Free(x)
		})
	}
	t.Run("many small uploads", func(t *testing.T) { testSmallUploads(t, d) })
	t.Run("in order with operations", func(t *testing.T) { testUploadOrder(t, d) })
	t.Run("fetched beside operations", func(t *testing.T) { testFetch(t, d) })
	t.Run("blank", func(t *testing.T) { testBlank(t, d) })
	t.Run("cleared", func(t *testing.T) { testCleared(t, d) })
	t.Run("size of caches", func(t *testing.T) { testCacheSize(t, d) })
	t.Run("nothing to free", func(t *testing.T) {
		d.Free(tensor.Tensor{})
		synced(t, d)
	})
}

func testZeroed(t *testing.T, d device.Device) {
	for range 3 { // memory that is used again, too
		x := d.Alloc(tensor.U8, 3, 100_001)
		if got := download(d, x); !bytes.Equal(got, make([]byte, len(got))) {
			t.Error("new memory is not zero")
		}
		d.Upload(x, bytesOf(1, x.Bytes()))
		d.Free(x)
	}
	synced(t, d)
}

// What is fetched is there when the mark is set; what is done to other memory since does not matter.
func testFetch(t *testing.T, d device.Device) {
	f, ok := d.(device.Fetcher)
	if !ok {
		t.Skip("it fetches nothing")
	}
	const n = 18<<20 + 3
	x, y, mark := d.Alloc(tensor.U8, 1, n), d.Alloc(tensor.U8, 1, n), f.NewMark()
	for round := range 3 {
		src, got := bytesOf(5+round, n), make([]byte, n)
		d.Upload(x, src)
		f.Set(mark)
		for range 40 { // and uploads, which take turns in memory of the host
			d.Copy(y, x)
			d.Upload(y.Columns(0, 100), src[:100])
		}
		if f.Fetch(got, x, mark); !bytes.Equal(got, src) {
			t.Error("other bytes come")
		}
	}
	synced(t, d)
	d.Free(x)
	d.Free(y)
}

func testBlank(t *testing.T, d device.Device) {
	for _, rows := range []int{1, 3} {
		x := device.Blank(d, tensor.F16, rows, 1001)
		if x.Rows != rows || x.Cols != 1001 || x.Type != tensor.F16 || !x.Dense() {
			t.Errorf("blank memory is %v", x)
		}
		src := bytesOf(9, x.Bytes())
		if d.Upload(x, src); !bytes.Equal(download(d, x), src) {
			t.Error("other bytes come back")
		}
		d.Free(x)
	}
	synced(t, d)
}

func testSmallUploads(t *testing.T, d device.Device) {
	const rows = 1000
	x, all, row := d.Alloc(tensor.I32, rows, 3), bytesOf(3, rows*12), make([]byte, 12)
	for r := range rows {
		copy(row, all[r*12:])
		d.Upload(x.Slice(r, r+1), row)
	}
	if !bytes.Equal(download(d, x), all) {
		t.Error("other bytes come back")
	}
	synced(t, d)
	d.Free(x)
}

func testUploadOrder(t *testing.T, d device.Device) {
	pos := d.Alloc(tensor.I32, 1, 5)
	for i := range 50 {
		d.Upload(pos, encodeInts(repeat(int32(i), 5)))
		d.Advance(pos)
		if got := decodeInts(download(d, pos))[4]; got != int32(i+1) {
			t.Fatalf("%d after an upload of %d and an advance", got, i)
		}
	}
	synced(t, d)
	d.Free(pos)
}

func testCleared(t *testing.T, d device.Device) {
	x := d.Alloc(tensor.F32, 5, 12)
	d.Upload(x, bytesOf(4, x.Bytes()))
	want := bytesOf(4, x.Bytes())
	for r := 1; r < 4; r++ {
		clear(want[(r*12+2)*4 : (r*12+9)*4])
	}
	d.Clear(x.Slice(1, 4).Columns(2, 9))
	if !bytes.Equal(download(d, x), want) {
		t.Error("other elements than those of the range")
	}
	d.Clear(x)
	if !bytes.Equal(download(d, x), make([]byte, x.Bytes())) {
		t.Error("something is left")
	}
	synced(t, d)
	d.Free(x)
}

func testCacheSize(t *testing.T, d device.Device) {
	s := device.CacheShape{Layers: 3, Pages: 5, PageRows: 32, K: 128, V: 128}
	c := d.NewCache(s)
	if n := d.CacheBytes(s); n <= 0 || c.Bytes() != n || c.Shape() != s {
		t.Errorf("%d bytes expected, the cache has %d; its shape is %+v, want %+v", n, c.Bytes(), c.Shape(), s)
	}
	synced(t, d)
	d.FreeCache(c)
}

// testRecord checks that a recording follows what is in the device's memory.
func testRecord(t *testing.T, open func(t testing.TB) device.Device) {
	d := opened(t, open)
	const cols = 64
	table, ids, y := d.Alloc(tensor.F32, 10, cols), d.Alloc(tensor.I32, 1, 1), d.Alloc(tensor.F32, 1, cols)
	d.Upload(table, encode(tensor.F32, 10*cols, func(i int) float32 { return float32(i / cols) }))
	replay, err := d.Record(func() {
		d.Embed(y, table, ids, 2)
		d.Advance(ids)
		d.AddScaled(y, y, 1)
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := decodeInts(download(d, ids))[0]; got != 1 {
		t.Fatalf("recording has issued %d times what is recorded, want once", got)
	}
	for _, start := range []int32{3, 0, 5} {
		d.Upload(ids, encodeInts([]int32{start}))
		for step := range int32(4) {
			replay()
			if got, want := tensor.Widen(tensor.F32, download(d, y))[cols-1], float32(start+step)*4; got != want {
				t.Fatalf("from %d, step %d: %v, want %v", start, step, got, want)
			}
		}
	}
	synced(t, d)
}

// testFailure checks that a failure is reported, and stays.
func testFailure(t *testing.T, open func(t testing.TB) device.Device) {
	for _, id := range []int32{-1, 10, 1 << 30} {
		t.Run(fmt.Sprintf("token %d", id), func(t *testing.T) {
			d := opened(t, open)
			table, ids, y := d.Alloc(tensor.F16, 10, 8), d.Alloc(tensor.I32, 1, 2), d.Alloc(tensor.F32, 2, 8)
			d.Upload(ids, encodeInts([]int32{3, id}))
			synced(t, d)
			d.Embed(y, table, ids, 1)
			first := d.Sync()
			if want := fmt.Sprintf("Embed: token id %d, vocabulary of 10", id); first == nil || !strings.Contains(first.Error(), want) {
				t.Fatalf("%v, want %q", first, want)
			}
			d.Upload(ids, encodeInts([]int32{3, 3}))
			d.Embed(y, table, ids, 1)
			d.Free(d.Alloc(tensor.F32, 1, 1))
			if again := d.Sync(); again == nil || again.Error() != first.Error() {
				t.Errorf("later: %v, want %v", again, first)
			}
			if _, err := d.Record(func() { d.Embed(y, table, ids, 1) }); err == nil || err.Error() != first.Error() {
				t.Errorf("Record: %v, want %v", err, first)
			}
		})
	}
}

// testPanics checks that arguments without meaning panic.
func testPanics(t *testing.T, open func(t testing.TB) device.Device) {
	d := opened(t, open)
	act := d.Activation()
	x, narrow, long := d.Alloc(act, 2, 64), d.Alloc(act, 2, 32), d.Alloc(act, 3, 64)
	stream, w, ids := d.Alloc(tensor.F32, 2, 64), d.Alloc(tensor.F32, 1, 64), d.Alloc(tensor.I32, 1, 2)
	square := d.Alloc(tensor.F16, 64, 64)
	batch := device.Batch{Pos: ids, Seq: ids, Table: d.Alloc(tensor.I32, 1, 1), Span: 1}
	cache := d.NewCache(device.CacheShape{Layers: 2, Pages: 1, PageRows: 256, K: 64, V: 64})
	matrix := d.LoadEXL2(quantized(64, 64, "1:4b_64g"), 64)
	for _, c := range []struct {
		name string
		call func()
	}{
		{"Upload", func() { d.Upload(x, make([]byte, 3)) }},
		{"Download", func() { d.Download(make([]byte, 3), x) }},
		{"Copy", func() { d.Copy(x, narrow) }},
		{"Copy of integers", func() { d.Copy(x.Reshape(1, 2), ids) }},
		{"Embed", func() { d.Embed(stream, square.Reshape(64, 32), ids, 1) }},
		{"Norm", func() { d.Norm(x, narrow, w, tensor.Tensor{}, device.Norm{}) }},
		{"Norm by weights of another type", func() { d.Norm(x, x, ids.Reshape(1, 2), tensor.Tensor{}, device.Norm{}) }},
		{"HeadNorm", func() { d.HeadNorm(x, w, 3, device.Norm{}) }},
		{"Rope", func() { d.Rope(x, long, w, 64, device.Rope{Dims: 64}, batch) }},
		{"Store", func() { d.Store(cache, 0, narrow, narrow, batch) }},
		{"Store in a layer that is not there", func() { d.Store(cache, 2, x, x, batch) }},
		{"ActMul", func() { d.ActMul(x, x, narrow, device.SiLU) }},
		{"AddScaled", func() { d.AddScaled(stream, long, 1) }},
		{"Advance", func() { d.Advance(stream) }},
		{"MatMul", func() { d.MatMul(x, narrow, square, tensor.Tensor{}) }},
		{"QMatMul", func() { d.QMatMul(narrow, x, matrix, tensor.Tensor{}) }},
		{"Decode", func() { d.Decode(x, matrix) }},
		{"Attend", func() { d.Attend(x, x, cache, 0, device.Attend{Heads: 3, KVHeads: 1, HeadDim: 64}, batch) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("arguments that do not fit pass")
				}
			}()
			c.call()
		})
	}
	synced(t, d)
}
