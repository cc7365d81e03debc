package cuda

import (
	"sync"
	"unsafe"

	"exl2/internal/tensor"
)

// A meetVariant is a kernel of attend_meet.cu, its warps, how many of them share positions, and up to how many positions it takes, if not all.
type meetVariant struct {
	rowsShape
	warps, sharing, reach int
	normVariant[meetFunc]
}

func (v meetVariant) fits(t rowsAttend) bool {
	return (v.reach == 0 || t.most() <= v.reach) && v.rowsShape.fits(t)
}

type meetFunc func(d *Device, l launch, y, places, q, kPages, vPages, k, v, freqs, sinks, qNorm, kNorm, pos, seq, table, fault, words tensor.Tensor,
	rows, sequences, tableCols, pages, pageRows, heads, kvHeads, dim, pairs, interleaved int32, ldy, ldq, ldk, ldv int64,
	turnScale, scale, softcap, temperature float32, temperatureSpan, window, norm int32, eps, offset float32, vNorm tensor.Tensor, late, whole int32)

var meetVariants = []meetVariant{
	{rowsShape{64, 8, false}, attend_meet_many, 1, 0, normVariant[meetFunc]{(*Device).attend_meet_64_8, (*Device).attend_meet_64_8_more}},
	{rowsShape{64, 16, false}, attend_meet_many, 1, 0, normVariant[meetFunc]{(*Device).attend_meet_64_16, nil}},
	{rowsShape{128, 8, false}, attend_meet_many, 1, 0, normVariant[meetFunc]{(*Device).attend_meet_128_8, (*Device).attend_meet_128_8_more}},
	{rowsShape{128, 16, false}, attend_meet_few, 1, 0, normVariant[meetFunc]{(*Device).attend_meet_128_16, nil}},
	{rowsShape{256, 8, false}, attend_meet_few, 2, spreadReach, normVariant[meetFunc]{(*Device).attend_meet_256_8_short, (*Device).attend_meet_256_8_short_more}},
	{rowsShape{256, 8, false}, attend_meet_few, 1, 0, normVariant[meetFunc]{(*Device).attend_meet_256_8, (*Device).attend_meet_256_8_more}},
	{rowsShape{512, 8, false}, attend_meet_few, 2, 0, always((*Device).attend_meet_512_8_more)},
	{rowsShape{64, 8, true}, attend_meet_many, 1, 0, normVariant[meetFunc]{(*Device).attend_meet_64_any, nil}},
	{rowsShape{128, 8, true}, attend_meet_few, 1, 0, normVariant[meetFunc]{(*Device).attend_meet_128_any, nil}},
	{rowsShape{256, 8, true}, attend_meet_few, 1, 0, normVariant[meetFunc]{(*Device).attend_meet_256_any, nil}},
}

// runVariants are those of runs.
var runVariants = []meetVariant{
	{rowsShape{64, 8, false}, attend_meet_many, 1, 0, always((*Device).attend_meet_64_8_runs)},
	{rowsShape{64, 16, false}, attend_meet_many, 1, 0, always((*Device).attend_meet_64_16_runs)},
	{rowsShape{128, 8, false}, attend_meet_many, 1, 0, always((*Device).attend_meet_128_8_runs)},
	{rowsShape{128, 16, false}, attend_meet_few, 1, 0, always((*Device).attend_meet_128_16_runs)},
	{rowsShape{256, 8, false}, attend_meet_few, 2, 0, always((*Device).attend_meet_256_8_runs)},
}

// always is a kernel that does all there is, whether there is more or not.
func always(k meetFunc) normVariant[meetFunc] { return normVariant[meetFunc]{k, k} }

// stackedReach is from how many positions on 16 heads of several rows are attended to by one block, where eight are faster otherwise.
const stackedReach = 8192

// runVariantFor returns the kernel for runs of such heads, if there is one.
func runVariantFor(t rowsAttend) (v meetVariant, ok bool) {
	heads, all := 8, t.group()*t.batch.Span
	if t.HeadDim < wideHead && (t.group() > heads || all > heads && all <= 2*heads && t.most() > stackedReach) {
		heads *= 2
	}
	for _, v := range runVariants {
		if v.dim == t.HeadDim && v.heads == heads {
			return v, true
		}
	}
	return v, false
}

// stacked is how many rows of a run a block takes, as take_rows in attend_meet.cu has it.
func (v meetVariant) stacked(t rowsAttend) int {
	return min(t.batch.Span, max(1, v.heads/t.group()))
}

// sets is how many blocks there are for heads, and for rows, where each has all positions.
func (v meetVariant) sets(t rowsAttend) (heads, rows int) {
	return t.KVHeads * pieces(t.group(), v.heads), t.q.Rows / t.batch.Span * pieces(t.batch.Span, v.stacked(t))
}

// runReads is up to how many keys of a head runs are attended to by attend_meet.cu, where each is read more than once.
const runReads = 1 << 18

