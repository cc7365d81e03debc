// Package device defines the operations that models and quantizers are made
// of. It holds interfaces, parameter structs and their meaning, no arithmetic:
// packages internal/device/cpu and cuda implement them, and
// internal/device/devtest checks any implementation against the CPU's.
package device

import (
	"errors"

	"exl2/internal/affine"
	"exl2/internal/exl2"
	"exl2/internal/parallel"
	"exl2/internal/tensor"
)

// A Device runs operations in order on one processor.
//
// Operations write their first argument and return nothing: the first failure
// is kept, later operations do nothing, and Sync reports it. Arguments that no
// program could mean, such as mismatched shapes, panic. The destination may be
// one of the sources where the method says "in place". Activations, and the
// residual stream, may be ranges of columns (tensor.Tensor.Stride); all other
// tensors are without gaps.
type Device interface {
	Memory
	Caches
	Forward
	Linear
	Mixtures

	// Name says what computes, as far as it decides the last bits of results:
	// "cpu, openblas 0.3.21".
	Name() string

	// Activation is the element type of activations other than the residual
	// stream and the logits, which are always F32.
	Activation() tensor.Type

	// Record returns a function that repeats the operations fn issues, and
	// issues them once itself; fn may be called twice. What changes from call to
	// call must be in device memory.
	Record(fn func()) (replay func(), err error)

	// Sync waits for the operations issued so far and returns the first
	// failure since the device was opened.
	Sync() error

	// Close frees everything. The device must not be used afterwards.
	Close() error
}

// Memory allocates tensors and moves bytes.
type Memory interface {
	// Alloc returns a zeroed tensor. If memory runs out, the tensor is unusable
	// and the failure is kept.
	Alloc(t tensor.Type, rows, cols int) tensor.Tensor
	Free(t tensor.Tensor)
	// Clear sets all elements to zero.
	Clear(t tensor.Tensor)
	// Upload copies len(src) = dst.Bytes() bytes to the device.
	Upload(dst tensor.Tensor, src []byte)
	// Download waits for earlier operations and copies src to dst.
	Download(dst []byte, src tensor.Tensor)
	// NewTokenRing makes a ring for so many rows.
	NewTokenRing(rows int) TokenRing
	// Copy copies elements within the device; types may differ among F32, F16
	// and BF16.
	Copy(dst, src tensor.Tensor)
}

// A Blanker has memory that is not zeroed first.
type Blanker interface {
	// Blank is Alloc of elements that may be anything.
	Blank(t tensor.Type, rows, cols int) tensor.Tensor
}

// Blank allocates a tensor of which every element is written before it is read.
func Blank(d Memory, t tensor.Type, rows, cols int) tensor.Tensor {
	if b, ok := d.(Blanker); ok {
		return b.Blank(t, rows, cols)
	}
	return d.Alloc(t, rows, cols)
}

// A Borrower can use host memory as it is, instead of a copy. The bytes must
// stay valid and unchanged until the device is closed.
type Borrower interface {
	Borrow(t tensor.Type, rows, cols int, data []byte) (tensor.Tensor, bool)
}

// A Concurrent device's operations may be called by several goroutines at once, by so
// many to some use: what one lacks in width the others fill.
type Concurrent interface {
	Goroutines() int
}

// Goroutines returns how many goroutines may call a device's operations at once.
func Goroutines(d Device) int {
	if c, ok := d.(Concurrent); ok {
		return c.Goroutines()
	}
	return 1
}

// SideBySide calls f for 0 to n-1, all at once where the device allows that, or in
// order. Each call must write its own part of the result.
func SideBySide(d Device, n int, f func(i int)) {
	if Goroutines(d) > 1 {
		parallel.For(n, f)
		return
	}
	for i := range n {
		f(i)
	}
}

// A Matrix is a matrix of packed codes in a device's memory, laid out as its kernels
// like: EXL2, or what GPTQ and AWQ make.
type Matrix interface {
	In() int
	Out() int   // without padding
	Bytes() int // what a product reads
}

