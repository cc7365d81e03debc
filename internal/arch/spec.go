// Package arch turns a Hugging Face config.json into a Spec: everything that
// makes one decoder-only transformer differ from another, as data. Package
// internal/model is the only code that interprets it.
package arch

import (
	"cmp"

	"exl2/internal/device"
)

// A Spec describes a decoder-only transformer. With everything at its zero
// value but sizes, names and RoPE it is Llama:
//
//	x = table[ids]·EmbedScale
//	each layer:  x += Residual·attention(norm(x))
//	             x += Residual·mlp(norm(x))
//	logits = LogitScale·norm(x)·headᵀ
//
// What goes beyond that is listed by Features.
type Spec struct {
	Arch                  string // the name in config.json's "architectures"
	Vocab, Hidden, Layers int
	MaxPositions          int // context the model was made for
	Further               int // layers behind the last in files, which predict later tokens (DeepSeek-V3's MTP) and are not run
	Learned               int // positions that have a row of the table that is added to embeddings (GPT-2); 0 means none
	LearnedFrom           int // the first position's row (OPT)
	Beyond                int // rows of the embedding table behind the vocabulary, of tokens of pictures, which are not run

	// Table is a whole tensor that may hold the embedding table, without the rows of Beyond (Molmo 2).
	Table string

	// Sinusoids has the table be no tensor, but sines and cosines: row r begins with sin(r·f[j]), and goes on with
	// cos(r·f[j]), f[j] = 10000^(-j/(half-1)) for j below half of Hidden (models/xglm/modeling_xglm.py).
	Sinusoids bool

	// EmbedWidth is how wide the embedding's table is, and what the head reads: the stream begins with
	// table[ids]·Names.EmbedInᵀ, and Names.HeadDense makes as many of it again (OPT 350M). 0 means Hidden.
	EmbedWidth int

	EmbedScale float32    // multiplies embeddings; 0 means 1
	Residual   float32    // multiplies each sublayer's output; 0 means 1
	EmbedNorm  bool       // the stream begins with norm(table[ids]·EmbedScale), by Norm with weights Names.EmbedNorm, or without (nanochat)
	LogitScale float32    // multiplies logits; 0 means 1
	LogitCap   float32    // soft cap of logits, cap·tanh(logit/cap), after the scale; 0 means none
	Tied       bool       // the head is the embedding table
	HeadBias   bool       // logits have a bias, Names.Head with ".bias"
	HeadAct    device.Act // with Names.HeadDense, the head reads norm(act(norm(x)·HeadDenseᵀ)), of whose norms the first is Final, the second HeadNorm; without HeadNorm, norm(x)·HeadDenseᵀ
	HeadUnit   bool       // rows of the head are divided by their Euclidean norm (Index)

	// Norm is how every norm of the residual stream computes. Its weights are
	// those that Names lists, with a bias beside each if NormBias, and none at
	// all, weight 1 and bias 0, if NormPlain.
	Norm                device.Norm
	NormBias, NormPlain bool

	FirstBare bool // the first layer has no Names.NormIn (ModernBERT)

	// LinearNorms are the norms of layers that Linear says, where they are otherwise than Names has them (OLMo Hybrid).
	LinearNorms *Norms

	// NormSums has Names.NormAttnOut and NormMLPOut be norms of the stream, once the output has been added:
	// x = norm(x + attention(x)). Names.Final may be empty: logits are of the stream (GPT 1).
	NormSums bool

	MixtureNorm bool // Names.NormMLPOut is behind mixtures of experts, and not behind MLPs (A.X K1)

	// NormOut is how norms behind sublayers compute, and NormLast that in front of the head, where that is
	// otherwise than Norm (Muse); nil is as Norm.
	NormOut, NormLast *device.Norm

	// Parallel adds both sublayers to the same stream: x += attention(n(x)) +
	// mlp(m(x)), where m is Names.NormMLPIn, or n where that is empty.
	Parallel bool

	Attn   Attn
	Latent Latent
	Delta  Delta
	Short  Short
	MLP    MLP
	MoE    MoE
	Names  Names
	Stored []Stored

	// Bound is how many positions a sequence may have, 0 any number: behind them the model attends otherwise than this
	// says, to what an indexer chooses (models/deepseek_v32), or within chunks (models/llama4).
	Bound int

	// Indexer is what names of an indexer's tensors begin with in a layer. They are not run.
	Indexer string

	Adapters bool // files have low-rank adapters for pictures and sound beside matrices, which are not run

	// Other are further spellings of Names, for Resolve.
	Other []Names

	Window func(layer int) int  // positions seen, the row's own included; 0 or a nil function means all
	Rope   func(layer int) Rope // Dims 0 or a nil function means none
	Dense  func(layer int) bool // layers that have an MLP, not MoE; nil means none if MoE.Experts > 0
	Linear func(layer int) bool // layers that have Delta, or Short, in the place of attention; nil means none

	// Beside: they have Delta beside attention, of the same norm, and both are added to the stream (Falcon H1).
	Beside bool

	// Widths are those of layers' MLPs, MLP.Width at most; 0 means that the layer has none. A nil function
	// means MLP.Width. Unattended are layers without attention; a nil function means none.
	Widths     func(layer int) int
	Unattended func(layer int) bool

	// Attention is that of layers that differ in heads and in what values are; a nil function means Attn.
	// All else of Attn is that of every layer.
	Attention func(layer int) Attn

	// Clamps are those of layers, of MLPs and of the expert that all tokens see, and of the others; a nil function means
	// MLP.Clamp of all (Step).
	Clamps func(layer int) (mlp, experts device.Clamp)

	// KeysOf says whose keys and values a layer attends to, an earlier one's of its shape, or its own; a nil function
	// means its own. A layer that borrows has no K, V, or norms of them.
	KeysOf func(layer int) int

	PerLayer PerLayer

	// LayerScale has each layer's stream multiplied by a number in the end, Names.LayerScale, [1] (Gemma 4).
	LayerScale bool

	// Warnings name fields of config.json that mean nothing here and are not
	// known to be harmless.
	Warnings []string
}

