package model

import (
	"fmt"

	"exl2/internal/arch"
	"exl2/internal/device"
	"exl2/internal/tensor"
)

// Size says how large a State must be.
type Size struct {
	Rows      int // of one pass, at most
	Logits    int // rows of logits, at most
	Sequences int // that the caches hold
	Positions int // of each sequence, at most
	Caches    int // layers that are cached apart; 1 when modules run one at a time
}

// PageRows is the number of positions in a page of the cache.
const PageRows = 256

// pages returns the pages that a sequence takes.
func (z Size) pages() int { return (z.Positions + PageRows - 1) / PageRows }

// State holds the activations of one forward pass on one device. Everything is
// allocated once, for the largest pass, so that a pass can be recorded and
// replayed. Use sets the rows of the next pass.
type State struct {
	Dev   device.Device
	Batch device.Batch

	IDs      tensor.Tensor // I32 [1, rows]
	X        tensor.Tensor // residual stream, F32 [rows, hidden]
	Norm     tensor.Tensor // normed X
	Q, K, V  tensor.Tensor
	Gate, Up tensor.Tensor
	Out      tensor.Tensor // what a half-block adds to X
	Logits   tensor.Tensor // F32 [rows, vocabulary]
	Caches   []device.Cache

	size   Size
	full   *State // the State as allocated, of which this is a range of rows
	shared []tensor.Tensor
}

// widths lists the activations of a pass and their columns.
func widths(s *State, spec arch.Spec) []struct {
	t    *tensor.Tensor
	cols int
} {
	a := spec.Attn
	return []struct {
		t    *tensor.Tensor
		cols int
	}{
		{&s.Norm, spec.Hidden}, {&s.Q, a.Heads * a.HeadDim}, {&s.K, a.KVHeads * a.HeadDim}, {&s.V, a.KVHeads * a.HeadDim},
		{&s.Gate, spec.MLP.Width}, {&s.Up, spec.MLP.Width}, {&s.Out, spec.Hidden},
	}
}

// NewState allocates a State on d.
func NewState(d device.Device, spec arch.Spec, z Size) *State {
	s := &State{Dev: d, size: z}
	s.IDs = d.Alloc(tensor.I32, 1, z.Rows)
	s.Batch = device.Batch{Pos: d.Alloc(tensor.I32, 1, z.Rows), Seq: d.Alloc(tensor.I32, 1, z.Rows), Span: 1}
	s.X = d.Alloc(tensor.F32, z.Rows, spec.Hidden)
	for _, w := range widths(s, spec) {
		*w.t = d.Alloc(d.Activation(), z.Rows, w.cols)
	}
	if z.Logits > 0 {
		s.Logits = d.Alloc(tensor.F32, z.Logits, spec.Vocab)
	}
	kv, pages := spec.Attn.KVHeads*spec.Attn.HeadDim, z.pages()
	table := d.Alloc(tensor.I32, z.Sequences, pages)
	upload(d, table, numbers(z.Sequences*pages))
	s.shared = append(s.shared, table)
	for range z.Caches {
		rows := z.Sequences * pages * PageRows
		s.Caches = append(s.Caches, device.Cache{
			K: d.Alloc(d.Activation(), rows, kv), V: d.Alloc(d.Activation(), rows, kv), Table: table, PageRows: PageRows,
		})
	}
	s.full = &State{}
	*s.full = *s
	return s
}

// Bytes returns the device memory that NewState takes for z, with activations
// of the given type.
func Bytes(spec arch.Spec, z Size, activation tensor.Type) int {
	row := 4 * (3 + spec.Hidden)
	for _, w := range widths(&State{}, spec) {
		row += w.cols * activation.Size()
	}
	kv := 2 * spec.Attn.KVHeads * spec.Attn.HeadDim * activation.Size()
	cache := z.Sequences * z.pages() * (4 + z.Caches*PageRows*kv)
	return z.Rows*row + z.Logits*spec.Vocab*4 + cache
}

// Run is a run of consecutive positions of one sequence.
type Run struct{ Sequence, Position int }

// Use makes the next pass one of len(runs)·span rows: each run is span ids, in
// order, from its position on. ids may be nil where the embedding is not run.
func (s *State) Use(runs []Run, span int, ids []int32) {
	rows := len(runs) * span
	if rows > s.size.Rows || ids != nil && len(ids) != rows {
		panic(fmt.Sprintf("model: pass of %d rows with %d ids in a state of %d", rows, len(ids), s.size.Rows))
	}
	s.view(0, rows)
	s.Batch.Span = span
	pos, seq := make([]int32, 0, rows), make([]int32, 0, rows)
	for _, r := range runs {
		if r.Sequence >= s.size.Sequences || r.Position+span > s.size.Positions {
			panic(fmt.Sprintf("model: sequence %d, positions to %d, in a cache of %d x %d", r.Sequence, r.Position+span, s.size.Sequences, s.size.Positions))
		}
		for i := range span {
			pos, seq = append(pos, int32(r.Position+i)), append(seq, int32(r.Sequence))
		}
	}
	upload(s.Dev, s.Batch.Pos, pos)
	upload(s.Dev, s.Batch.Seq, seq)
	if ids != nil {
		upload(s.Dev, s.IDs, ids)
	}
}

// Slice returns a State for rows lo to hi of s, whose logits come first. Only
// modules that work row by row, such as the head, may run on it.
func (s *State) Slice(lo, hi int) *State {
	part := *s
	part.view(lo, hi)
	part.Batch.Span = 1
	return &part
}

// view sets the tensors of s to rows lo to hi of the whole State.
func (s *State) view(lo, hi int) {
	f := s.full
	for _, v := range []struct{ dst, src *tensor.Tensor }{
		{&s.X, &f.X}, {&s.Norm, &f.Norm}, {&s.Q, &f.Q}, {&s.K, &f.K}, {&s.V, &f.V},
		{&s.Gate, &f.Gate}, {&s.Up, &f.Up}, {&s.Out, &f.Out},
	} {
		*v.dst = v.src.Slice(lo, hi)
	}
	for _, v := range []struct{ dst, src *tensor.Tensor }{
		{&s.IDs, &f.IDs}, {&s.Batch.Pos, &f.Batch.Pos}, {&s.Batch.Seq, &f.Batch.Seq},
	} {
		column := v.src.Reshape(v.src.Cols, 1).Slice(lo, hi)
		*v.dst = column.Reshape(1, hi-lo)
	}
	if f.Logits.Rows > 0 {
		s.Logits = f.Logits.Slice(0, min(hi-lo, f.Logits.Rows))
	}
}

// Free frees the state's memory.
func (s *State) Free() {
	f := s.full
	for _, t := range append(f.shared, f.IDs, f.Batch.Pos, f.Batch.Seq, f.X, f.Norm, f.Q, f.K, f.V, f.Gate, f.Up, f.Out, f.Logits) {
		s.Dev.Free(t)
	}
	for _, c := range f.Caches {
		s.Dev.Free(c.K)
		s.Dev.Free(c.V)
	}
}

// cache returns the cache of a layer: its own, or the one that all share.
func (s *State) cache(layer int) device.Cache { return s.Caches[layer%len(s.Caches)] }

func numbers(n int) []int32 {
	list := make([]int32, n)
	for i := range list {
		list[i] = int32(i)
	}
	return list
}

func upload(d device.Device, t tensor.Tensor, v []int32) {
	d.Upload(t, tensor.BytesOf(v))
}
