package cuda

import "exl2/internal/tensor"

// planesOf returns the number of planes of a tensor of float32 or fp16, and the
// bytes of room that operand takes for them.
func planesOf(x tensor.Tensor) (count, bytes int) {
	count = 2
	if x.Type == tensor.F16 {
		count = 1
	}
	return count, planesBytes(count, x.Rows, x.Cols) + padded(4)
}

// operand makes planes of x, [k, m], fp16 or float32, the latter lifted by their
// largest number. Rows past the end, up to an even number of tiles, are zeros.
func (d *Device) operand(r *room, x tensor.Tensor) planes {
	count, _ := planesOf(x)
	p := r.takePlanes(count, x.Rows, x.Cols)
	if count == 1 {
		d.fillPlane(p, x)
		return p
	}
	p.most = r.takeZeros(tensor.F32, 1, 1)
	d.measure(p.most, x)
	d.split(p, x, byLargest)
	return p
}

// fillPlane stores x, fp16, as it is.
func (d *Device) fillPlane(p planes, x tensor.Tensor) {
	d.operand_f16(overTiles(x.Rows, p), p.mem, x, int32(x.Rows), int32(x.Cols), int32(x.Stride), int32(p.tiles))
}

// measure raises a number to the largest magnitude of x.
func (d *Device) measure(most, x tensor.Tensor) {
	l := launch{blocks: dim{x: min(x.Rows, 8*d.sms)}, threads: dim{x: 256}}
	d.operand_largest(l, most, x, int32(x.Rows), int32(x.Cols), int32(x.Stride))
}

// split makes two planes of x, [k, m], lifted as how says.
func (d *Device) split(p planes, x tensor.Tensor, how int32) {
	d.operand_f32(overTiles(x.Rows, p), p.mem, x, p.most, how, int32(x.Rows), int32(x.Cols), int32(x.Stride), int32(p.tiles), int64(p.next))
}

// overTiles returns the launch of a kernel whose threads make eight columns each of
// planes of k rows.
func overTiles(k int, p planes) launch {
	return perThread(pieces(k, 2*planes_tile_rows) * 2 * planes_tile_rows * p.tiles * planes_tile_cols / 8)
}

// Difference is y = a - b, in fp16, within what that can hold.
func (d *Device) Difference(y, a, b tensor.Tensor) {
	want(y.Rows == a.Rows && y.Cols == a.Cols && b.Rows == a.Rows && b.Cols == a.Cols && a.Type == b.Type && y.Type == tensor.F16, "Difference", y, a, b)
	p, difference := planeOf(y, a, b), d.difference_f16
	if a.Type == tensor.F32 {
		difference = d.difference_f32
	}
	difference(p.launch(), y, a, b, int32(p.rows), int64(p.cols), int64(y.Stride), int64(a.Stride), int64(b.Stride))
}

// SubtractProduct is y -= aᵀ·x.
func (d *Device) SubtractProduct(y, a, x tensor.Tensor) {
	want(a.Rows == x.Rows && y.Rows == a.Cols && y.Cols == x.Cols && y.Type == tensor.F32 && a.Type == tensor.F32 && x.Type == tensor.F32, "SubtractProduct", y, a, x)
	if a.Rows == 0 || y.Rows == 0 {
		return
	}
	_, as := planesOf(a)
	_, xs := planesOf(x)
	r := d.newRoom(as + xs)
	defer r.free()
	at := d.address("SubtractProduct", y)
	p := productItem{from: at, to: at, m1: int32(y.Rows), n1: int32(y.Cols), k1: int32(pieces(a.Rows, planes_tile_rows) * planes_tile_rows), ld: int32(y.Cols), alpha: -1}
	d.product(p.of(d, d.operand(r, a), d.operand(r, x)), 2, 2)
}

// Solve replaces b by UᵀU·b. U's rows are divided by powers of two near its
// diagonal, and the product in between by their squares.
func (d *Device) Solve(b, u tensor.Tensor) {
	k, n := b.Rows, b.Cols
	want(u.Rows == k && u.Cols == k && b.Type == tensor.F32 && u.Type == tensor.F32, "Solve", b, u)
	if k == 0 {
		return
	}
	_, right := planesOf(b)
	r := d.newRoom(planesBytes(2, k, k) + 2*right + padded(4*k))
	defer r.free()
	a := r.takePlanes(2, k, k)
	turned := launch{blocks: dim{x: a.tiles, y: pieces(k, planes_tile_rows)}, threads: dim{x: 256}}
	d.operand_turned_f32(turned, a.mem, u, tensor.Tensor{}, byDiagonal, int32(k), int32(k), int32(u.Stride), int32(a.tiles), int64(a.next))
	squares := r.take(tensor.F32, 1, k)
	d.operand_squares(perThread(k), squares, u, int32(k))
	p := productItem{to: d.at(b), rows: d.at(squares), m1: int32(k), n1: int32(n), k1: int32(pieces(k, planes_tile_rows) * planes_tile_rows), ld: int32(n), alpha: 1, mode: fromM}
	d.product(p.of(d, a, d.operand(r, b)), 2, 2)
	d.split(a, u, byDiagonal)
	p.rows, p.alpha, p.mode = 0, 1.0/diagonalLift, toM
	d.product(p.of(d, a, d.operand(r, b)), 2, 2)
}

// perThread returns the launch of a kernel with a thread for each of n.
func perThread(n int) launch {
	const threads = 256
	return launch{blocks: dim{x: pieces(n, threads)}, threads: dim{x: threads}}
}

