package cuda

import (
	"hash/fnv"
	"math"
	"math/bits"
	"slices"
	"unsafe"

	"exl2/internal/device"
	"exl2/internal/exl2"
	"exl2/internal/half"
	"exl2/internal/tensor"
)

// matrix is an EXL2 matrix in a GPU's memory, as kernels/exl2.cuh describes it.
type matrix struct {
	in, out, padded, groups int
	regions                 []region
	chunks                  int // of 512 bytes in a tile of 32 columns
	widest                  int // bits

	words      tensor.Tensor // I32 [padded/32, 4·chunks]
	scales     tensor.Tensor // I32 [padded/32, 4·groups]: by tiles
	units      tensor.Tensor // I32 [1, groups]: largest scale / 256, fp16, twice
	perm       tensor.Tensor // I32 [1, in]
	order      tensor.Tensor // F16 [1, in]: perm in 16 bits; absent if that is too little
	places     tensor.Tensor // F16 [1, in]: where in order a column of x is; as order
	table      tensor.Tensor // I32 [regions, 8]
	unitPlaces tensor.Tensor // I32 [units128, 2]: Place of kernels/unit.cuh
	unitSteps  tensor.Tensor // I32 [warps·stepsOfWarp, 4]: Step of kernels/step.cuh

	sorted uint64 // a number that tells orders apart, or 0: unknown

	units128   int      // units of all regions
	unitBlocks []uint16 // of a unit, the first block
	unitGroups int      // of scales, of a unit, at most
	digitless  bool     // few rows are not multiplied by digits: scales are too large for them, or nobody here knows what groups' units are
}

// A region is a run of rows with one width, in groups of 2^shift blocks, the last
// one perhaps less. word is its first row in the file.
type region struct{ bits, block, blocks, place, group, shift, word int }

// units returns the number of units of four blocks.
func (r region) units() int { return pieces(r.blocks, exl2_unit_blocks) }

// noShift is the shift of a region of one group.
const noShift = 31

func (m *matrix) In() int  { return m.in }
func (m *matrix) Out() int { return m.out }

// Bytes is what a product reads.
func (m *matrix) Bytes() int {
	return m.words.Bytes() + m.scales.Bytes() + m.units.Bytes() + m.order.Bytes() + m.table.Bytes()
}

// LoadEXL2 uploads m and arranges its codes.
func (d *Device) LoadEXL2(m *exl2.Matrix, out int) device.Matrix {
	q := &matrix{in: m.In, out: out, padded: m.Out, groups: len(m.Groups)}
	if err := m.Check(); err != nil {
		d.failWith("LoadEXL2: %w", err)
		return q
	}
	units := make([]uint32, len(m.Groups))
	for i, g := range m.Groups {
		scales := exl2.ScaleTable(m.ScaleMax[i])
		units[i] = 0x10001 * uint32(scales[0])
		q.digitless = q.digitless || tooLarge(scales[len(scales)-1], g.Bits)
		q.addGroup(i, g)
	}
	q.units = load(d, tensor.I32, 1, len(units), units)
	q.scales = load(d, tensor.I32, m.Out/exl2_tile_columns, 4*q.groups, byTiles(m.Scales, m.Out/8))
	q.loadOrder(d, m.Perm())
	q.loadTable(d)
	steps := q.steps(units)
	q.unitSteps = load(d, tensor.I32, len(steps)/4, 4, steps)
	q.loadWords(d, m)
	return q
}

// tooLarge reports whether a scale is infinite in fp16 as products by digits have it (scales_of_digits of kernels/digits.cuh).
func tooLarge(scale half.F16, bits int) bool {
	const most = 65504
	return math.Abs(float64(scale.Float32()))*float64(int(1)<<(bits-2)) > most
}

