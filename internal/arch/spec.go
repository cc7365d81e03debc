// Package arch turns a Hugging Face config.json into a Spec: everything that
// makes one decoder-only transformer differ from another, as data. Package
// internal/model is the only code that interprets it.
package arch

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

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

	KVHeads func(layer int) int // heads of keys of a layer, which divide Attn.KVHeads; nil means those

	// Widths are those of layers' MLPs, MLP.Width at most; 0 means that the layer has none. A nil function
	// means MLP.Width. Unattended are layers without attention; a nil function means none.
	Widths     func(layer int) int
	Unattended func(layer int) bool

	// Attention is that of layers that differ in heads and in what values are; a nil function means Attn.
	// All else of Attn is that of every layer.
	Attention func(layer int) Attn

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

	// Gated multiplies what o reads by σ(x·Names.AttnGate), of its width.
	Gated bool

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

// Queries and Keys are the columns of a position's queries, and of its keys, which values have, too.
func (a Attn) Queries() int { return a.Heads * a.HeadDim }

// Keys is documented with Queries.
func (a Attn) Keys() int { return a.KVHeads * a.HeadDim }

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
//	g = exp(-exp(Names.DeltaDecay)·softplus(x·DeltaA + Names.DeltaBias)), β = σ(x·DeltaB)
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

	Plain         bool
	Groups        int
	Least         float32
	ConvBias      bool
	BiasIn, BiasO bool // of all matrices that read the stream, and of DeltaO
}

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

	Scale float32 // multiplies y; 0 means 1
}

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

// masks are the tables of early GPT-2, GPT-NeoX and their like that say which positions
// are seen, and the number that the scores of others get, which is often beyond fp16.
var masks = []string{".attn.bias", ".attn.masked_bias", ".attention.bias", ".attention.masked_bias"}

// ahead are what names of layers begin with that predict further tokens, where these are not behind the last (Qwen3-Next, MiMo).
var ahead = []string{"mtp.", "model.mtp_layers.", "model.mtp."}

// Unused reports whether a tensor of the source is one that nothing reads:
// frequencies and masks, which follow from the configuration, and layers behind the last,
// which predict further tokens, or are more than the configuration speaks of.
func (s Spec) Unused(name string) bool {
	if strings.HasSuffix(name, ".rotary_emb.inv_freq") || slices.ContainsFunc(ahead, func(begin string) bool { return strings.HasPrefix(name, begin) }) {
		return true
	}
	n, ok := s.layerOf(name)
	return ok && (n >= s.Layers || s.borrowed(name, n) || slices.ContainsFunc(masks, func(end string) bool { return strings.HasSuffix(name, end) }))
}

// Stray returns the first of tensors' names that is of a layer which the configuration does
// not speak of, not as one that predicts further tokens either; or "".
func (s Spec) Stray(names []string) string {
	for _, name := range names {
		if s.behind(name, s.Layers+s.Further) {
			return name
		}
	}
	return ""
}

// InLayer reports whether a tensor is of a layer that the configuration speaks of, and not of
// what pictures see there, or of an indexer.
func (s Spec) InLayer(name string) bool {
	n, ok := s.layerOf(name)
	return ok && n < s.Layers && !s.Passed(n) && !s.pictures(name, n) && !s.borrowed(name, n) && !s.indexes(name, n)
}

// borrowed reports whether a tensor of a layer is of keys and values that the layer does not use, as it borrows others.
func (s Spec) borrowed(name string, layer int) bool {
	if s.Lender(layer) == layer {
		return false
	}
	return slices.ContainsFunc([]string{s.Names.K, s.Names.V, s.Names.KNorm}, func(part string) bool {
		return strings.HasPrefix(name, s.Names.Layer(layer, part)+".")
	})
}

// indexes reports whether a tensor of a layer is of an indexer.
func (s Spec) indexes(name string, layer int) bool {
	return s.Indexer != "" && strings.HasPrefix(name, s.Names.Layer(layer, s.Indexer))
}

// KeyHeads returns how many heads of keys a layer has.
func (s Spec) KeyHeads(layer int) int {
	if s.KVHeads == nil {
		return s.AttnOf(layer).KVHeads
	}
	return s.KVHeads(layer)
}

// ValueDim returns how wide a head's values are.
func (s Spec) ValueDim() int { return cmp.Or(s.Attn.ValueDim, s.Attn.HeadDim) }

// Sinks reports whether a layer has sinks.
func (s Spec) Sinks(layer int) bool {
	return s.Attn.Sinks && (!s.Attn.SinksInWindows || s.Window != nil && s.Window(layer) > 0)
}

// TableWidth returns how wide the embedding's table is.
func (s Spec) TableWidth() int { return cmp.Or(s.EmbedWidth, s.Hidden) }

// NormIn returns the name of the norm in front of a layer's attention, or "".
func (s Spec) NormIn(layer int) string {
	if s.FirstBare && layer == 0 {
		return ""
	}
	return s.Names.NormIn
}

// NormMLPOut returns the name of the norm behind a layer's MLP or mixture of experts, or "".
func (s Spec) NormMLPOut(layer int) string {
	if s.MixtureNorm && !s.Sparse(layer) {
		return ""
	}
	return s.Names.NormMLPOut
}