// Take is dst[i, j] = src[rows[i], cols[j]].
func (d *Device) Take(dst, src, rows, cols tensor.Tensor) {
	want((rows.Nil() && src.Rows == dst.Rows || rows.Cols == dst.Rows) && (cols.Nil() && src.Cols == dst.Cols || cols.Cols == dst.Cols), "Take", dst, src, rows, cols)
	d.take_f32(grid2(dst.Cols, dst.Rows), dst, src, rows, cols, int32(dst.Cols), int32(src.Cols))
}

// grid2 returns the launch of a kernel with a thread for each of n columns, and
// blocks for each row.
func grid2(n, rows int) launch {
	l := perThread(n)
	l.blocks.y = rows
	if rows == 0 {
		l.blocks.x = 0
	}
	return l
}

var takesTurned = map[tensor.Type]func(d *Device, l launch, dst, src, cols tensor.Tensor, k, n, out, srcCols int32){
	tensor.F32: (*Device).take_turned_f32, tensor.F16: (*Device).take_turned_f16, tensor.BF16: (*Device).take_turned_bf16,
}

// TakeT is dst[i, j] = src[j, cols[i]].
func (d *Device) TakeT(dst, src, cols tensor.Tensor) {
	want(dst.Cols >= src.Rows && (cols.Nil() && dst.Rows == src.Cols || cols.Cols == dst.Rows), "TakeT", dst, src, cols)
	const side = 32
	l := launch{blocks: dim{x: pieces(dst.Rows, side), y: pieces(dst.Cols, side)}, threads: dim{x: 256}}
	pick("TakeT", takesTurned, src.Type, src)(d, l, dst, src, cols, int32(dst.Rows), int32(dst.Cols), int32(src.Rows), int32(src.Cols))
}

// Diagonal is dst[0, i] = m[i, i].
func (d *Device) Diagonal(dst, m tensor.Tensor) {
	want(m.Rows == m.Cols && dst.Rows*dst.Cols == m.Rows, "Diagonal", dst, m)
	d.diagonal_get(perThread(m.Rows), dst, m, int32(m.Rows))
}

// AddDiagonal is m[i, i] += v.
func (d *Device) AddDiagonal(m tensor.Tensor, v float32) {
	want(m.Rows == m.Cols, "AddDiagonal", m)
	d.diagonal_add(perThread(m.Rows), m, v, int32(m.Rows))
}

// Dot stores Σ x·y in sum, of all rows or of runs.
func (d *Device) Dot(sum, x, y tensor.Tensor) {
	run, blocks := dotRuns("Dot", sum, x, y)
	r := d.newRoom(padded(8 * sum.Cols * blocks))
	defer r.free()
	parts := r.take(tensor.F64, sum.Cols, blocks)
	d.dot_parts(launch{blocks: dim{x: sum.Cols, y: blocks}, threads: dim{x: 256}}, parts, x, y, int32(x.Rows), int32(run), int32(x.Cols), int32(x.Stride), int32(y.Stride))
	d.sumParts(sum, parts, sum.Cols)
}

// dotRuns checks sums of runs of rows, and returns the rows of a run, and the blocks that
// sum them.
func dotRuns(op string, sum, x, y tensor.Tensor) (run, blocks int) {
	want(x.Rows == y.Rows && x.Cols == y.Cols && sum.Rows == 1 && sum.Cols > 0 && sum.Type == tensor.F64 && x.Type == tensor.F32 && y.Type == tensor.F32, op, sum, x, y)
	run = pieces(x.Rows, sum.Cols)
	return run, max(1, min(run, 1024))
}

// Distances stores ‖x - y‖² and ‖y‖² of runs of rows.
func (d *Device) Distances(diffs, squares, x, y tensor.Tensor) {
	run, blocks := dotRuns("Distances", diffs, x, y)
	want(squares.Rows == 1 && squares.Cols == diffs.Cols && squares.Type == tensor.F64, "Distances", diffs, squares)
	r := d.newRoom(2 * padded(8*diffs.Cols*blocks))
	defer r.free()
	apart, own := r.take(tensor.F64, diffs.Cols, blocks), r.take(tensor.F64, diffs.Cols, blocks)
	l := launch{blocks: dim{x: diffs.Cols, y: blocks}, threads: dim{x: 256}}
	d.dot_distances(l, apart, own, x, y, int32(x.Rows), int32(run), int32(x.Cols), int32(x.Stride), int32(y.Stride))
	d.sumParts(diffs, apart, diffs.Cols)
	d.sumParts(squares, own, diffs.Cols)
}

// LogLikelihood stores how likely rows of logits make tokens.
func (d *Device) LogLikelihood(logs, logits, ids tensor.Tensor) {
	want(logs.Cols == logits.Rows && ids.Cols == logits.Rows && logs.Type == tensor.F64 && logits.Type == tensor.F32, "LogLikelihood", logs, logits, ids)
	d.likelihood(launch{blocks: dim{x: logits.Rows}, threads: dim{x: likelihood_threads}}, logs, logits, ids, int32(logits.Cols), int64(logits.Stride))
}

// sumParts adds the parts of n sums.
func (d *Device) sumParts(sums, parts tensor.Tensor, n int) {
	d.dot_sum(launch{blocks: dim{x: n}, threads: dim{x: 256}}, sums, parts, int32(parts.Cols))
}
