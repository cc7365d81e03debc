package infer

import (
	"fmt"

	"exl2/internal/device"
	"exl2/internal/sampling"
	"exl2/internal/tensor"
)

// A choice is what the last device needs to choose the tokens of a step, one of each
// sequence in it, or of each token of a draft: tokens that the next step reads, so that the host has no part in
// it, and which it reads from a ring when it likes.
type choice struct {
	dev       device.Device
	sequences int
	settings  tensor.Tensor // F32 [sequences, sampling.Columns]
	seeds     tensor.Tensor // I32 [sequences, 2]
	chosen    tensor.Tensor // I32 [2·sequences, 1]: see device.Sample
	seen      tensor.Tensor // I32 [sequences, vocabulary], once there are penalties
	ring      device.TokenRing
	begun     int // choices so far
	taken     int // those that have been read, or will not be
	even      int // how many of the first rows have had all of them
}

func newChoice(d device.Device, sequences int) *choice {
	rows := choiceRows(sequences)
	return &choice{
		dev: d, sequences: sequences, settings: d.Alloc(tensor.F32, rows, sampling.Columns),
		seeds: d.Alloc(tensor.I32, rows, 2), chosen: d.Alloc(tensor.I32, 2*rows, 1), ring: d.NewTokenRing(rows),
	}
}

// choiceRows is how many tokens are chosen at a time, at most.
func choiceRows(sequences int) int { return max(sequences, 1+MostDraft) }

// choiceBytes returns the bytes that newChoice takes.
func choiceBytes(sequences int) int { return 4 * choiceRows(sequences) * (sampling.Columns + 2 + 2) }

func (c *choice) free() {
	for _, t := range []tensor.Tensor{c.settings, c.seeds, c.chosen, c.seen} {
		if !t.Nil() {
			c.dev.Free(t)
		}
	}
	c.ring.Free()
}

// A chooser says how the tokens of one sequence are chosen.
type chooser struct {
	sampler Sampler
	seed    uint64
	seen    []int32 // tokens before
}

// set has the rows of the next steps chosen so, and returns the kind of those steps.
// Choices that nobody has read are forgotten.
func (c *choice) set(rows []chooser, vocabulary int) decode {
	var values []float32
	var seeds []int32
	k := decode{rows: len(rows), chooses: true, how: manner{greedy: true, unfiltered: true}}
	for _, r := range rows {
		s := r.sampler.settings()
		values = append(values, s.Row()...)
		seeds = append(seeds, int32(r.seed), int32(r.seed>>32))
		k.how.penalties = k.how.penalties || r.sampler.penalizes()
		k.how.greedy = k.how.greedy && s.Temperature == 0
		k.how.unfiltered = k.how.unfiltered && !s.Selects()
	}
	c.dev.Upload(c.settings.Slice(0, len(rows)), tensor.BytesOf(values))
	c.dev.Upload(c.seeds.Slice(0, len(rows)), tensor.BytesOf(seeds))
	c.renumber()
	if !k.how.penalties {
		return k
	}
	if c.seen.Nil() {
		c.seen = c.dev.Alloc(tensor.I32, c.sequences, vocabulary)
	}
	for i, r := range rows {
		c.dev.Upload(c.seen.Slice(i, i+1), tensor.BytesOf(counts(r.seen, vocabulary)))
	}
	return k
}

// renumber has the next choices be the next ones of all rows. Those that nobody has read are forgotten.
func (c *choice) renumber() {
	c.taken, c.even = c.begun, choiceRows(c.sequences)
	c.ring.Begin(c.begun + 1)
}

// ready has the next choice be the next one of some rows, of which all choices have been read.
func (c *choice) ready(rows int) {
	if rows > c.even {
		c.renumber()
	}
}

// began counts a choice of some rows.
func (c *choice) began(rows int) { c.begun, c.even = c.begun+1, min(c.even, rows) }

// counts returns how often each token is there.
func counts(ids []int32, vocabulary int) []int32 {
	n := make([]int32, vocabulary)
	for _, id := range ids {
		n[id]++
	}
	return n
}

// A step is what a choice does for the next step: it may write the tokens where that
// embeds them, and advance the positions.
type step struct {
	ids     tensor.Tensor
	advance bool
}

// run chooses by logits, a row for each sequence, at some positions.
func (c *choice) run(logits, pos tensor.Tensor, how manner, next step) {
	n := logits.Rows
	s := device.Sampling{
		Settings: c.settings.Slice(0, n), Seeds: c.seeds.Slice(0, n), Greedy: how.greedy, Unfiltered: how.unfiltered,
		Next: next.ids, Advance: next.advance, Ring: c.ring,
	}
	if how.penalties {
		s.Seen = c.seen.Slice(0, n)
	}
	c.dev.Sample(c.out(n), logits, pos, s)
}

// out is what Sample writes for n rows, ids the tokens among it.
func (c *choice) out(n int) tensor.Tensor { return c.chosen.Slice(0, 2*n).Reshape(2, n) }
func (c *choice) ids(n int) tensor.Tensor { return c.out(n).Slice(0, 1) }

// read waits for the next tokens that have not been read, of n rows.
func (c *choice) read(n int) ([]int32, error) {
	c.taken++
	ids, err := c.ring.Read(c.taken, n)
	if err != nil {
		return nil, err
	}
	for i, id := range ids {
		if id < 0 {
			return nil, fmt.Errorf("%w: that of token %d in row %d of %d; weights are damaged, or activations overflow", ErrNotFinite, -1-id, i, n)
		}
	}
	return ids, nil
}