// addGroup adds group i to the regions.
func (m *matrix) addGroup(i int, g exl2.Group) {
	m.widest = max(m.widest, g.Bits)
	blocks := g.Rows / exl2.Align
	if n := len(m.regions); n > 0 && m.regions[n-1].takes(g.Bits, blocks) {
		m.regions[n-1].blocks += blocks
		return
	}
	r := region{bits: g.Bits, block: g.Row / exl2.Align, blocks: blocks, group: i, shift: noShift, word: g.Word}
	if blocks&(blocks-1) == 0 {
		r.shift = bits.TrailingZeros(uint(blocks))
	}
	m.regions = append(m.regions, r)
}

// takes reports whether a group can be the region's next one.
func (r region) takes(bits, blocks int) bool {
	return r.bits == bits && r.shift != noShift && blocks <= 1<<r.shift && r.blocks%(1<<r.shift) == 0
}

// byTiles returns rows of words of scales as kernels/exl2.cuh describes them.
func byTiles(scales []uint32, width int) []uint32 {
	out := make([]uint32, 0, len(scales))
	for tile := 0; tile < width; tile += 4 {
		for row := 0; row < len(scales); row += width {
			words := scales[row+tile : row+tile+4]
			for g := 0; g < 8; g += 2 {
				out = append(out, column(words, g)|column(words, g+1)<<16)
			}
		}
	}
	return out
}

// column returns the codes of columns g, g+8, g+16 and g+24.
func column(words []uint32, g int) (codes uint32) {
	for c, w := range words {
		codes |= w >> (4 * g) & 15 << (4 * c)
	}
	return codes
}

func (m *matrix) loadOrder(d *Device, perm []int32) {
	m.perm = load(d, tensor.I32, 1, m.in, perm)
	if m.in > 1<<16 {
		return
	}
	order, places := make([]uint16, m.in), make([]uint16, m.in)
	for i, p := range perm {
		order[i], places[p] = uint16(p), uint16(i)
	}
	m.order, m.places = load(d, tensor.F16, 1, m.in, order), load(d, tensor.F16, 1, m.in, places)
	h := fnv.New64a()
	h.Write(tensor.BytesOf(order))
	m.sorted = h.Sum64() | 1
}

// loadTable places the regions in a tile.
func (m *matrix) loadTable(d *Device) {
	var table []int32
	for i := range m.regions {
		r := &m.regions[i]
		r.place = m.chunks
		m.chunks += r.units() * r.bits
		table = append(table, int32(r.bits), int32(r.block), int32(r.blocks), int32(r.place), int32(r.group), int32(r.shift), 0, 0)
	}
	m.table = load(d, tensor.I32, len(m.regions), 8, table)
	m.loadUnits(d)
}

// loadUnits says where units are.
func (m *matrix) loadUnits(d *Device) {
	for _, r := range m.regions {
		m.units128 += r.units()
		m.unitGroups = max(m.unitGroups, exl2_unit_blocks>>min(r.shift, 2))
		for u := range r.units() {
			m.unitBlocks = append(m.unitBlocks, uint16(r.block+u*exl2_unit_blocks))
		}
	}
	if m.unitGroups == exl2_unit_blocks {
		d.fine[m] = struct{}{}
	}
	m.unitPlaces = load(d, tensor.I32, m.units128, 2, slices.Concat(m.placesOfUnits()...))
}

// placesOfUnits returns where units are, each as Place of kernels/unit.cuh.
func (m *matrix) placesOfUnits() (places [][]uint32) {
	for _, r := range m.regions {
		shift, one := min(r.shift, 2), r.shift/2
		for u := range r.units() {
			block := u * exl2_unit_blocks
			group := r.group + block>>r.shift
			places = append(places, []uint32{uint32(r.place + u*r.bits), uint32(2*r.bits | min(one, 1) | shift<<5 | (r.block+block)<<7 | group<<20)})
		}
	}
	return places
}

// stepsOfWarp returns how many units a warp has at most, and one at least.
func (m *matrix) stepsOfWarp() int { return pieces(m.units128, few_rows_many_warps) }

