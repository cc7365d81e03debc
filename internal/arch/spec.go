// Package arch turns a Hugging Face config.json into a Spec: everything that
// makes one decoder-only transformer differ from another, as data. Package
// internal/model is the only code that interprets it.
package arch

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"exl2/internal/device"
)

// A Spec describes a decoder-only transformer.
type Spec struct {
	Arch                  string // the name in config.json's "architectures"
	Vocab, Hidden, Layers int
	MaxPositions          int // context the model was made for

	EmbedScale float32 // multiplies embeddings; 0 means 1
	Residual   float32 // multiplies each half-block's output; 0 means 1
	LogitScale float32 // multiplies logits; 0 means 1
	LogitCap   float32 // soft cap of logits; 0 means none
	Tied       bool    // the head is the embedding table

	Norm  device.Norm
	Attn  Attn
	MLP   MLP
	Names Names

	Window func(layer int) int  // nil means full attention everywhere
	Rope   func(layer int) Rope // nil means none
}

// Attn describes the attention half of a block.
type Attn struct {
	Heads, KVHeads, HeadDim int
	Scale                   float32
	Softcap                 float32
	BiasQKV, BiasO          bool
}

// MLP describes the feed-forward half of a block.
type MLP struct {
	Width int
	Act   device.Act
	Bias  bool
}

// Names are tensor names: Embed, Final and Head whole, the rest inside a layer,
// which is Layers with its number in place of the asterisk.
type Names struct {
	Embed, Layers, Final, Head string
	NormIn, NormMLPIn          string
	Q, K, V, O                 string
	Gate, Up, Down             string
}

// Layer returns the full name of a layer's part.
func (n Names) Layer(layer int, part string) string {
	return strings.Replace(n.Layers, "*", fmt.Sprint(layer), 1) + "." + part
}

// StretchRope puts the user's own scaling on the positions of every layer, as
// Rope.Stretch says.
func (s *Spec) StretchRope(linear, alpha float64) {
	if rope := s.Rope; rope != nil {
		s.Rope = func(layer int) Rope { return rope(layer).Stretch(linear, alpha) }
	}
}

// ErrUnsupported is in the chain of every error about a model that this
// program does not know how to run.
var ErrUnsupported = fmt.Errorf("unsupported")

// ReadSpec returns the Spec of the model in a folder.
func ReadSpec(dir string) (Spec, error) {
	c, err := ReadConfig(dir)
	if err != nil {
		return Spec{}, err
	}
	return For(c)
}

// For returns the Spec of the model that c configures. It refuses, by name,
// an architecture or a value that it does not know.
func For(c *Config) (Spec, error) {
	f, ok := table[c.Arch()]
	if c.err != nil {
		return Spec{}, c.err
	}
	if !ok {
		return Spec{}, fmt.Errorf("%w: architecture %q (known: %s)", ErrUnsupported, c.Arch(), strings.Join(Known(), ", "))
	}
	s := f(c)
	s.Arch = c.Arch()
	if c.err != nil {
		return Spec{}, c.err
	}
	return s, s.check()
}

// Known lists the supported architectures.
func Known() []string { return slices.Sorted(maps.Keys(table)) }
