package arch

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
