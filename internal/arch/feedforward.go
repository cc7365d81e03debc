package arch

import (
	"cmp"

	"exl2/internal/device"
)

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
