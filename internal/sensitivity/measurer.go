// Package sensitivity finds what quantizing each part of a model costs.
//
// A [Measurer] works through the sublayers and makes what package measure
// holds: tables of candidates with their errors, ExLlamaV2's options, and the
// sensitivities that turn errors into divergence of the model's output.
package sensitivity

import (
	"context"
	"fmt"

	"exl2/internal/device"
	"exl2/internal/model"
	"exl2/internal/profile"
	"exl2/internal/quant"
	"exl2/internal/stream"
	"exl2/measure"
)

// A Measurer works through the sublayers of a model, twice. On the way to the
// head, Sublayer measures what storing matrices in fewer bits does to their own
// outputs; Base are the hidden states that make the Hessians. On the way back,
// Sensitivities finds what that does to the output of the model, from gradients at
// the probe rows, whose hidden states Inputs keeps.
type Measurer struct {
	Dev    device.Quantize
	Loader *model.Loader
	Load   func(model.ModuleSpec) (*model.Module, error) // on Dev
	Pass   *stream.Pass
	Place  stream.Place
	Warn   func(text string) // called when something is done less well

	Profile *profile.Profile // may be nil

	// Moments is how many bytes the moments of sites that are gathered together may
	// take, Work those that candidates of a matrix may, with the work on them; what is
	// found does not depend on either.
	Moments, Work int

	// AllExperts gives every expert all tokens for its moments, not only those that
	// see too few.
	AllExperts bool

	Base   *stream.Store
	Probes []int // rows of Base, rising

	// Inputs are the probe rows in front of every module of the decoder that has
	// been passed, and of the next one; on the way back, in front of those that are
	// left and of the one that has been done last.
	Inputs []*stream.Store
	// Gradient is that of the loss at the probe rows behind the next module on the
	// way back.
	Gradient *stream.Store

	// Columns, if not nil, is given the moments of the columns of each linear of a
	// module on the way back.
	Columns func(name string, c *quant.Columns)

	warned bool // that a module's backward pass is not known
}

// Close frees the hidden states.
func (m *Measurer) Close() {
	for _, s := range append(m.Inputs, m.Base, m.Gradient) {
		if s != nil {
			s.Close()
		}
	}
}

// store returns room for the hidden states of some rows.
func (m *Measurer) store(rows int) (*stream.Store, error) {
	return m.Place.Store(rows, m.Pass.Length*m.Loader.Spec.Handed())
}

// Embed puts Base and the first of Inputs behind the embedding.
func (m *Measurer) Embed(ctx context.Context, e *model.Module, tokens [][]int32) error {
	if err := m.Pass.Embed(ctx, e, tokens, m.Base); err != nil {
		return err
	}
	return m.EmbedProbes(ctx, e, tokens)
}

// EmbedProbes puts the first of Inputs behind the embedding.
func (m *Measurer) EmbedProbes(ctx context.Context, e *model.Module, tokens [][]int32) error {
	rows := make([][]int32, len(m.Probes))
	for i, p := range m.Probes {
		rows[i] = tokens[p]
	}
	x, err := m.store(len(rows))
	if err != nil {
		return err
	}
	m.Inputs = append(m.Inputs, x)
	return m.Pass.Embed(ctx, e, rows, x)
}

// Advance brings Inputs behind a module that has been measured before.
func (m *Measurer) Advance(ctx context.Context, spec model.ModuleSpec) error {
	module, err := m.Load(spec)
	if err != nil {
		return err
	}
	defer module.Free()
	x, err := m.store(len(m.Probes))
	if err != nil {
		return err
	}
	before := m.Inputs[len(m.Inputs)-1]
	m.Inputs = append(m.Inputs, x)
	return m.Pass.Forward(ctx, module, before, x)
}

// Skip moves all hidden states behind a module that somebody else measures.
func (m *Measurer) Skip(ctx context.Context, spec model.ModuleSpec) error {
	h, err := m.open(ctx, spec)
	if err != nil {
		return err
	}
	defer h.free()
	h.rows, h.moves = m.Base, true
	if h.after, err = m.store(len(m.Probes)); err != nil {
		return err
	}
	m.Inputs = append(m.Inputs, h.after)
	return h.moments(nil, true)
}

// Sublayer measures the module that is specified, which is a sublayer, and
// moves all hidden states behind it.
func (m *Measurer) Sublayer(ctx context.Context, spec model.ModuleSpec) (*measure.Sublayer, error) {
	h, err := m.open(ctx, spec)
	if err != nil {
		return nil, err
	}
	defer h.free()
	h.rows, h.moves, h.before = m.Base, true, m.Inputs[len(m.Inputs)-1]
	out, err := h.run()
	if err != nil {
		return nil, fmt.Errorf("measure %s: %w", spec.Name, err)
	}
	return out, nil
}