// Sinusoid returns the rows of the table of positions that Sinusoids speaks of, from LearnedFrom on.
func (s Spec) Sinusoid() []float32 {
	half := s.Hidden / 2
	table := make([]float32, s.Learned*s.Hidden)
	for p := range s.Learned {
		for j := range half {
			sin, cos := math.Sincos(float64(s.LearnedFrom+p) * math.Pow(10000, -float64(j)/float64(half-1)))
			table[p*s.Hidden+j], table[p*s.Hidden+half+j] = float32(sin), float32(cos)
		}
	}
	return table
}

// HeadNorms reports whether a layer normalizes queries and keys.
func (s Spec) HeadNorms(layer int) bool {
	q := s.Attn.QKNorm
	return q.Over != NoNorm && (!q.Roped || s.Rope != nil && s.Rope(layer).Dims > 0)
}

// bound limits sequences to so many positions.
func (s *Spec) bound(positions int) {
	s.Bound, s.MaxPositions = positions, min(s.MaxPositions, positions)
}

// Passed reports whether nothing of a layer is run, as of those that only see pictures.
func (s Spec) Passed(layer int) bool {
	return !s.Attends(layer) && !s.Sparse(layer) && s.MLPWidth(layer) == 0
}

// pictures reports whether a tensor of a layer is of an expert that pictures see, or of an adapter.
func (s Spec) pictures(name string, layer int) bool {
	if s.Adapters && (strings.Contains(name, ".lora_A.") || strings.Contains(name, ".lora_B.")) {
		return true
	}
	before, _, _ := strings.Cut(s.Names.Layer(layer, s.Names.ExpertUp), "*")
	rest, ok := strings.CutPrefix(name, before)
	number, _, _ := strings.Cut(rest, ".")
	n, err := strconv.Atoi(number)
	return s.MoE.Pictures > 0 && ok && err == nil && n >= s.MoE.Experts
}

// behind reports whether a tensor is of a layer that has the given number or a
// later one.
func (s Spec) behind(name string, layer int) bool {
	n, ok := s.layerOf(name)
	return ok && n >= layer
}

// layerOf returns the number of the layer that a tensor is of, and whether it is of any.
func (s Spec) layerOf(name string) (int, bool) {
	before, _, _ := strings.Cut(s.Names.Layers, "*")
	rest, ok := strings.CutPrefix(name, before)
	number, _, inside := strings.Cut(rest, ".")
	n, err := strconv.Atoi(number)
	return n, ok && inside && err == nil
}

// StreamNorm returns how a norm of the residual stream computes, by what Names calls it.
func (s Spec) StreamNorm(name string) device.Norm {
	n := s.Names
	switch {
	case s.NormOut != nil && (name == n.NormAttnOut || name == n.NormMLPOut):
		return *s.NormOut
	case s.NormLast != nil && name == n.Final:
		return *s.NormLast
	}
	return s.Norm
}

// MLPWidth returns the width of a layer's MLP, 0 if it has none.
func (s Spec) MLPWidth(layer int) int {
	if s.Widths == nil {
		return s.MLP.Width
	}
	return s.Widths(layer)
}

// AttnOf returns the attention of a layer.
func (s Spec) AttnOf(layer int) Attn {
	if s.Attention == nil {
		return s.Attn
	}
	return s.Attention(layer)
}

// Widest returns the most columns that a layer's queries have, and its keys.
func (s Spec) Widest() (queries, keys int) {
	queries, keys = s.Attn.Queries(), s.Attn.Keys()
	for l := 0; s.Attention != nil && l < s.Layers; l++ {
		queries, keys = max(queries, s.Attention(l).Queries()), max(keys, s.Attention(l).Keys())
	}
	return queries, keys
}

// Attends reports whether a layer has attention.
func (s Spec) Attends(layer int) bool { return s.Unattended == nil || !s.Unattended(layer) }

// Sparse reports whether a layer has a mixture of experts.
func (s Spec) Sparse(layer int) bool {
	return s.MoE.Experts > 0 && (s.Dense == nil || !s.Dense(layer))
}

// Recurs reports whether a layer has linear attention, or convolutions, whose state at a position cannot be had
// but by going through all in front of it.
func (s Spec) Recurs(layer int) bool {
	return (s.Delta.KeyHeads > 0 || s.Short.Kernel > 0) && s.Linear != nil && s.Linear(layer)
}

// Recurrent reports whether any layer does.
func (s Spec) Recurrent() bool {
	_, states := s.Keeping(0, s.Layers)
	return states > 0
}

// Keeping counts the layers from one to another that keep keys and values of what is behind them, and those
// that keep states. Layers without attention keep neither.
func (s Spec) Keeping(from, to int) (caches, states int) {
	for l := from; l < to; l++ {
		switch {
		case s.Recurs(l):
			states++
		case s.Attends(l):
			caches++
		}
	}
	return caches, states
}

// Kept returns which number a layer has among those that keep the same as it: states, or keys of as
// many columns.
func (s Spec) Kept(layer int) int {
	n := 0
	for l := range layer {
		if s.Recurs(l) == s.Recurs(layer) && s.Attends(l) && s.AttnOf(l).Keys() == s.AttnOf(layer).Keys() {
			n++
		}
	}
	return n
}
