package device

import "exl2/internal/tensor"

// Mixtures is what mixtures of experts need. Which experts see which rows is in
// device memory, so that nothing waits for it.
type Mixtures interface {
	// Route chooses experts for every row of logits, F32 [rows, experts], and leaves
	// the choice in to. correction, F32 [1, experts], is added to the scores to choose
	// by; scales, likewise, are what weights of the chosen are multiplied by in the end; gate, F32 [rows, 1], is what the weight of an expert
	// that all rows see is the sigmoid of. All three may be absent.
	Route(to Routes, logits, correction, scales, gate tensor.Tensor, r Routing)

	// Choose is Norm of x, F32 [rows, in], into y, products of that with a router, and
	// Route of the logits, which to.Logits and to.Gates have afterwards.
	Choose(to Choice, y, x tensor.Tensor, r Router)

	// Group prepares products with matrices of one shape and biases, which must live
	// as long. A matrix is a device's, or dense, [out, in], of one type: where a list has
	// nothing at its place, or is empty, the other has it. All biases are F32 [1, out],
	// or there are none.
	Group(list []Matrix, dense, biases []tensor.Tensor) Group
	// GroupsAffine reports whether these matrices may be LoadAffine's; LoadEXL2's
	// always may.
	GroupsAffine() bool
	// GroupsMany reports whether GroupMul is faster than a product with each matrix where
	// experts see many rows each.
	GroupsMany() bool
	FreeGroup(g Group)

	// GroupMul is y[i] = x[rows[i]]·W[e] + bias[e], e = r.Experts[i], with rows I32
	// [1, y.Rows], or absent, which stands for all in order: a product with each of some
	// groups of one number of inputs. They are rounded as QMatMul's and MatMul's are.
	GroupMul(ys []tensor.Tensor, x, rows tensor.Tensor, groups []Group, r Routes)

	// MixExperts is GroupMul of rows r.Rows of x by gate and up, ActMul of these, or of up's twice, GroupMul of that
	// by down, and Combine of all that r.Places names into y, F32 [rows, in]: a mixture
	// behind the choice.
	MixExperts(y, x tensor.Tensor, e Experts, r Routes)

	// Gather is y[i] = x[rows[i]], with rows I32 [1, y.Rows].
	Gather(y, x, rows tensor.Tensor)

	// Combine is y[r] += scale·Σ weights[r, k]·x[places[r, k]], summed over k in order
	// from zero, with y F32, places I32 and weights F32 [y.Rows, k]. Both may be ranges
	// of columns; weights may be absent, and are ones then.
	Combine(y, x, places, weights tensor.Tensor, scale float32)
}

// A Group is matrices of one shape, of which a product takes those that device memory
// says.
type Group interface {
	In() int
	Out() int
	Len() int
}

// Routes says which experts see the rows of a pass. Every row is there once for each
// expert that sees it, sorted by expert, then by row.
type Routes struct {
	Rows    tensor.Tensor // I32 [1, rows·chosen]: of the pass
	Experts tensor.Tensor // I32 [1, rows·chosen]
	First   tensor.Tensor // I32 [1, experts+1]: where the rows of each begin, and the end
	Places  tensor.Tensor // I32 [rows, chosen]: where in Rows, the best expert first
	Weights tensor.Tensor // F32 [rows, chosen]
}

// A Choice is where Choose leaves what it finds.
type Choice struct {
	Routes
	Logits tensor.Tensor // F32 [rows, experts]
	Gates  tensor.Tensor // F32 [rows, 1]; absent where the router has no gate
}

// A Router is what makes logits of rows: matrices [experts, in] and [1, in] of one type,
// biases F32. Correction, Scales and what belongs to the gate are Route's, and may be absent, as
// biases may.
type Router struct {
	Norm         Norm
	Scale, Shift tensor.Tensor // of the norm, F32 [1, in]; Shift may be absent
	W, Bias      tensor.Tensor
	Gate, Offset tensor.Tensor // the gate's matrix and bias
	Correction   tensor.Tensor
	Scales       tensor.Tensor
	Routing      Routing

	// Apart is the norm of what experts read, if that is another one than the router's, or nil: Fuser.Mixture takes it, Choose leaves rows under
	// the router's.
	Apart *Weighing
}

