package infer

import (
	"fmt"

	"exl2/internal/device"
	"exl2/internal/sampling"
	"exl2/internal/tensor"
)

// A choice is what the last device needs to choose the tokens of a step, one of each
// sequence in it: tokens that the next step reads, so that the host has no part in
// it.
type choice struct {
	dev       device.Device
	sequences int
	settings  tensor.Tensor // F32 [sequences, sampling.Columns]
	seeds     tensor.Tensor // I32 [sequences, 2]
	chosen    tensor.Tensor // I32 [2·sequences, 1]: see device.Sample
	seen      tensor.Tensor // I32 [sequences, vocabulary], once there are penalties
}

func newChoice(d device.Device, sequences int) *choice {
	return &choice{
		dev: d, sequences: sequences, settings: d.Alloc(tensor.F32, sequences, sampling.Columns),
		seeds: d.Alloc(tensor.I32, sequences, 2), chosen: d.Alloc(tensor.I32, 2*sequences, 1),
	}
}

// choiceBytes returns the bytes that newChoice takes.
func choiceBytes(sequences int) int { return 4 * sequences * (sampling.Columns + 2 + 2) }

func (c *choice) free() {
	for _, t := range []tensor.Tensor{c.settings, c.seeds, c.chosen, c.seen} {
		if !t.Nil() {
			c.dev.Free(t)
		}
	}
}

// A chooser says how the tokens of one sequence are chosen.
type chooser struct {
	sampler Sampler
	seed    uint64
	seen    []int32 // tokens before
}

// set has the rows of the next steps chosen so, and reports whether penalties are
// taken off.
func (c *choice) set(rows []chooser, vocabulary int) (penalties bool) {
	var settings []float32
	var seeds []int32
	for _, r := range rows {
		settings = append(settings, r.sampler.settings().Row()...)
		seeds = append(seeds, int32(r.seed), int32(r.seed>>32))
		penalties = penalties || r.sampler.penalizes()
	}
	c.dev.Upload(c.settings.Slice(0, len(rows)), tensor.BytesOf(settings))
	c.dev.Upload(c.seeds.Slice(0, len(rows)), tensor.BytesOf(seeds))
	if !penalties {
		return false
	}
	if c.seen.Nil() {
		c.seen = c.dev.Alloc(tensor.I32, c.sequences, vocabulary)
	}
	for i, r := range rows {
		c.dev.Upload(c.seen.Slice(i, i+1), tensor.BytesOf(counts(r.seen, vocabulary)))
	}
	return true
}

// counts returns how often each token is there.
func counts(ids []int32, vocabulary int) []int32 {
	n := make([]int32, vocabulary)
	for _, id := range ids {
		n[id]++
	}
	return n
}

// run chooses by logits, a row for each sequence, at some positions.
func (c *choice) run(logits, pos tensor.Tensor, penalties bool) {
	n := logits.Rows
	s := device.Sampling{Settings: c.settings.Slice(0, n), Seeds: c.seeds.Slice(0, n)}
	if penalties {
		s.Seen = c.seen.Slice(0, n)
	}
	c.dev.Sample(c.out(n), logits, pos, s)
}

// out is what Sample writes for n rows, ids the tokens among it.
func (c *choice) out(n int) tensor.Tensor { return c.chosen.Slice(0, 2*n).Reshape(2, n) }
func (c *choice) ids(n int) tensor.Tensor { return c.out(n).Slice(0, 1) }

// fetch returns a function that waits for the tokens chosen so far.
func (c *choice) fetch(n int) func() ([]int32, error) {
	get := c.dev.Fetch(c.out(n))
	return func() ([]int32, error) {
		data, err := get()
		if err != nil {
			return nil, err
		}
		all := make([]int32, 2*n)
		copy(tensor.BytesOf(all), data)
		for i, bad := range all[n:] {
			if bad >= 0 {
				return nil, fmt.Errorf("%w: that of token %d in row %d of %d; weights are damaged, or activations overflow", ErrNotFinite, bad, i, n)
			}
		}
		return all[:n], nil
	}
}
