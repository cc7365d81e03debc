// Package arch turns a Hugging Face config.json into a Spec: everything that
// makes one decoder-only transformer differ from another, as data. Package
// internal/model is the only code that interprets it.
package arch

import "exl2/internal/device"

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