// Attn describes attention: softmax(Scale·q·Kᵀ)·V by heads. A Softcap makes
// scores cap·tanh(score/cap), before masking.
type Attn struct {
	Heads, KVHeads, HeadDim int
	Scale                   float32
	Softcap                 float32
	BiasQKV, BiasO          bool
	QKNorm                  QKNorm

	// ValueNorm normalizes heads of values by Spec.Norm without weights. KeyValues: values are the keys
	// in front of their norm and RoPE, and there is no V (models/gemma4/modeling_gemma4.py).
	ValueNorm, KeyValues bool

	// Gate multiplies what o reads by GateAct(x·Names.AttnGate).
	Gate    Gates
	GateAct device.Act // Logistic or Softplus

	// Clip limits the elements of q, k and v, before head norms and RoPE, to
	// ±Clip (DBRX, OLMo); 0 means no limit.
	Clip float32

	// Sinks: a head's softmax has one more column, the logit Names.Sinks[head],
	// whose share is thrown away (models/gpt_oss/modeling_gpt_oss.py).
	Sinks bool

	// SinksInWindows: only layers with a window have sinks (MiMo V2).
	SinksInWindows bool

	// ValueDim is the width of a head's values, HeadDim at most; o reads Heads·ValueDim columns. 0 means HeadDim.
	// ValueScale multiplies values; 0 means 1 (MiMo V2).
	ValueDim   int
	ValueScale float32

	// Temperature multiplies the query at position p, after RoPE, by
	// 1 + Temperature·ln(1 + ⌊p/TemperatureSpan⌋) (models/ministral3); 0 means
	// by 1.
	Temperature     float32
	TemperatureSpan int
}

// Queries and Keys are the columns of a position's queries, and of its keys, which a cache's values have, too.
func (a Attn) Queries() int { return a.Heads * a.HeadDim }

// Keys is documented with Queries.
func (a Attn) Keys() int { return a.KVHeads * a.HeadDim }

// Gates are the columns of a position's gates.
func (a Attn) Gates() int {
	switch a.Gate {
	case EachColumn:
		return a.Queries()
	case EachHeadOne:
		return a.Heads
	}
	return 0
}

// ValueWidth is how wide a head's values are.
func (a Attn) ValueWidth() int { return cmp.Or(a.ValueDim, a.HeadDim) }

// Gates says what of attention has a gate each.
type Gates uint8

// The gates. Those of columns have a bias if queries have.
const (
	NoGates Gates = iota
	EachColumn
	EachHeadOne
)

// A QKNorm normalizes queries and keys with Spec.Norm, with weights Names.QNorm
// and Names.KNorm.
type QKNorm struct {
	Over      NormSpan
	Bias      bool // a bias beside the weight, of its shape
	Plain     bool // no weights: 1
	AfterRope bool // rather than before
	Roped     bool // only in layers with RoPE (Llama 4)
}