// A Weighing is a norm and its weights, F32 [1, in].
type Weighing struct {
	Norm  Norm
	Scale tensor.Tensor
}

// Experts are the matrices of MLPs, and memory for what they compute, [rows·chosen, out]
// of the activation type. What Gates and Ups hold afterwards is the device's affair, and
// so are Each's first rows·chosen rows, behind which stands, where Routes.Shared, what
// the expert of all rows has computed. Without Gate up's results are their own gates, and Gates is absent.
type Experts struct {
	Groups
	Gates, Ups, Each tensor.Tensor
	Unit
	Scale float32 // of the sum

	// Whole are the groups with the matrices of the expert that all rows see behind the others, or nil: Fuser.Mixture is to compute
	// that expert, too, then, and Each has nothing of it. It may be some times as wide as the others.
	Whole *Groups

	// Reader is what reads y next, as Products.Reader is, or nil.
	Reader *Products
}

// A Unit is what experts make of what their first matrices give: act(gate)·up, or, if Clamp's Limit is not 0, what ClampMul makes.
type Unit struct {
	Act   Act
	Clamp Clamp
}

// Apply stores units of gate and up in y.
func (u Unit) Apply(d Device, y, gate, up tensor.Tensor) {
	if u.Clamp.Limit > 0 {
		d.ClampMul(y, gate, up, u.Clamp)
		return
	}
	d.ActMul(y, gate, up, u.Act)
}

// Groups are the matrices of experts, of which Gate may be nil.
type Groups struct{ Gate, Up, Down Group }

// First returns the groups of the first products, and where these go.
func (e Experts) First() (groups []Group, to []tensor.Tensor) {
	if e.Gate == nil {
		return []Group{e.Up}, []tensor.Tensor{e.Ups}
	}
	return []Group{e.Gate, e.Up}, []tensor.Tensor{e.Gates, e.Ups}
}

// Opens returns what is opened by the activation.
func (e Experts) Opens() tensor.Tensor {
	if e.Gate == nil {
		return e.Ups
	}
	return e.Gates
}

// Shared reports whether Places and Weights have one more column, for an expert that
// all rows see: what it computes stands behind rows·chosen other rows.
func (r Routes) Shared() bool { return r.Places.Rows*r.Places.Cols > r.Rows.Cols }

// Chosen returns how many experts are chosen for a row.
func (r Routes) Chosen() int {
	if r.Shared() {
		return r.Places.Cols - 1
	}
	return r.Places.Cols
}

// Routing says how a row's experts are chosen and weighed, from logits, one per
// expert.
type Routing struct {
	Score Score

	// Groups > 1 cuts the experts into that many equal ranges; only the TopGroups
	// best ranges are chosen from, ranked by the sum of their two best scores to
	// choose by, or by the best if GroupMax (DeepSeek-V2).
	Groups, TopGroups int
	GroupMax          bool

	// Renorm divides the weights of the chosen by their sum + RenormEps; then
	// they are multiplied by Scale (0 means 1).
	Renorm    bool
	RenormEps float32
	Scale     float32

	// Jitter is SparseMixer's threshold.
	Jitter float32
}

// Score says how logits become scores, of which the largest are chosen, the first
// among equals.
type Score uint8

// The scores.
const (
	// SoftmaxAll: scores and weights are the softmax over all experts (Mixtral,
	// Qwen MoE; with Renorm it is SoftmaxTop).
	SoftmaxAll Score = iota
	// SoftmaxTop: the largest logits, and their softmax among themselves (Granite, gpt-oss).
	SoftmaxTop
	// Sigmoid: scores and weights are σ(logit) (DeepSeek-V3).
	Sigmoid
	// SparseMixer (models/phimoe/modeling_phimoe.py), two experts. For the first
	// expert, with m the largest logit, those with
	// (m - logit)/max(|logit|, m) > 2·Jitter drop out; the weight is the softmax
	// over the rest. The second is found in the same way with the first left
	// out of everything, of the original logits.
	SparseMixer
)