// Batch says where the rows of a forward pass belong. Rows come in runs of
// Span: a run is Span consecutive positions of one sequence.
type Batch struct {
	Pos   tensor.Tensor // I32 [1, rows]: position of each row in its sequence
	Seq   tensor.Tensor // I32 [1, rows]: row of Table that has its sequence's pages
	Table tensor.Tensor // I32 [sequences, pages a sequence]: page numbers
	Span  int           // divides rows

	// Reach is what all positions are below, or 0 where they may be any: it changes how
	// work is divided, but no result beyond its rounding. Of runs, where Span is over 1, models give one more than the highest position, or, of few rows, what
	// sequences have room for at most.
	Reach int

	// Pass is another number for every pass, or 0: while it stays the same, so does what the
	// tensors hold where Span is over 1, and what is computed of it alone need not be again.
	Pass int
}

// A Reach is one of these, or twice the one before, up to the largest.
const (
	LeastReach = 256
	MostReach  = 1024
)

// ReachOf returns the Reach of rows whose last position is given: steps that are recorded
// are recorded once for each.
func ReachOf(position int) int {
	for r := LeastReach; r <= MostReach; r *= 2 {
		if position < r {
			return r
		}
	}
	return 0
}

// A CacheShape says what a cache has room for.
type CacheShape struct {
	Layers   int // numbered from 0
	Pages    int // that all layers have
	PageRows int // positions of a page
	K, V     int // columns: kv heads · head dim, or no values (Attend.Latent)
}

// A Cache is the keys and values of some layers, in pages, in whatever format
// its device keeps them. Pages are numbered from 0, and hold the same positions
// in every layer; who has which is said by [Batch].Table.
type Cache interface {
	Shape() CacheShape
	Bytes() int // of all pages of all layers
}

// Caches makes caches.
type Caches interface {
	NewCache(s CacheShape) Cache
	FreeCache(c Cache)
	// CacheBytes is Cache.Bytes before the cache is made.
	CacheBytes(s CacheShape) int
}

// Forward is what inference needs. Shapes are [rows, columns]; a head is a
// range of columns. x, y are of the device's activation type unless said
// otherwise; norm weights, biases and frequencies are F32.
type Forward interface {
	// Embed is y[r] = scale·table[ids[r]], y F32; table is F32, F16 or BF16.
	Embed(y, table, ids tensor.Tensor, scale float32)

	// Norm is y = normalize(x)·(w + n.Offset) + bias by rows; x is F32 (the
	// residual stream) or of the activation type. bias may be absent. In place.
	Norm(y, x, w, bias tensor.Tensor, n Norm)

	// HeadNorm applies Norm to each of the heads of every row of x, in place. w is [1, columns of a head], of all of them, or [heads, columns].
	HeadNorm(x, w tensor.Tensor, heads int, n Norm)

	// HeadNorms is HeadNorm of q by wq and of k by wk, whose heads have one size.
	HeadNorms(q, k, wq, wk tensor.Tensor, n Norm)

	// MatMul is y = x·wᵀ + bias, with w [y.Cols, x.Cols] F32, F16 or BF16. y may
	// be F32 whatever the activation type. bias may be absent.
	MatMul(y, x, w, bias tensor.Tensor)

	// MatMulHeads multiplies heads of x by w, of which each has a matrix, without bias.
	MatMulHeads(y, x, w tensor.Tensor, h HeadMul)

	// LoadEXL2 prepares a matrix whose first out columns are used.
	LoadEXL2(m *exl2.Matrix, out int) Matrix
	// LoadAffine prepares a matrix whose groups are of whole blocks of 32 rows
	// (affine.Matrix.Fusible). FreeEXL2 frees it.
	LoadAffine(m *affine.Matrix) Matrix
	FreeEXL2(m Matrix)

	// QMatMul is y = x·W + bias on packed weights, rounding as MatMul does.
	QMatMul(y, x tensor.Tensor, w Matrix, bias tensor.Tensor)

	// Decode stores the weights of w, [out, in] in the source's order, in dst,
	// which is F16: what MatMul takes.
	Decode(dst tensor.Tensor, w Matrix)

	// Rope rotates the heads of q and k, in place: dimension pairs (i, i+Dims/2),
	// or (2i, 2i+1) if r.Interleaved, rotate by pos·freqs[i] and grow by r.Scale.
	Rope(q, k, freqs tensor.Tensor, headDim int, r Rope, b Batch)

	// Store puts rows of keys and values at the positions of b in a layer of c.
	Store(c Cache, layer int, k, v tensor.Tensor, b Batch)

	// Attend is softmax(scale·q·Kᵀ)·V by heads over the positions of a layer of
	// c up to and including each row's own. In place, if a.Latent is 0.
	Attend(y, q tensor.Tensor, c Cache, layer int, a Attend, b Batch)

	// Mix is HeadNorms of q and k, or Norm of each, and HeadNorm of v, if h has weights, Rope of q and k where r.Dims > 0, Store
	// of k and v, and Attend of q: what a layer does between its products. No row may see
	// a position of another run, and q, k and v hold anything afterwards. freqs may be absent, and so may k and v
	// be, which are stored then, as others have seen them.
	Mix(y, q, k, v, freqs tensor.Tensor, c Cache, layer int, h Heads, r Rope, a Attend, b Batch)

	// ActMul is y = act(gate)·up, or act(gate) where up is absent. In place.
	ActMul(y, gate, up tensor.Tensor, a Act)

	// HeadGates is y = act(gate)·x by heads, for Logistic and Softplus: gate has a column for each
	// x.Cols/gate.Cols columns of x. In place.
	HeadGates(y, x, gate tensor.Tensor, a Act)

	// XIELU is y = u.Positive·x² + u.Beta·x where x > 0, u.Negative·(exp(min(x, u.Least)) - 1 - x) + u.Beta·x
	// elsewhere (arXiv 2411.13010, section 3). In place.
	XIELU(y, x tensor.Tensor, u XIELU)

	// ClampMul is y = (u + c.Added)·g·σ(c.Alpha·g), with g = min(gate, c.Limit) and u = up
	// limited to ±c.Up. In place.
	ClampMul(y, gate, up tensor.Tensor, c Clamp)

	// Clip limits the elements of x to ±limit, in place.
	Clip(x tensor.Tensor, limit float32)

	// AddScaled is y += scale·x with y F32; x is F32 or of the activation type.
	AddScaled(y, x tensor.Tensor, scale float32)

	// Cap is x = cap·tanh(scale·x/cap), or scale·x where cap is 0; x F32.
	Cap(x tensor.Tensor, scale, softcap float32)

	// Sample chooses a column of each row of x, F32, at the positions of pos, I32 [1,
	// rows], as sampling.Settings.Choose does. Row 0 of out, I32 [2, rows], is what is
	// chosen, which is counted in s.Seen; row 1 the first column that is not finite,
	// or -1. What the next step needs is written, too (Sampling).
	Sample(out, x, pos tensor.Tensor, s Sampling)

	// Advance adds one to every element of pos, I32: the next decode step.
	Advance(pos tensor.Tensor)
}

