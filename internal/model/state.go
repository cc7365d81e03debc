package model

import (
	"fmt"

	"exl2/internal/arch"
	"exl2/internal/device"
	"exl2/internal/tensor"
)

// Size says how large a State must be.
type Size struct {
	Rows   int // of one pass, at most
	Logits int // rows of logits, at most
}

// State holds the activations of one forward pass on one device, or, as F32,
// their gradients. Everything is allocated once, for the largest pass, so that a
// pass can be recorded and replayed. Use sets the rows of the next pass.
type State struct {
	Dev   device.Device
	Batch device.Batch

	IDs tensor.Tensor // I32 [1, rows]

	// Half says of gradients that operations may round them to the activation type.
	Half bool

	first  []int32       // First on the host, if it is known there
	follow *State        // whose choice of experts is taken, or nil
	apart  bool          // operations run one by one: a backward pass reads what they leave
	reader device.Matrix // whose products alone read what attention computes, or nil
	left   *Step         // for which the device may have left something beside the stream, or nil
	act    [slots]tensor.Tensor
	size   Size
	cache  *Cache
	hidden int    // columns of the residual stream
	full   *State // the State as allocated, of which this is a range of rows
}

// At returns an activation's rows of the pass.
func (s *State) At(slot Slot) tensor.Tensor { return s.act[slot] }

// within returns the first columns of an activation, where a layer has fewer than others.
func within(t tensor.Tensor, cols int) tensor.Tensor {
	if t.Cols <= cols {
		return t
	}
	return t.Columns(0, cols)
}

// NewState allocates a State on d whose sequences have their keys and values in
// c, which stays the caller's.
func NewState(d device.Device, spec arch.Spec, z Size, c *Cache) *State {
	s := &State{Dev: d, size: z, cache: c, hidden: spec.Hidden}
	s.IDs = d.Alloc(tensor.I32, 1, z.Rows)
	s.Batch = device.Batch{Pos: d.Alloc(tensor.I32, 1, z.Rows), Seq: d.Alloc(tensor.I32, 1, z.Rows), Table: c.Table, Span: 1}
	s.allocate(activations(spec, z, d.Activation()))
	return s
}

// NewGradients allocates a State for the gradients of some rows of s.
func NewGradients(s *State, spec arch.Spec, rows int) *State {
	g := &State{Dev: s.Dev, hidden: spec.Hidden, size: Size{Rows: rows, Logits: s.size.Logits}}
	g.allocate(activations(spec, g.size, tensor.F32))
	return g
}

func (s *State) allocate(shapes [slots]tensor.Tensor) {
	for i, t := range shapes {
		if t.Rows > 0 {
			s.act[i] = s.Dev.Alloc(t.Type, t.Rows, t.Cols)
		}
	}
	s.full = &State{}
	*s.full = *s
	s.share()
}

