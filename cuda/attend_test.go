package cuda

import (
	"slices"
	"strings"
	"testing"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// Norms of heads, rotation, storing and attention of single rows are one kernel; of few
// rows and heads of keys without sinks and temperature, and of longer runs, rotation and
// storing are.
// On Hopper, blocks of one row, or of few rows and heads of keys, wait for each other.
func TestMixKernels(t *testing.T) {
	apart := []string{"rope_store_f16", "attend_parts_4", "attend_join"}
	for _, c := range []struct {
		name                 string
		rows, heads, kvHeads int
		dim, span            int
		sinks, hopper        bool
		normed               bool
		want                 []string
	}{
		{"heads with keys of their own", 1, 32, 32, 128, 1, false, false, false, []string{"attend_decode_128_8"}},
		{"shared keys, one row", 1, 32, 8, 128, 1, false, false, false, apart},
		{"shared keys, four rows", 4, 32, 8, 128, 1, false, false, false, []string{"attend_decode_128_8"}},
		{"sinks", 1, 32, 8, 64, 1, true, false, false, []string{"attend_decode_64_8"}},
		{"many heads share keys", 4, 128, 8, 128, 1, false, false, false, []string{"attend_decode_128_16"}},
		{"an unusual size", 4, 32, 8, 80, 1, false, false, false, []string{"attend_decode_128_any"}},
		{"a run", 4, 32, 32, 128, 4, false, false, false, []string{"rope_store_f16", "attend_prefill_128"}},
		{"shared keys, one row on Hopper", 1, 32, 8, 128, 1, false, true, false, []string{"attend_meet_128_8"}},
		{"sinks on Hopper", 2, 128, 8, 64, 1, true, true, false, []string{"attend_meet_64_16"}},
		{"keys of their own, one row on Hopper", 1, 32, 32, 128, 1, false, true, false, []string{"attend_meet_128_8"}},
		{"keys of their own of an unusual size, one row on Hopper", 1, 32, 32, 80, 1, false, true, false, []string{"attend_meet_128_any"}},
		{"keys of their own, two rows on Hopper", 2, 32, 32, 128, 1, false, true, false, []string{"attend_meet_128_8"}},
		{"keys of their own, eight rows on Hopper", 8, 32, 32, 128, 1, false, true, false, []string{"attend_spread_128"}},
		{"a few rows on Hopper", 4, 32, 8, 128, 1, false, true, false, []string{"attend_meet_128_8"}},
		{"more rows on Hopper", 12, 32, 32, 128, 1, false, true, false, []string{"attend_spread_128"}},
		{"more than run at once", 16, 32, 32, 128, 1, false, true, false, []string{"attend_spread_128_more"}},
		{"many rows on Hopper", 17, 32, 32, 128, 1, false, true, false, []string{"attend_decode_128_8"}},
		{"normed heads", 1, 32, 32, 128, 1, false, false, true, []string{"attend_decode_128_8"}},
		{"normed heads, shared keys", 1, 32, 8, 128, 1, false, false, true, append([]string{"head_norm_rms_f16"}, apart...)},
		{"normed heads with keys of their own on Hopper", 1, 32, 32, 64, 1, false, true, true, []string{"attend_meet_64_8"}},
		{"normed heads on Hopper", 1, 32, 8, 128, 1, false, true, true, []string{"attend_meet_128_8"}},
		{"a normed run", 4, 32, 32, 128, 4, false, false, true, []string{"head_norm_rms_f16", "rope_store_f16", "attend_prefill_128"}},
		{"a run on Hopper", 4, 32, 32, 128, 4, false, true, false, []string{"attend_meet_128_8_runs"}},
		{"a normed run of many heads that share keys on Hopper", 3, 128, 8, 64, 3, true, true, true, []string{"attend_meet_64_16_runs"}},
		{"runs on Hopper", 16, 32, 8, 256, 8, false, true, false, []string{"attend_meet_256_8_runs"}},
		{"twelve runs on Hopper", 24, 32, 8, 128, 2, false, true, false, []string{"attend_meet_128_8_runs"}},
		{"a run of many on Hopper", 17, 32, 32, 128, 17, false, true, false, []string{"rope_store_f16", "attend_hopper_128"}},
		{"runs of many heads of keys on Hopper", 10, 32, 32, 128, 2, false, true, false, []string{"rope_store_f16", "attend_hopper_128"}},
		{"a run of an unusual size on Hopper", 4, 32, 32, 80, 4, false, true, false, []string{"rope_store_f16", "attend_hopper_128"}},
	} {
		f := newFake()
		if c.hopper {
			f.attr[attributeMajor], f.attr[attributeMinor], f.attr[attributeSMs] = 9, 0, 132
		}
		d := f.open(t)
		act := func(cols int) tensor.Tensor { return d.Alloc(tensor.F16, c.rows, cols) }
		ints := func() tensor.Tensor { return d.Alloc(tensor.I32, 1, c.rows) }
		cols, a := c.kvHeads*c.dim, device.Attend{Heads: c.heads, KVHeads: c.kvHeads, HeadDim: c.dim, Scale: 1}
		if c.sinks {
			a.Sinks = d.Alloc(tensor.F32, 1, c.heads)
		}
		heads := device.Heads{}
		if c.normed {
			heads.Q, heads.K = d.Alloc(tensor.F32, 1, c.dim), d.Alloc(tensor.F32, 1, c.dim)
		}
		cache := d.NewCache(device.CacheShape{Layers: 1, Pages: c.rows, PageRows: 256, K: cols, V: cols})
		b := device.Batch{Pos: ints(), Seq: ints(), Table: d.Alloc(tensor.I32, c.rows, 1), Span: c.span}
		d.trail.clear()
		d.Mix(act(c.heads*c.dim), act(c.heads*c.dim), act(cols), act(cols), d.Alloc(tensor.F32, 1, c.dim/2), cache, 0, heads, device.Rope{Dims: c.dim}, a, b)
		if !slices.Equal(d.trail.names, c.want) || d.Sync() != nil {
			t.Errorf("%s: %v, %v, want %v", c.name, d.trail.names, d.err, c.want)
		}
	}
}

// rowAttending is attention of rows of sequences with room for so many positions.
func rowAttending(rows, kvHeads, room int) rowsAttend {
	const pageRows = 256
	return rowsAttend{
		q: tensor.New(tensor.F16, rows, 4096, nil), cache: &cache{shape: device.CacheShape{PageRows: pageRows}},
		Attend: device.Attend{Heads: 32, KVHeads: kvHeads, HeadDim: 128}, batch: device.Batch{Table: tensor.New(tensor.I32, rows, room/pageRows, nil)},
	}
}

// Rows that have less than two blocks each are spread while they are short.
func TestSpreadRows(t *testing.T) {
	d := hopperFake(t)
	for _, c := range []struct {
		rows, kvHeads int
		deep, want    bool
	}{
		{1, 32, true, true}, {6, 32, true, true}, {8, 32, false, true}, {8, 32, true, false}, {16, 32, false, true}, {17, 32, false, false},
		{16, 8, true, true}, {32, 8, true, false}, {32, 8, false, true}, {33, 8, false, false},
	} {
		a := rowAttending(c.rows, c.kvHeads, 32768)
		if !c.deep {
			a.batch.Reach = spreadReach
		}
		if got := d.spreadTakes(a); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// Rows attend beside their products while they see few positions: because there is no room for
// more, because they are at one of the first, or because their window is small.
func TestLeftRows(t *testing.T) {
	d := hopperFake(t)
	for _, c := range []struct {
		rows, kvHeads, room, reach, window int
		want                               bool
	}{
		{1, 32, 512, 0, 0, true}, {1, 32, 768, 0, 0, false}, {1, 32, 32768, 512, 0, true}, {1, 32, 32768, 1024, 0, false}, {1, 32, 32768, 0, 0, false},
		{1, 32, 32768, 0, 512, true}, {1, 32, 32768, 0, 513, false}, {1, 8, 1024, 0, 0, true}, {1, 8, 131072, 512, 0, true}, {1, 8, 131072, 1024, 0, true},
		{1, 8, 131072, 0, 0, false}, {1, 8, 131072, 0, 1024, true}, {1, 8, 1024, 512, 0, true}, {1, 4, 131072, 1024, 0, true}, {1, 4, 131072, 0, 1025, false}, {1, 4, 131072, 0, 0, false},
		{2, 32, 256, 0, 0, true}, {2, 32, 32768, 256, 0, true}, {2, 32, 32768, 512, 0, false}, {2, 32, 32768, 0, 256, true}, {2, 8, 131072, 512, 0, true}, {2, 8, 131072, 1024, 0, false},
		{2, 4, 131072, 1024, 0, true}, {2, 4, 131072, 0, 0, false}, {5, 32, 256, 256, 0, false},
	} {
		a := rowAttending(c.rows, c.kvHeads, c.room)
		a.batch.Reach, a.Window = c.reach, c.window
		if c.kvHeads == 4 {
			a.Heads = 16
		}
		if got := d.leftTakes(a); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// Heads of 256 attend beside their products up to as many positions as their blocks have at once, or few; and heads whose norms are other than
// those of queries and keys in front of the rotation, where there is a kernel.
func TestOddLeftRows(t *testing.T) {
	d := hopperFake(t)
	weights := d.Alloc(tensor.F32, 1, 256)
	normed := device.Heads{Q: weights, K: weights}
	for _, c := range []struct {
		dim, kvHeads, reach int
		norms               string
		want                bool
	}{
		{256, 4, 512, "", true}, {256, 4, 1024, "", false}, {256, 8, 512, "", true}, {256, 8, 1024, "", false}, {64, 8, 512, "", true}, {192, 8, 256, "", false},
		{256, 8, 512, "values late", true}, {128, 8, 1024, "late", true}, {64, 8, 512, "late", false}, {128, 8, 512, "whole", false},
	} {
		a := rowAttending(1, c.kvHeads, 32768)
		a.Heads, a.HeadDim, a.batch.Reach, a.own.heads = 2*c.kvHeads, c.dim, c.reach, normed
		a.own.heads.Late, a.own.heads.Whole = strings.Contains(c.norms, "late"), strings.Contains(c.norms, "whole")
		if strings.Contains(c.norms, "values") {
			a.own.heads.V = weights
		}
		if got := d.leftTakes(a); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// Heads that share keys attend beside their products in sets of up to 512 columns, of which the last one may have fewer.
func TestLeftSets(t *testing.T) {
	d := hopperFake(t)
	for _, c := range []struct{ heads, kvHeads, dim, sets, most int }{
		{32, 32, 128, 1, 1}, {32, 8, 128, 1, 4}, {40, 8, 128, 2, 3}, {28, 4, 128, 2, 4}, {64, 8, 128, 2, 4}, {24, 2, 128, 3, 4}, {20, 2, 128, 3, 4}, {32, 2, 128, 4, 4},
		{14, 2, 64, 1, 7}, {18, 2, 64, 2, 5}, {8, 4, 256, 1, 2}, {12, 4, 256, 2, 2},
	} {
		a := rowAttending(1, c.kvHeads, 512)
		a.Heads, a.HeadDim = c.heads, c.dim
		if sets, most := leftSets(a), leftHeads(a); sets != c.sets || most != c.most || !d.leftTakes(a) {
			t.Errorf("%d heads of %d, %d of keys: %d sets of up to %d, want %d of %d; %v", c.heads, c.dim, c.kvHeads, sets, most, c.sets, c.most, d.leftTakes(a))
		}
	}
}

// A row's positions are divided among as many blocks as have some of them at most: of wide heads a power of two, each with fewer positions than
// its warps could take at once. A window may begin within a warp's positions.
func TestMeetBlocks(t *testing.T) {
	for _, c := range []struct{ dim, reach, window, want int }{
		{64, 1024, 0, 6}, {64, 0, 0, 171}, {128, 256, 0, 2}, {128, 512, 0, 4}, {128, 1024, 0, 8}, {128, 0, 0, 256}, {128, 0, 1024, 16}, {128, 0, 1025, 16}, {128, 0, 1008, 8},
		{128, 512, 1024, 4}, {256, 1024, 0, 16}, {256, 512, 0, 8}, {512, 256, 0, 8}, {96, 1024, 0, 8},
	} {
		a := rowAttending(1, 4, 32768)
		a.HeadDim, a.batch.Reach, a.Window = c.dim, c.reach, c.window
		if got := rowsVariantFor(meetVariants, a).blocks(a); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// Two rows attend beside their products if those before have left them in order, and a multiprocessor has room for
// a block of each kernel, with three slots or two.
func TestTwoLeftRows(t *testing.T) {
	const hidden, rows, dim, heads = 4096, 2, 128, 32
	for _, c := range []struct {
		name   string
		left   bool
		shared int
		kernel string
	}{{"left in order", true, 227 << 10, "qmatmul_two"}, {"to be normalized", false, 227 << 10, ""}, {"three slots and attention have no room", true, 150 << 10, "qmatmul_two_wide"}, {"there is no room for both", true, 100 << 10, ""}} {
		d := hopperFake(t)
		d.shared = c.shared
		ints := func() tensor.Tensor { return d.Alloc(tensor.I32, 1, rows) }
		p := device.Products{X: d.Alloc(tensor.F32, rows, hidden), Scale: d.Alloc(tensor.F32, 1, hidden), Left: c.left}
		for range 3 {
			p.List = append(p.List, device.Product{W: orderedMatrix(d, hidden, heads*dim), Y: d.Alloc(tensor.F16, rows, heads*dim)})
		}
		leave(d, p)
		before := d.linked
		m := device.Mixing{Freqs: d.Alloc(tensor.F32, 1, dim/2), Rope: device.Rope{Dims: dim}, Attend: device.Attend{Heads: heads, KVHeads: heads, HeadDim: dim, Scale: 1},
			Cache: d.NewCache(device.CacheShape{Layers: 1, Pages: rows, PageRows: 256, K: heads * dim, V: heads * dim}),
			Batch: device.Batch{Pos: ints(), Seq: ints(), Table: d.Alloc(tensor.I32, rows, 1), Span: 1}}
		var want []string
		if c.kernel != "" {
			want = []string{c.kernel, "attend_left_128"}
		}
		d.trail.clear()
		if got := d.Attention(d.Alloc(tensor.F16, rows, heads*dim), p, m); got != (want != nil) || !slices.Equal(d.trail.names, want) {
			t.Errorf("%s: %v, %v, %v", c.name, got, d.trail.names, d.err)
		}
		if want == nil && d.linked != before {
			t.Errorf("%s: what was left is %+v, was %+v", c.name, d.linked, before)
		}
	}
}

// Kernels whose blocks wait for each other are those of one Device of a GPU, the first that asks
// until it is closed, and of none where other processes share multiprocessors.
func TestMeeting(t *testing.T) {
	f := newFake()
	f.attr[attributeMajor], f.attr[attributeMinor], f.attr[attributeSMs] = 9, 0, 132
	drv := f.driver()
	open := func(i int) *Device {
		d, err := drv.open(i)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	a, b, other, row := open(0), open(0), open(1), rowAttending(1, 8, 4096)
	for i, step := range []struct {
		d    *Device
		want bool
	}{{b, true}, {a, false}, {b, true}, {other, true}, {a, false}} {
		if got := step.d.meetTakes(row); got != step.want {
			t.Errorf("step %d: %v", i, got)
		}
	}
	for rows, want := range map[int]bool{4: true, 5: false} {
		many := rowAttending(rows, 32, 4096)
		if b.meetTakes(many) {
			t.Errorf("%d long rows", rows)
		}
		if many.batch.Reach = spreadReach; b.meetTakes(many) != want {
			t.Errorf("%d short rows: %v", rows, !want)
		}
	}
	if err := b.Close(); err != nil || !a.meetTakes(row) {
		t.Errorf("%v: the other Device is closed", err)
	}
	f = newFake()
	f.attr[attributeMajor], f.attr[attributeMinor], f.attr[133] = 9, 0, 1
	if f.open(t).meetTakes(row) {
		t.Error("multiprocessors are shared")
	}
	f = newFake()
	f.attr[attributeMajor], f.attr[attributeMinor] = 9, 0
	d := f.open(t)
	f.fails[cuDeviceGetAttribute] = 1
	if d.meetTakes(row) {
		t.Error("the driver does not tell whether multiprocessors are shared")
	}
}