// steps returns the units of each warp as Step of kernels/step.cuh, none behind them, given what groups' units are. A warp that
// has none has two bits of something, times zero.
func (m *matrix) steps(units []uint32) (steps []uint32) {
	all, each, next := m.allSteps(units), m.stepsOfWarp(), uint32(m.groups|m.chunks<<16)
	for w := range few_rows_many_warps {
		from, to := m.units128*w/few_rows_many_warps, m.units128*(w+1)/few_rows_many_warps
		mine := slices.Concat(all[from:to]...)
		if from == to {
			mine = []uint32{0, 0, 0, next}
		}
		mine[len(mine)-4] |= step_last_step | step_unusual
		for steps = append(steps, mine...); len(steps) < 4*each*(w+1); {
			steps = append(steps, 0, 0, 0, next)
		}
	}
	return steps
}

func (m *matrix) allSteps(units []uint32) (steps [][]uint32) {
	flag := func(c bool) uint32 { return uint32(flag(c)) }
	widths := map[int]uint32{2: 0, 3: 1 << step_first_width, 4: 2 << step_first_width, 5: step_wide, 6: step_wide | 1<<step_first_width, 8: step_wide | 2<<step_first_width}
	for _, r := range m.regions {
		four := r.shift == 0
		for u := range r.units() {
			block := u * exl2_unit_blocks
			first := r.group + block>>r.shift
			second := first
			if r.shift < 2 {
				second = min(first+1, len(units)-1)
			}
			what := widths[r.bits] | uint32((r.block+block)<<step_first_block|(r.place+u*r.bits)<<step_first_chunk) | flag(four)*step_four_groups |
				flag(r.bits > 2)*step_above_two | flag(r.bits > 3)*step_above_three | flag(r.bits > 4 || four)*step_unusual | flag(second != first || four)*step_many_groups
			of := func(group int) uint32 { return units[group]&0xffff | uint32(16*group)<<16 }
			steps = append(steps, []uint32{what, of(first), of(second), uint32(m.groups | m.chunks<<16)})
		}
	}
	return steps
}

// loadWords arranges the words as they are in the file.
func (m *matrix) loadWords(d *Device, from *exl2.Matrix) {
	file := load(d, tensor.I32, len(from.Words)/from.Out, from.Out, from.Words)
	m.arrange(d, file)
	d.Free(file)
}

// arrange arranges the words of a file. It ends in an operation that is no kernel:
// products read words before they wait for kernels.
func (m *matrix) arrange(d *Device, file tensor.Tensor) {
	m.words = d.Alloc(tensor.I32, m.padded/exl2_tile_columns, m.chunks*exl2_chunk_words)
	for _, r := range m.regions {
		d.arrange(r.bits, m.words, file.Slice(r.word, r.word+r.blocks*r.bits), r.blocks, r.place, m.chunks)
	}
	d.endKernels()
}

// arrange has some blocks of rows of a file's words lie in those of all tiles, chunks each, from one of these on.
func (d *Device) arrange(bits int, words, file tensor.Tensor, blocks, place, chunks int) {
	l := launch{blocks: dim{x: words.Rows, y: pieces(pieces(blocks, exl2_unit_blocks)*exl2_unit_blocks, exl2_arrange_warps)}, threads: dim{x: 32 * exl2_arrange_warps}}
	arranges[bits](d, l, words, file, int32(blocks), int32(place), int32(chunks), int32(words.Rows*exl2_tile_columns))
}

// endKernels does something that is no kernel, behind which kernels may read what those before have
// written before they wait for them.
func (d *Device) endKernels() { d.Free(d.Alloc(tensor.U8, 1, 1)) }

// tiles returns the number of tiles of columns.
func (m *matrix) tiles() int { return m.padded / exl2_tile_columns }

// load uploads elements to a new tensor.
func load[E any](d *Device, t tensor.Type, rows, cols int, v []E) tensor.Tensor {
	x := d.Alloc(t, rows, cols)
	if len(v) > 0 {
		d.Upload(x, unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), len(v)*int(unsafe.Sizeof(v[0]))))
	}
	return x
}