// share gives the expert that all rows see the last rows of ExpertOut, and the residual stream its columns.
func (s *State) share() {
	s.act[Residual] = s.act[Stream].Columns(0, s.hidden)
	if chosen, all := s.act[Order].Rows, s.act[ExpertOut]; all.Rows > chosen {
		s.act[SharedOut] = all.Slice(chosen, all.Rows)
	}
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
	s.Batch.Pass, s.full.Batch.Pass = s.full.Batch.Pass+1, s.full.Batch.Pass+1
	s.Batch.Reach = 0
	pos, seq := make([]int32, 0, rows), make([]int32, 0, rows)
	for _, r := range runs {
		if span > 1 {
			s.Batch.Reach = max(s.Batch.Reach, r.Position+span)
		}
		if r.Sequence >= s.cache.Sequences || r.Position+span > s.cache.Positions {
			panic(fmt.Sprintf("model: sequence %d, positions to %d, in a cache of %d x %d", r.Sequence, r.Position+span, s.cache.Sequences, s.cache.Positions))
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

// Again makes the next pass one of the runs that Use was given last. It waits for nothing.
func (s *State) Again() {
	s.view(0, s.Batch.Pos.Cols)
	s.Batch.Pass, s.full.Batch.Pass = s.full.Batch.Pass+1, s.full.Batch.Pass+1
}

// actMul is y = act(gate)·up, or act(gate), in the order of y's reader if there is one and the device likes that.
func (s *State) actMul(y, gate, up tensor.Tensor, a device.Act, reader device.Matrix) {
	if f, ok := s.Dev.(device.Fuser); ok && reader != nil && f.ActMulFor(y, gate, up, a, reader) {
		return
	}
	s.Dev.ActMul(y, gate, up, a)
}

// Lend has a slot be other memory, of as many rows, and the columns that the module has, until the next Use.
func (s *State) Lend(slot Slot, t tensor.Tensor) {
	if own := s.act[slot]; t.Type != own.Type || t.Rows != own.Rows || t.Cols > own.Cols {
		panic(fmt.Sprintf("model: %v lent for %v", t, own))
	}
	s.act[slot] = t
	s.share()
}

// Follow has mixtures of experts choose as another state's last one has, or s's own
// last, or, if it is nil, by themselves.
func (s *State) Follow(other *State) { s.follow = other }

// Routes returns which experts see the rows of the pass.
func (s *State) Routes() device.Routes {
	order, choice := s.At(Order), s.At(Choice)
	return device.Routes{Rows: order.Reshape(1, order.Rows), Experts: choice.Reshape(1, choice.Rows), First: s.At(First), Places: s.At(Places), Weights: s.At(Weights)}
}

// choice returns where a choice of experts goes.
func (s *State) choice() device.Choice {
	return device.Choice{Routes: s.Routes(), Logits: s.At(Scores), Gates: s.At(SharedScores)}
}

// Ranges returns where the rows of each expert begin, and the end. It waits for the
// device.
func (s *State) Ranges() []int32 {
	if s.first == nil {
		t := s.At(First)
		s.first = make([]int32, t.Cols)
		s.Dev.Download(tensor.BytesOf(s.first), t)
	}
	return s.first
}

// fewRows is up to how many rows of a pass all experts are multiplied at once.
const fewRows = 64

// few reports whether they are. A decode step must not wait for the device.
func (s *State) few() bool {
	return s.Batch.Span == 1 || s.At(Residual).Rows <= fewRows || s.Dev.Activation() == tensor.F32
}

// Slice returns a State for rows lo to hi of s, whose logits come first. Only
// modules that work row by row, such as the head, may run on it, or, if all rows are runs by themselves, all.
func (s *State) Slice(lo, hi int) *State {
	part := *s
	part.left = nil
	part.view(lo, hi)
	part.Batch.Span = 1
	return &part
}

// Parts returns States for parts of the rows of s, which are runs by themselves, of so many each: s, if it has no more.
func (s *State) Parts(each int) (list []*State) {
	rows := s.Batch.Pos.Cols
	if rows <= each {
		return []*State{s}
	}
	for lo := 0; lo < rows; lo += each {
		list = append(list, s.Slice(lo, min(lo+each, rows)))
	}
	return list
}

// Run returns a State for rows lo to hi of s, of one run, on which attention may run, too.
func (s *State) Run(lo, hi int) *State {
	part := s.Slice(lo, hi)
	part.Batch.Span = hi - lo
	return part
}

// view sets the tensors of s to rows lo to hi of the whole State.
func (s *State) view(lo, hi int) {
	f := s.full
	for i, t := range f.act {
		switch {
		case t.Nil():
		case Slot(i) == Logits:
			s.act[i] = t.Slice(0, min(hi-lo, t.Rows))
		case Slot(i) == First:
			s.act[i] = t
		default:
			n := t.Rows / f.size.Rows // more than one: rows by the experts that see them
			s.act[i] = t.Slice(n*lo, n*hi)
		}
	}
	s.share()
	if f.IDs.Nil() { // gradients
		return
	}
	s.IDs, s.Batch.Pos, s.Batch.Seq = f.IDs.Columns(lo, hi), f.Batch.Pos.Columns(lo, hi), f.Batch.Seq.Columns(lo, hi)
}

// Free frees the state's memory.
func (s *State) Free() {
	for _, t := range append(s.full.act[:], s.full.IDs, s.full.Batch.Pos, s.full.Batch.Seq) {
		s.Dev.Free(t)
	}
}

func upload(d device.Device, t tensor.Tensor, v []int32) {
	d.Upload(t, tensor.BytesOf(v))
}
