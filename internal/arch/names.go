package arch

import (
	"fmt"
	"strings"
)

// Names are tensor names without ".weight": Embed, Positions, Final and Head
// whole, the rest inside a layer, which is Layers with its number in place of
// the asterisk. An asterisk in an expert's name stands for its number. They name
// what the program works with, and writes; where the source keeps a matrix under
// another name or in another form, Spec.Stored says so.
type Names struct {
	Embed, Positions, Layers, Final, Head string
	EmbedNorm, EmbedIn                    string // whole, too
	HeadDense, HeadNorm                   string // likewise

	// Norms before attention and MLP, and of their outputs before those are
	// added to the stream. An empty name means that there is no such norm.
	Norms

	Q, K, V, O   string
	QNorm, KNorm string // with an asterisk: one tensor a head
	Sinks        string // whole, [heads]

	// Latent attention; Q is the query's only matrix where there is no QRank.
	Q1, Q2, KV1, KV2          string
	QLatentNorm, KVLatentNorm string

	AttnGate string

	// Linear attention; all of the second line but the norm are whole. There is no DeltaB if Delta.Plain, and DeltaSkip is only then.
	DeltaQ, DeltaK, DeltaV, DeltaZ, DeltaA, DeltaB, DeltaO                string
	DeltaConv, DeltaConvBias, DeltaDecay, DeltaBias, DeltaSkip, DeltaNorm string
	DeltaConvs                                                            [3]string // whole

	// Gated convolutions; ShortConv and ShortBias are whole.
	ShortB, ShortC, ShortX, ShortO string
	ShortConv, ShortBias           string

	Gate, Up, Down string

	Router, Correction               string // Correction is whole: it has no ".weight"
	ExpertGate, ExpertUp, ExpertDown string
	SharedGate, SharedUp, SharedDown string
	SharedRouter                     string
	LatentIn, LatentOut              string

	// Of MoE.Apart; RouterScale and ExpertScales are whole.
	NormExpertIn, NormExpertOut, NormShared string
	RouterScale, ExpertScales               string

	LayerScale string // whole

	XIELUPositive, XIELUNegative, XIELUBeta, XIELULeast string // whole

	// Of Spec.PerLayer; the first three outside layers.
	PerLayerTable, PerLayerModel, PerLayerNorm string
	PerLayerGate, PerLayerOut, NormPerLayer    string
}

// Norms are names of a layer's norms of the stream, and of what is added to it.
type Norms struct{ NormIn, NormAttnOut, NormMLPIn, NormMLPOut string }

// Layer returns the full name of a layer's part.
func (n Names) Layer(layer int, part string) string {
	return strings.Replace(n.Layers, "*", fmt.Sprint(layer), 1) + "." + part
}

// Expert returns part with an expert's number in place of the asterisk.
func Expert(part string, expert int) string {
	return strings.Replace(part, "*", fmt.Sprint(expert), 1)
}

// A Role says what a linear computes in its module.
type Role string

// The roles.
const (
	Q      Role = "q"
	K      Role = "k"
	V      Role = "v"
	O      Role = "o"
	Gate   Role = "gate"
	Up     Role = "up"
	Down   Role = "down"
	Router Role = "router"
	Head   Role = "head"
)

// Resolve takes the spelling of names that the files have, by whether they have
// its embedding table; has is asked for whole tensor names. Files that have a head
// of their own use that, whatever the configuration says of it; a tied model may have
// its one table under the head's name (transformers modeling_utils.py, tie_weights).
func (s *Spec) Resolve(has func(name string) bool) {
	s.spell(has)
	s.Tied = s.Tied && !(has(s.Names.Head+".weight") && has(s.Names.Embed+".weight"))
}

func (s *Spec) spell(has func(name string) bool) {
	for _, n := range append([]Names{s.Names}, s.Other...) {
		like := *s
		like.Names = n
		table := has(n.Embed+".weight") || s.Tied && has(n.Head+".weight") || s.Table != "" && has(s.Table)
		first := 0
		for first < s.Layers-1 && s.Recurs(first) {
			first++
		}
		if table && like.normed(0, has) && (first == 0 || like.normed(first, has)) {
			s.Names = n
			return
		}
	}
}

// normed reports whether files have the norms in front of a layer's MLP and behind its attention.
func (s Spec) normed(layer int, has func(name string) bool) bool {
	n := s.NormsOf(layer)
	for _, part := range []string{n.NormMLPIn, n.NormAttnOut} {
		if part != "" && !has(s.Names.Layer(layer, part)+".weight") {
			return false
		}
	}
	return true
}
