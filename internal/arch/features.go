package arch

import (
	"fmt"
	"slices"
	"strings"

	"exl2/internal/device"
)

// A Feature is something that an interpreter of Specs must know to run one
// right, beyond what the first version of internal/model did.
type Feature string

// The features, in the words of messages.
const (
	PostNorms       Feature = "norms behind sublayers"
	NoPreNorms      Feature = "sublayers without a norm in front"
	NormBiases      Feature = "norms with biases"
	PlainNorms      Feature = "norms without weights"
	VariedNorms     Feature = "norms that compute differently"
	ParallelBlocks  Feature = "attention and MLP in parallel"
	HeadNorms       Feature = "norms of heads"
	HeadNormsOwn    Feature = "norms of heads with weights of their own"
	HeadNormsAll    Feature = "norms over all heads"
	HeadNormBiases  Feature = "norms of heads with biases"
	HeadNormsLate   Feature = "norms of heads behind RoPE"
	HeadNormsPlain  Feature = "norms of heads without weights"
	HeadNormsRoped  Feature = "norms of heads where there is RoPE"
	EmbeddingNorm   Feature = "normalized embeddings"
	EmbeddingWeight Feature = "normalized embeddings with weights"
	FirstLayerBare  Feature = "a first layer without a norm in front"
	NarrowTable     Feature = "embeddings of another width"
	DeepHead        Feature = "a head of two matrices"
	HeadBias        Feature = "a bias of the head"
	HeadUnitRows    Feature = "normalized rows of the head"
	LearnedPosition Feature = "learned positions"
	LearnedFrom     Feature = "learned positions behind unused rows"
	SinePositions   Feature = "positions of sines and cosines"
	NormedSums      Feature = "norms of the stream behind sublayers"
	NoFinalNorm     Feature = "logits of the stream without a norm"
	MixtureNorms    Feature = "norms behind mixtures of experts only"
	UngatedMLP      Feature = "MLPs without a gate"
	SquaredAct      Feature = "squared activation functions"
	ClampedMLP      Feature = "clamped gated units"
	ClippedQKV      Feature = "clipped queries, keys and values"
	AttentionSinks  Feature = "attention sinks"
	SinksInWindows  Feature = "attention sinks where there are windows"
	NarrowValues    Feature = "values narrower than keys"
	ScaledValues    Feature = "scaled values"
	AttentionTemp   Feature = "queries scaled by position"
	LatentAttention Feature = "latent attention"
	GatedAttention  Feature = "gated attention"
	GatedHeads      Feature = "gates of heads"
	XIELUs          Feature = "xIELU"
	LinearNormed    Feature = "norms of layers with linear attention"
	LinearBeside    Feature = "linear attention beside attention"
	ScaledMLP       Feature = "scaled MLPs"
	ScaledStates    Feature = "scaled inputs of linear attention"
	BareStates      Feature = "linear attention without a norm"
	LatentExperts   Feature = "experts of a projection of the stream"
	VariedClamps    Feature = "units limited by layer"
	LinearAttention Feature = "linear attention by the gated delta rule"
	StateSpaces     Feature = "linear attention by Mamba-2"
	Convolutions    Feature = "gated convolutions"
	BoundAttention  Feature = "attention that is known up to a length"
	DynamicRope     Feature = "RoPE that depends on the length"
	Experts         Feature = "mixtures of experts"
	SharedExperts   Feature = "shared experts"
	SharedGates     Feature = "gated shared experts"
	ScaledExperts   Feature = "scaled mixtures of experts"
	ParallelExperts Feature = "attention and experts in parallel"
	EarlyWeights    Feature = "experts whose weights multiply what they read"
	DenseLayers     Feature = "dense layers among sparse ones"
	RouterTop       Feature = "router: softmax of the chosen"
	RouterSigmoid   Feature = "router: sigmoid"
	RouterMixer     Feature = "router: sparse mixer"
	RouterGroups    Feature = "router: groups"
	RouterBias      Feature = "router: bias"
	RouterCorrected Feature = "router: correction bias"
	FusedTensors    Feature = "fused tensors"
	TransposedInput Feature = "transposed tensors"
	StackedExperts  Feature = "stacked experts"
	VariedWidths    Feature = "MLPs of different widths"
	NoAttention     Feature = "layers without attention"
	PictureExperts  Feature = "experts of pictures"
	VariedHeads     Feature = "heads that differ by layer"
	ValueNorms      Feature = "norms of values"
	KeyValues       Feature = "values that are keys"
	ScaledLayers    Feature = "layers that scale the stream"
	ApartExperts    Feature = "experts with norms of their own"
	LayerInputs     Feature = "inputs of each layer"
	BorrowedKeys    Feature = "layers that borrow keys and values"
	PictureRows     Feature = "rows of pictures in the embedding table"
)

