package device

import "exl2/internal/tensor"

// A Fuser can make products together with what is around them.
type Fuser interface {
	// Products does all of list in turn and reports true, or does nothing and reports
	// false: of some numbers of rows, or matrices that it cannot take together.
	Products(list ...Products) bool

	// Mixture is Choose of x, and MixExperts into y of what it norms, by its choice; or it
	// does nothing and reports false. What is in c afterwards is the device's affair.
	Mixture(y, x tensor.Tensor, c Choice, r Router, e Experts) bool

	// Attention is the products of p, which are queries, keys and values, and Mix of these
	// into y; or it does nothing and reports false. What is in them afterwards is the
	// device's affair.
	Attention(y tensor.Tensor, p Products, m Mixing) bool

	// MixLatent is latent attention to y [rows, heads·value]: of q [rows, heads·(nope+beside)] and kv [rows, rank+beside], it makes
	// queries and keys, rotates and stores them, attends, and makes values (LatentMixing.By); or it does nothing and reports false. What is in
	// q, kv and what is room for others afterwards is the device's affair.
	MixLatent(y, q, kv tensor.Tensor, m LatentMixing) bool

	// LinearAttention is the products of p, which are queries, keys, values and gates, the
	// rates of what p normalizes, GatedDelta of all these, and HeadNormGated of that by the gates, or, if Plain, GatedNorm, into y;
	// or it does nothing and reports false. What is in the products afterwards is the device's affair.
	LinearAttention(y tensor.Tensor, p Products, m LinearMixing) bool

	// Sum adds what a sublayer gives to the stream, or it does nothing and reports false.
	Sum(s Sum) bool

	// MatMulGated is y = act(x·wᵀ)·by of few rows, x and by F32, and y of the activation type, by w that no operation changes; or
	// it does nothing and reports false.
	MatMulGated(y, x, w, by tensor.Tensor, a Act) bool

	// ActMulFor is ActMul of which columns of y are in whatever order the device likes for reader, whose
	// products alone read it; or it does nothing and reports false. y is neither gate nor up, which may be absent.
	ActMulFor(y, gate, up tensor.Tensor, a Act, reader Matrix) bool

	// AtOnce returns how many of some rows are to go through products by such matrices, and what is between
	// them, at once, and then as many of the others, so that it takes the least time: all of them, or fewer.
	AtOnce(rows int, w Matrix) int
}

// A Joiner can make products by dense weights together with what follows them.
type Joiner interface {
	// Joined does p, whose X is not to be normalized, with w in the place of its matrices,
	// F16 [outputs of all, inputs], one below the other, and reports true; or it does nothing
	// and reports false.
	Joined(p Products, w tensor.Tensor) bool
}

// Mixing is what Mix is told beside what it mixes.
type Mixing struct {
	Freqs  tensor.Tensor
	Cache  Cache
	Layer  int
	Heads  Heads
	Rope   Rope
	Attend Attend
	Batch  Batch
}

// LinearMixing is what linear attention is told beside its products.
type LinearMixing struct {
	GatedDelta
	Rates  tensor.Tensor // [2·ValueHeads, in]: the matrices of a and of b, one below the other; if Plain, of a alone
	Mixed  tensor.Tensor // F32 [rows, ValueHeads·ValueDim], which becomes anything
	Norm   Norm          // of heads, or, if Plain, of groups
	Group  int           // columns of one, if Plain
	Scale  tensor.Tensor // its weights, F32 [1, ValueDim], or of all columns
	State  DeltaState
	Batch  Batch
	Reader Matrix // whose products alone read y, or nil: columns of y are in whatever order the device likes for it then
}

// Products are products of one x by packed matrices.
type Products struct {
	// X is [rows, in] of the activation type, or F32: the stream, to be normalized first, or, if it is Left for that, as it is.
	X      tensor.Tensor
	Norm   Norm
	Scale  tensor.Tensor // weights of the norm of X; absent for none
	Shift  tensor.Tensor // its bias, or absent
	Sorted bool          // X was left for List's matrix, by Next

	// Left says that X was written last by products, attention, a mixture or a sum, whose Reader this was.
	Left bool

	List []Product
	Then Then
	Act  Act // where Then activates
	Turn Turning

	// Next is the matrix whose products alone read the result, given where Then activates
	// only: columns of the result are in whatever order the device likes for it.
	Next Matrix

	// Reader is what reads the result next, given for Add only, or nil: the device may
	// leave what it likes for it.
	Reader *Products

	// Joins is what the result of one matrix joins, if its rows are not to be stored: Y of both may hold anything afterwards.
	Joins *Sum
}

// A Product is one of several of one x. Bias may be absent.
type Product struct {
	Y    tensor.Tensor
	W    Matrix
	Bias tensor.Tensor
}

// Then says what is done with products.
type Then uint8

// What is done with products.
const (
	Put      Then = iota // y = x·W + bias, of the activation type or F32
	Add                  // y += x·W + bias, F32
	Gate                 // of two: y = act(x·W + bias)·(x·W' + bias'), of the activation type, in the first's Y
	Turn                 // of three, q, k and v: Put, then Rope of q and k, and Store of k and v, which hold anything afterwards
	Activate             // of one: y = act(x·W + bias), of the activation type
	SelfGate             // of one: y = act(x·W + bias)·(x·W + bias), of the activation type
)

// Activates reports whether products are activated.
func (t Then) Activates() bool { return t == Gate || t.Ungated() }

// Ungated reports whether products are activated that no others are multiplied with.
func (t Then) Ungated() bool { return t == Activate || t == SelfGate }

// Turning says how queries and keys turn, and where keys and values go.
type Turning struct {
	Freqs   tensor.Tensor
	Which   uint64 // a number that tells frequencies apart, or 0: unknown
	HeadDim int
	Rope    Rope
	Cache   Cache
	Layer   int
	Batch   Batch

	// Unread is of how many rows, the first ones, nobody reads the queries: they may hold
	// anything.
	Unread int
}