var arranges = map[int]func(d *Device, l launch, dst, src tensor.Tensor, blocks, place, tile, out int32){
	2: (*Device).exl2_arrange_2, 3: (*Device).exl2_arrange_3, 4: (*Device).exl2_arrange_4,
	5: (*Device).exl2_arrange_5, 6: (*Device).exl2_arrange_6, 8: (*Device).exl2_arrange_8,
}

// FreeEXL2 frees a matrix.
func (d *Device) FreeEXL2(m device.Matrix) {
	if a, ok := m.(*affineMatrix); ok {
		a.free(d)
		return
	}
	q := m.(*matrix)
	d.forget(q)
	delete(d.fine, q)
	for _, t := range []tensor.Tensor{q.words, q.scales, q.units, q.perm, q.order, q.places, q.table, q.unitPlaces, q.unitSteps} {
		d.Free(t)
	}
}

type decodeFunc func(d *Device, l launch, dst, words, scales, units, perm tensor.Tensor,
	block, blocks, place, group, shift, tile, groups, firstColumn, columns, in int32)

var decodes = map[int]decodeFunc{
	2: (*Device).exl2_decode_2, 3: (*Device).exl2_decode_3, 4: (*Device).exl2_decode_4,
	5: (*Device).exl2_decode_5, 6: (*Device).exl2_decode_6, 8: (*Device).exl2_decode_8,
}

// decode stores columns first, a multiple of 32, and on of m, transposed, in dst
// [columns, in]; in the source's order if perm is m's, in stored order if it is
// absent.
func (d *Device) decode(dst tensor.Tensor, m *matrix, perm tensor.Tensor, first int) {
	for _, r := range m.regions {
		l := launch{blocks: dim{x: pieces(dst.Rows, exl2_tile_columns), y: pieces(r.units(), exl2_decode_warps)}, threads: dim{x: 32 * exl2_decode_warps}}
		decodes[r.bits](d, l, dst, m.words, m.scales, m.units, perm, int32(r.block), int32(r.blocks), int32(r.place),
			int32(r.group), int32(r.shift), int32(m.chunks), int32(m.groups), int32(first), int32(dst.Rows), int32(m.in))
	}
}

// Decode stores the weights of w, [out, in] in the source's order, in dst.
func (d *Device) Decode(dst tensor.Tensor, w device.Matrix) {
	want(dst.Type == tensor.F16 && dst.Rows == w.Out() && dst.Cols == w.In(), "Decode", dst)
	if a, ok := w.(*affineMatrix); ok {
		a.decodeColumns(d, dst, a.perm, 0)
		return
	}
	m := w.(*matrix)
	if m.in%8 != 0 || !dst.Dense() {
		d.decode(dst, m, m.perm, 0)
		return
	}
	// Weights that are scattered to where they belong come slowly, one by one.
	inverse := d.scratch(scratchInputs, tensor.I32, 1, m.in)
	d.permute_inverse(launch{blocks: dim{x: pieces(m.in, permute_threads)}, threads: dim{x: permute_threads}}, inverse, m.perm, int32(m.in))
	step := min(m.out, max(256, decodedBytes/2/m.in&^255))
	stored := d.scratch(scratchWeights, tensor.F16, step, m.in)
	for lo := 0; lo < m.out; lo += step {
		to := dst.Slice(lo, min(lo+step, m.out))
		d.decode(stored.Slice(0, to.Rows), m, tensor.Tensor{}, lo)
		d.permuteBy(to, stored.Slice(0, to.Rows), inverse, true)
	}
}

// DecodeStored stores the weights of w, [out, in] in stored order, in dst.
func (d *Device) DecodeStored(dst tensor.Tensor, w device.Matrix) {
	want(dst.Type == tensor.F16 && dst.Rows == w.Out() && dst.Cols == w.In(), "DecodeStored", dst)
	d.decode(dst, w.(*matrix), tensor.Tensor{}, 0)
}