// Features lists what an interpreter must know to run s.
func (s Spec) Features() []Feature {
	var list []Feature
	add := func(f Feature, has bool) {
		if has && !slices.Contains(list, f) {
			list = append(list, f)
		}
	}
	n, a := s.Names, s.Attn
	add(PostNorms, !s.NormSums && (n.NormAttnOut != "" || n.NormMLPOut != ""))
	add(NoPreNorms, n.NormIn == "" || n.NormMLPIn == "" && !s.Parallel)
	add(NormBiases, s.NormBias)
	add(PlainNorms, s.NormPlain)
	add(VariedNorms, s.NormOut != nil || s.NormLast != nil)
	add(ParallelBlocks, s.Parallel)
	add(HeadNorms, a.QKNorm.Over == EachHead)
	add(HeadNormsOwn, a.QKNorm.Over == EachHeadsOwn)
	add(HeadNormsAll, a.QKNorm.Over == AllHeads)
	add(HeadNormBiases, a.QKNorm.Bias)
	add(HeadNormsLate, a.QKNorm.AfterRope)
	add(HeadNormsPlain, a.QKNorm.Plain)
	add(HeadNormsRoped, a.QKNorm.Roped)
	add(EmbeddingNorm, s.EmbedNorm)
	add(EmbeddingWeight, n.EmbedNorm != "")
	add(FirstLayerBare, s.FirstBare)
	add(LinearNormed, s.LinearNorms != nil)
	add(LinearBeside, s.Beside)
	add(ScaledMLP, s.MLP.Scale != 0)
	add(ScaledStates, s.Delta.Scales != (DeltaScales{}))
	add(BareStates, s.Delta.Bare)
	add(NarrowTable, s.EmbedWidth > 0)
	add(DeepHead, n.HeadDense != "")
	add(HeadBias, s.HeadBias)
	add(HeadUnitRows, s.HeadUnit)
	add(LearnedPosition, s.Learned > 0)
	add(LearnedFrom, s.LearnedFrom > 0)
	add(SinePositions, s.Sinusoids)
	add(NormedSums, s.NormSums)
	add(NoFinalNorm, n.Final == "")
	add(MixtureNorms, s.MixtureNorm)
	add(PictureRows, s.Beyond > 0)
	add(ClippedQKV, a.Clip > 0)
	add(AttentionSinks, a.Sinks)
	add(SinksInWindows, a.SinksInWindows)
	add(NarrowValues, a.ValueDim > 0)
	add(ScaledValues, a.ValueScale != 0)
	add(AttentionTemp, a.Temperature != 0)
	add(LatentAttention, s.Latent.KVRank > 0)
	add(GatedAttention, a.Gate == EachColumn)
	add(GatedHeads, a.Gate == EachHeadOne)
	add(VariedHeads, s.Attention != nil)
	for l := range s.Layers {
		add(ValueNorms, s.AttnOf(l).ValueNorm)
		add(KeyValues, s.AttnOf(l).KeyValues)
	}
	add(ScaledLayers, s.LayerScale)
	add(LayerInputs, s.PerLayer.Size > 0)
	add(BorrowedKeys, s.KeysOf != nil)
	add(LinearAttention, s.Recurrent() && s.Short.Kernel == 0 && !s.Delta.Plain)
	add(StateSpaces, s.Recurrent() && s.Delta.Plain)
	add(Convolutions, s.Recurrent() && s.Short.Kernel > 0)
	add(BoundAttention, s.Bound > 0)
	s.ropeFeatures(add)
	s.mlpFeatures(add)
	s.storedFeatures(add)
	return list
}

func (s Spec) ropeFeatures(add func(Feature, bool)) {
	for layer := range s.Layers {
		if s.Rope != nil {
			kind := s.Rope(layer).Scaling.Kind
			add(DynamicRope, kind == Dynamic || kind == LongRope)
		}
	}
}

func (s Spec) mlpFeatures(add func(Feature, bool)) {
	m, r := s.MoE, s.MoE.Routing
	add(UngatedMLP, s.MLP.Ungated)
	add(SquaredAct, s.MLP.Squared)
	add(ClampedMLP, s.MLP.Clamp.Limit > 0)
	add(VariedClamps, s.Clamps != nil)
	add(XIELUs, s.MLP.XIELU)
	add(VariedWidths, s.Widths != nil)
	add(NoAttention, s.Unattended != nil)
	if m.Experts == 0 {
		return
	}
	add(Experts, true)
	add(SharedExperts, m.Shared > 0)
	add(PictureExperts, m.Pictures > 0)
	add(SharedGates, m.SharedGated)
	add(ApartExperts, m.Apart)
	add(ScaledExperts, m.Scale != 0)
	add(ParallelExperts, s.Parallel)
	add(EarlyWeights, m.Early)
	add(LatentExperts, m.Latent > 0)
	add(DenseLayers, s.Dense != nil)
	add(RouterTop, r.Score == device.SoftmaxTop)
	add(RouterSigmoid, r.Score == device.Sigmoid)
	add(RouterMixer, r.Score == device.SparseMixer)
	add(RouterGroups, r.Groups > 1)
	add(RouterBias, r.Bias)
	add(RouterCorrected, r.Correction)
}

func (s Spec) storedFeatures(add func(Feature, bool)) {
	for _, t := range s.Stored {
		add(FusedTensors, len(t.Holds) > 1)
		add(TransposedInput, t.Transposed)
		add(StackedExperts, t.Stacked || t.Flat)
	}
}

// Require refuses, by name, what s needs and is not among the known.
func (s Spec) Require(known ...Feature) error {
	var missing []string
	for _, f := range s.Features() {
		if !slices.Contains(known, f) {
			missing = append(missing, string(f))
		}
	}
	if missing == nil {
		return nil
	}
	return fmt.Errorf("%w: architecture %q: %s", ErrUnsupported, s.Arch, strings.Join(missing, ", "))
}