// NormSpan is what a norm of queries or keys takes its mean over.
type NormSpan uint8

// The spans, with the shape of the weight.
const (
	NoNorm       NormSpan = iota
	EachHead              // every head by itself; [head dim], shared by heads (Qwen 3, Gemma 3)
	EachHeadsOwn          // every head by itself; [heads, head dim] (Cohere, StableLM)
	AllHeads              // all heads together; [heads·head dim] (OLMo 2)
)

// Latent describes multi-head latent attention (DeepSeek-V2, arXiv 2405.04434,
// section 2.1; models/deepseek_v3/modeling_deepseek_v3.py):
//
//	q       = norm(x·Q1)·Q2, or x·Q without QRank         [heads, Nope+Rope]
//	c, kr   = split(x·KV1, KVRank, Rope)
//	k, v    = split by heads(norm(c)·KV2, Nope, Value)
//	K[head] = k[head] and RoPE(kr), which all heads share
//
// RoPE rotates the last Rope dimensions of a query. The norms are RMS with
// weights Names.QLatentNorm and Names.KVLatentNorm, and NormEps. The cache may
// hold norm(c) and RoPE(kr), KVRank+Rope numbers a position. Attn.HeadDim is
// Nope+Rope, Attn.KVHeads is Attn.Heads; o reads heads·Value columns.
type Latent struct {
	QRank, KVRank     int // KVRank 0: no latent attention
	Nope, Rope, Value int // dimensions of a head without and with positions, and of its values
	NormEps           float32
}

// Delta describes linear attention by the gated delta rule (Gated Delta Networks, arXiv
// 2412.06464, section 3; models/qwen3_next/modeling_qwen3_next.py). Queries, keys and values,
// x·DeltaQ, x·DeltaK and x·DeltaV, go through a causal convolution of each column by Kernel
// positions, Names.DeltaConv [columns of all three, 1, Kernel], and silu. Then, by heads of values,
// with q and k the head of KeyHeads that ValueHeads/KeyHeads heads of values share, of Euclidean
// length 1 (their squares add up to 1 but for 1e-6), q times 1/√KeyDim:
//
//	g = exp(-exp(Names.DeltaDecay)·softplus(x·DeltaA + Names.DeltaBias)), β = Most·σ(x·DeltaB), Most being 1 if it is 0
//	S = g·S + k·(β·(v - (g·S)ᵀ·k))ᵀ      [KeyDim, ValueDim], zeros in front of the first position
//	y = norm(Sᵀ·q)·silu(x·DeltaZ)         RMS by heads, with weights Names.DeltaNorm, [ValueDim]
//
// and y is what Names.DeltaO reads.
//
// If Plain, it is Mamba-2 (arXiv 2405.21060, section 7; models/mamba2/modeling_mamba2.py), whose C, B and x are q, k and v: these
// come in the order v, k, q in DeltaConv, and have a bias if ConvBias, Names.DeltaConvBias; heads of q and k stay as they are, and
//
//	Δ = max(softplus(x·DeltaA + DeltaBias), Least), g = exp(-exp(DeltaDecay)·Δ)
//	S = g·S + k·(Δ·v)ᵀ, y = Sᵀ·q + Names.DeltaSkip·v
//	y = norm(y·silu(x·DeltaZ))           RMS by Groups of columns, with weights DeltaNorm, [all columns]
type Delta struct {
	KeyHeads, ValueHeads, KeyDim, ValueDim int // KeyHeads 0: none
	Kernel                                 int // of the convolution: the position's own, and so many less one in front
	NormEps                                float32
	Most                                   float32
	ConvsApart                             bool // Names.DeltaConvs, of queries, keys and values, in the place of DeltaConv

	Plain         bool
	Groups        int
	Least         float32
	ConvBias      bool
	BiasIn, BiasO bool // of all matrices that read the stream, and of DeltaO

	Bare   bool // if Plain: without the norm, y = y·silu(x·DeltaZ)
	Scales DeltaScales
}

// DeltaScales multiply x·DeltaZ and so on, and what DeltaO gives, which have no biases then; 0 means 1.
type DeltaScales struct{ Z, V, K, Q, A, O float32 }

// Short describes gated convolutions of each column (models/lfm2/modeling_lfm2.py, Lfm2ShortConv), with the weights
// Names.ShortConv [hidden, 1, Kernel], and, if Bias, biases of it, Names.ShortBias, and of all matrices:
//
//	u = (x·ShortB)·(x·ShortX), y[t] = (x[t]·ShortC)·(ShortBias + Σ ShortConv[i]·u[t-Kernel+1+i])
//
// and y is what Names.ShortO reads.
type Short struct {
	Kernel int // 0: none
	Bias   bool
}