// NormKind tells normalizations apart.
type NormKind uint8

// RMS divides by the root mean square; Layer subtracts the mean before.
const (
	RMS NormKind = iota
	Layer
)

// Norm describes y = x/√(mean(x²) + Eps)·(w + Offset), Layer with x centred.
type Norm struct {
	Kind   NormKind
	Eps    float32
	Offset float32
}

// Heads are the norms of heads of queries and of keys, and of values, whose weights are F32 [1, head
// dimension]; without weights there are none.
type Heads struct {
	Norm    Norm
	Q, K, V tensor.Tensor
	Late    bool // those of queries and keys follow Rope
	Whole   bool // those are of all heads of a row together: Q is [1, heads·head dimension], K [1, kv heads·head dimension]
}

// Act is an activation function.
type Act uint8

// The activation functions, by their names in transformers.
const (
	SiLU     Act = iota // silu
	GELU                // gelu: x·Φ(x)
	GELUTanh            // gelu_pytorch_tanh, gelu_new: the tanh approximation
	ReLU                // relu
	Logistic            // sigmoid
	Softplus            // ln(1 + e^x)
)

// Rope describes how positions rotate heads, given the frequencies.
type Rope struct {
	Dims        int     // leading dimensions of a head that rotate; 0 is no rotation
	Interleaved bool    // pairs (0,1),(2,3)… rather than (0,n/2),(1,n/2+1)…
	Scale       float32 // factor on the rotated dimensions (yarn); 0 means 1
}

