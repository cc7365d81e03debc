package arch

import (
	"cmp"

	"exl2/internal/device"
)

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