// Keys and Values are the columns of a position's queries, or keys, and of its values.
func (d Delta) Keys() int { return d.KeyHeads * d.KeyDim }

// Values is documented with Keys.
func (d Delta) Values() int { return d.ValueHeads * d.ValueDim }

// MLP describes the feed-forward sublayer: down(act(gate(x))·up(x)), or, if
// Ungated, down(act(up(x))).
type MLP struct {
	Width   int
	Act     device.Act
	Squared bool // act's result is squared: relu2
	Bias    bool
	Ungated bool

	// Clamp is gpt-oss's gated unit (models/gpt_oss/modeling_gpt_oss.py), which
	// takes the place of act(gate)·up; Limit 0 means none of it.
	Clamp device.Clamp

	Scale float32 // multiplies what it gives; 0 means 1

	// XIELU: act is device.XIELU, with numbers of each layer, ln(e^x - 1) of Positive and of Negative - Beta in
	// Names.XIELUPositive and XIELUNegative, [1], Beta and Least in XIELUBeta and XIELULeast, no dimensions (Apertus).
	XIELU bool
}

// MoE describes a mixture of experts in the place of an MLP:
//
//	y = Σ weight[e]·expert[e](x) over the chosen, + shared(x)
//
// An expert is an MLP of Spec.MLP's kind, act and biases, Width wide.
type MoE struct {
	Experts, TopK, Width int // Experts 0: no mixture
	Pictures             int // experts behind those in files, which tokens of pictures see, and are not run; 0 means none
	Routing              Routing

	// Shared is the width of an expert that every token sees, an MLP of
	// Names.SharedGate, SharedUp and SharedDown; 0 means none. If SharedGated,
	// its output is multiplied by σ(x·Names.SharedRouter), [1, hidden].
	Shared      int
	SharedGated bool

	// Apart (Gemma 4, models/gemma4/modeling_gemma4.py): the shared expert reads Names.NormMLPIn, the others Names.NormExpertIn,
	// and the router RMS(x)·Names.RouterScale/√hidden, whole, [hidden], all of the stream; Names.ExpertScales, whole, [experts], multiply
	// the weights; and y = NormShared(shared) + NormExpertOut(Σ weight[e]·expert[e]).
	Apart bool

	// Early has a row's weight multiply what its expert reads, rather than what it gives:
	// y = expert[e](weight[e]·x) + shared(x). TopK is 1 then (Llama 4).
	Early bool

	// Latent has the chosen experts read x·Names.LatentInᵀ, of so many columns, and give as many:
	// y = (Σ weight[e]·expert[e](x·LatentInᵀ))·Names.LatentOutᵀ + shared(x) (Nemotron 3 Super); 0 means none.
	Latent int

	Scale float32 // multiplies y; 0 means 1
}

// Reads returns the columns of what the chosen experts read, in a model so many wide.
func (m MoE) Reads(hidden int) int { return cmp.Or(m.Latent, hidden) }

// Routing says how a token's experts are chosen and weighed, from the logits
// x·routerᵀ (+ bias), one per expert.
type Routing struct {
	device.Routing
	Bias bool // the router is a linear with bias

	// Correction: Names.Correction, [experts], is added to the scores to choose
	// by, not to the weights. With MoE.Pictures it is the first of two rows.
	Correction bool
}

// Warning says in a line which fields of config.json are not understood, or "".
func (s Spec) Warning() string { return notKnown("config.json", s.Warnings) }

// ScaleRope puts the user's own scaling on the positions of every layer, as
// Rope.Scaled says.
func (s *Spec) ScaleRope(linear, alpha float64) {
	s.eachRope(func(r Rope) Rope { return r.Scaled(linear, alpha) })
}

// eachRope changes the RoPE of every layer.
func (s *Spec) eachRope(change func(Rope) Rope) {
	if rope := s.Rope; rope != nil {
		s.Rope = func(layer int) Rope { return change(rope(layer)) }
	}
}

// SetContext makes RoPE that of sequences in a context of the given length, as
// Rope.For says. Whoever makes room for sequences calls it; without it lengths up
// to the original context are assumed.
func (s *Spec) SetContext(length int) {
	s.eachRope(func(r Rope) Rope { return r.For(length) })
}