// runTakes returns the kernel of attend_meet.cu that attends to runs, and whether there is one that is faster: to few rows, where all blocks run at the
// same time. Rows that are normalized whole are so before.
func (d *Device) runTakes(t rowsAttend) (v meetVariant, ok bool) {
	span := t.batch.Span
	if span < 2 || span > attend_meet_most_run || t.Latent > 0 || t.own.heads.Whole && !t.own.heads.Q.Nil() || !d.hopper() {
		return v, false
	}
	if v, ok = runVariantFor(t); !ok || v.of(t.own) == nil {
		return v, false
	}
	heads, rows := v.sets(t)
	once := rows*span == t.q.Rows
	return v, heads*rows <= d.sms && (once || heads*rows*t.most() <= runReads) && d.meets()
}

// meetTakes reports whether attend_meet.cu may attend, and is faster: for single rows, where the
// division of others among blocks is too fine for heads of keys that are few, and, with heads of
// 128, where rows are short and all blocks run at once. Long ones are shared by their lengths elsewhere. Of more than
// wideHead there are no others. Rows that are normalized whole are read by 16 bytes.
func (d *Device) meetTakes(t rowsAttend) bool {
	aligned := !t.own.heads.Whole || atSixteenBytes(t.q) && atSixteenBytes(t.own.k)
	short := t.HeadDim == 128 && t.most() <= spreadReach && t.q.Rows <= batch_rows_most && t.q.Rows*t.KVHeads <= d.sms
	return (t.q.Rows == 1 || short || fewHeads(t.Attend, t.q.Rows) || t.HeadDim > wideHead) && aligned && d.hopper() && rowsVariantFor(meetVariants, t).of(t.own) != nil && d.meets()
}

// blocks is how many have parts of a row's positions at most, as Fixed in attend_meet.cu has it.
func (v meetVariant) blocks(t rowsAttend) int {
	if v.dim < attend_meet_wide {
		return t.rounds(v.warps / v.sharing)
	}
	return powerFrom(t.rounds(attend_meet_least_columns / v.dim))
}

// meetParts is into how many parts a row and set of heads is divided where there is room for so many: more than lanes of a warp only if
// they are so many more that reading them at the same time is worth that lanes join several.
func meetParts(room int) int {
	const lanes = 32
	if room < lanes*5/4 {
		return max(1, min(room, lanes))
	}
	return min(room, attend_meet_most_parts)
}

// attendMeet divides the positions of every row and set of heads among blocks, of which there
// is one a multiprocessor at most.
func (d *Device) attendMeet(v meetVariant, t rowsAttend) {
	sets, rows := v.sets(t)
	parts := meetParts(min(d.sms/(sets*rows), v.blocks(t)))
	words := d.scratch(scratchMeet, tensor.I32, rows*sets*parts, v.heads*v.dim/4*attend_meet_left_words)
	l := launch{blocks: dim{x: sets, y: rows, z: parts}, threads: dim{x: 32 * v.warps}, shared: rowShared(v.rowsShape, v.warps, v.sharing, v.stacked(t)*t.group(), 0)}
	s, b, c, h := t.numbers(), t.batch, t.cache, t.own.heads
	if b.Span > 1 {
		s.rows, l.shared = int32(b.Span), l.shared+runShared(v.dim)
	}
	v.of(t.own)(d, l, t.y, t.places, t.q, c.k[t.layer], c.v[t.layer], t.own.k, t.own.v, t.own.freqs, t.Sinks, h.Q, h.K,
		b.Pos, b.Seq, b.Table, d.fault, words, s.rows, s.sequences, s.tableCols, s.pages, s.pageRows, s.heads, s.kvHeads, s.dim, s.pairs, s.interleaved,
		s.ldy, s.ldq, s.ldk, s.ldv, s.turnScale, t.Scale, t.Softcap, t.Temperature, s.temperatureSpan, s.window, s.norm, h.Norm.Eps, h.Norm.Offset, h.V, flag(h.Late), flag(h.Whole && !h.Q.Nil()))
}

// meeting says which Device of a GPU has kernels whose blocks wait for each other. All of such
// a kernel's blocks run at the same time, as they are no more than multiprocessors, and others
// end without them. Two such kernels could keep each other from that.
var meeting = struct {
	sync.Mutex
	by map[gpu]*Device
}{by: map[gpu]*Device{}}

// A gpu is one of a driver's.
type gpu struct {
	drv    *driver
	handle uintptr
}

// alone reports whether no other process shares multiprocessors with this one (MPS), and the
// driver can tell.
func (d *Device) alone() bool {
	const sharedWithOthers = 133 // CU_DEVICE_ATTRIBUTE_MPS_ENABLED
	var shared int32
	return d.drv.call(cuDeviceGetAttribute, uintptr(unsafe.Pointer(&shared)), sharedWithOthers, d.handle) == success && shared == 0
}

// meets reports whether blocks may wait for each other: if d is the first Device of its GPU
// that asks, and alone.
func (d *Device) meets() bool {
	g := gpu{d.drv, d.handle}
	meeting.Lock()
	defer meeting.Unlock()
	if meeting.by[g] == nil && d.alone() {
		meeting.by[g] = d
		d.onClose(func() {
			meeting.Lock()
			defer meeting.Unlock()
			delete(meeting.by, g)
		})
	}
	return meeting.by[g] == d
}