// Attend describes causal attention over a cache.
type Attend struct {
	Heads, KVHeads, HeadDim int
	Scale                   float32
	Softcap                 float32 // scores become cap·tanh(score/cap); 0 means none
	Window                  int     // positions seen, the row's own included; 0 means all

	// Sinks, F32 [1, heads], has every head's softmax see one more score, whose
	// share is thrown away; absent means none.
	Sinks tensor.Tensor

	// Temperature multiplies scores of the row at position p, before the cap, by
	// 1 + Temperature·ln(1 + ⌊p/TemperatureSpan⌋); 0 means by 1.
	Temperature     float32
	TemperatureSpan int

	// Latent > 0: the last Latent columns of a head of keys are the head of values,
	// and the cache has none of its own; results have Latent columns a head.
	Latent int

	// Reader, if it is not nil, is the matrix whose products alone read the result, and
	// are asked for by Fuser.Products with Left: columns of the result are in whatever
	// order the device likes for it.
	Reader Matrix
}

// Clamp describes gated units whose operands are limited, gpt-oss's and Step's.
type Clamp struct{ Limit, Up, Alpha, Added float32 }

// XIELU has the numbers of a layer's activation function, whose pieces have a slope of Beta at 0.
type XIELU struct{ Positive, Negative, Beta, Least float32 }

// ErrUnsupported is in the chain of a device's failure that says that it lacks an
// operation, or a variant of one.
var ErrUnsupported = errors.New("not on this device")

// A Meter can measure its memory.
type Meter interface {
	// Bandwidth returns the bytes a second that the device's memory moves: the
	// better of a copy (read and written) and a read, over 1 GB or more.
	Bandwidth() float64
}

// A Timer can say how long its operations take.
type Timer interface {
	// Stopwatch returns a function that waits for the operations issued so far and
	// returns the seconds since those that were issued before Stopwatch were done.
	Stopwatch() (stop func() float64)
}

// MemoryInfo is a device whose memory is its own, and can be used up.
type MemoryInfo interface {
	// MemInfo returns the bytes of memory that are free, or what a Keeper has lent, and of all.
	MemInfo() (free, total int)

	// MemPeak returns the most bytes that were allocated at once since the device was
	// opened, or 0 where that is not known.
	MemPeak() int

	// Workspace returns the bytes of workspace that operations need in a pass of
	// the given number of rows with matrices of up to width inputs.
	Workspace(rows, width int) int
}

// A Pinner reaches memory of the host by itself.
type Pinner interface {
	// AllocHost returns a zeroed tensor in page-locked memory of the host, for Copy,
	// Upload, Download and Free, or reports that there is none. It takes nothing of the
	// device's own memory.
	AllocHost(t tensor.Type, rows, cols int) (tensor.Tensor, bool)
}

// A Carrier copies between its memory and page-locked memory of the host beside its
// operations, each way one copy after the other.
type Carrier interface {
	Pinner

	// NewMark makes a mark, which lives as long as the device. Nothing waits for one
	// that has not been set.
	NewMark() Mark
	// Set sets a mark to what has been issued so far, and Await has operations that
	// are issued later wait for it.
	Set(m Mark)
	Await(m Mark)
	// Carry copies src to dst, of one type and without gaps, as soon as all of after
	// have come, and sets done to its end. Until that comes neither may be changed.
	Carry(dst, src tensor.Tensor, done Mark, after ...Mark)
}

// A Fetcher downloads beside its operations.
type Fetcher interface {
	// NewMark and Set are a Carrier's.
	NewMark() Mark
	Set(m Mark)
	// Fetch is Download of what was in src when the mark was set: it does not wait for what
	// has been issued since, which may not change it.
	Fetch(dst []byte, src tensor.Tensor, after Mark)
}

// A Mark is a moment in the work of a Carrier or Fetcher.
type Mark int

// A Keeper can keep weights that products of many rows have decoded, so that later ones find
// them: the same weights, to the same results. Whoever lacks memory takes theirs.
type Keeper interface {
	// DecodedBytes returns what the decoded weights of an EXL2 matrix take that products of
	// so many rows read, 0 if they read none.
	DecodedBytes(rows, in, out int) int
	// KeepDecoded has it keep decoded weights of products to come, up to so many bytes in
	// all, until memory runs out; 0 frees what is kept.
	KeepDecoded(bytes int)
	// Kept returns the bytes that are kept in this memory, by other Keepers, too.
	Kept() int
}

// A Peer can copy to another device without the host.
type Peer interface {
	// CopyTo copies src to dst, in the memory of to, after the operations issued
	// on both so far and before later ones. It reports whether it can.
	CopyTo(to Device, dst, src tensor.Tensor) bool
}
