package model

import (
	"fmt"

	"exl2/internal/arch"
	"exl2/internal/device"
	"exl2/internal/tensor"
)

// A Slot names an activation of a State.
type Slot uint8

// The activations of a pass. "Chosen" rows are those of the pass, once for every
// expert that sees them, sorted by expert.
const (
	Stream   Slot = iota // what goes from module to module, F32 [rows, Spec.Handed]
	Residual             // the residual stream, the first columns of that, F32 [rows, hidden]
	Normed               // [rows, hidden]
	Query                // [rows, heads·head dim]
	Key                  // [rows, kv heads·head dim]
	Value
	Mixed // what attention gives, [rows, heads·head dim]
	Gate  // [rows, MLP width]
	Up
	Acted     // act(gate)·up
	Out       // what a sublayer adds to the stream, [rows, hidden]
	Positions // learned, F32 [rows, hidden]

	RawKey   // heads of keys as they are, where the cache has more, [rows, kv heads·head dim]
	RawValue // heads of values as they are, where the cache has them wider, [rows, kv heads·value dim]
	Narrow   // what attention gives of such values, [rows, heads·value dim]

	LatentQuery // [rows, query rank]
	RawQuery    // [rows, heads·(dimensions without and with positions)]
	LatentKV    // [rows, rank + dimensions with positions]
	Latent      // of keys and values, normalized, [rows, rank]
	Context     // what latent attention gives, [rows, heads·rank]

	AttnGate // of what attention gives, [rows, heads·head dim]
	Gated    // what attention gives, behind its gate

	DeltaQuery   // of linear attention, [rows, heads of keys·key dim]
	DeltaKey     // likewise
	DeltaValue   // [rows, heads of values·value dim]
	DeltaGate    // likewise
	DeltaRates   // of decay and β, F32 [rows, 2·heads of values], or of decay alone
	DeltaColumns // queries, keys and values behind the convolution, F32 [rows, all columns]
	DeltaMixed   // what it gives, F32 [rows, heads of values·value dim]
	DeltaOut     // that, normalized and behind its gate

	ShortB // of gated convolutions, [rows, hidden]
	ShortC
	ShortX
	ShortOut // what they give

	Scores       // logits of the router, F32 [rows, experts]
	Order        // I32 [chosen, 1]: rows of the pass
	Choice       // I32 [chosen, 1]: their experts
	First        // I32 [1, experts+1]: where in Order the rows of each expert begin
	Places       // I32 [rows, experts a row]: in Order
	Weights      // F32 [rows, experts a row]
	ExpertIn     // [chosen, hidden]
	ExpertGate   // [chosen, expert width]
	ExpertUp     // [chosen, expert width]
	ExpertActed  // [chosen, expert width]
	ExpertOut    // [chosen, hidden], and then SharedOut
	SharedGate   // [rows, width of the shared expert]
	SharedUp     // [rows, width of the shared expert]
	SharedActed  // [rows, width of the shared expert]
	SharedOut    // [rows, hidden]
	SharedScores // logits of its weight, F32 [rows, 1]
	Mixture      // the experts' weighted sum, if it is normalized, or Weighted, F32 [rows, hidden]
	Weighted     // Normed times the weights of experts, where they read that, [rows, hidden]

	Embedded  // rows of the table, where they are not the stream, F32 [rows, width of the table]
	HeadRaw   // of the matrix in front of the head, or what the one behind the embedding reads, [rows, width of the table]
	HeadActed // that, behind its activation function

	ExpertNormed  // what experts read that have a norm of their own, [rows, hidden]
	ExpertScale   // what multiplies the weight of each, F32 [chosen, 1]
	ScaledWeights // F32 [rows, experts a row]
	Together      // the norms of Mixture and of SharedOut, F32 [rows, hidden]

	LayerStream // the stream behind the MLP, [rows, hidden]
	LayerInput  // [rows, columns of a layer's input]
	LayerGate   // likewise
	LayerActed  // likewise
	LayerOut    // what a layer's input adds to the stream, before it is normalized, [rows, hidden]
	LayerInputs // of all layers, [rows, columns of all]

	Logits // F32 [logit rows, vocabulary]
	slots
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

// activations lists what a State of the given size holds.
func activations(spec arch.Spec, z Size, activation tensor.Type) [slots]tensor.Tensor {
	a := spec.Attn
	of := func(t tensor.Type, cols int) tensor.Tensor { return tensor.New(t, z.Rows, cols, nil) }
	queries, keys := spec.Widest()
	wide, narrow, width := of(activation, queries), of(activation, keys), of(activation, spec.MLP.Width)
	hidden := of(activation, spec.Hidden)
	list := [slots]tensor.Tensor{
		Stream: of(tensor.F32, spec.Handed()), Normed: hidden, Query: wide, Key: narrow, Value: narrow, Mixed: wide,
		Gate: width, Up: width, Acted: width, Out: hidden, Logits: tensor.New(tensor.F32, z.Logits, spec.Vocab, nil),
	}
	if n := spec.PerLayer.Size; n > 0 {
		list[LayerInput], list[LayerGate], list[LayerActed] = of(activation, n), of(activation, n), of(activation, n)
		list[LayerStream], list[LayerOut], list[LayerInputs] = hidden, hidden, of(activation, spec.Layers*n)
	}
	if spec.Learned > 0 {
		list[Positions] = of(tensor.F32, spec.Hidden)
	}
	if l := spec.Latent; l.KVRank > 0 {
		dim := l.Rope + l.KVRank
		list[LatentQuery], list[RawQuery], list[LatentKV], list[Latent] = of(activation, l.QRank), wide, of(activation, dim), of(activation, l.KVRank)
		list[Query], list[Key], list[Value] = of(activation, a.Heads*dim), of(activation, dim), tensor.Tensor{}
		list[Context], list[Mixed] = of(activation, a.Heads*l.KVRank), of(activation, a.Heads*l.Value)
	}
	if value := spec.ValueDim(); value != a.HeadDim || spec.KVHeads != nil {
		list[RawKey], list[RawValue], list[Narrow] = narrow, of(activation, a.KVHeads*value), of(activation, a.Heads*value)
	}
	if spec.Names.HeadDense != "" {
		list[HeadRaw] = of(activation, spec.TableWidth())
	}
	if spec.Names.HeadNorm != "" {
		list[HeadActed] = hidden
	}
	if spec.EmbedWidth > 0 {
		list[Embedded] = of(tensor.F32, spec.EmbedWidth)
	}
	if a.Gated {
		list[AttnGate], list[Gated] = wide, wide
	}
	recurrentActivations(&list, spec, of, activation)
	expertActivations(&list, spec, z.Rows, activation)
	if spec.MLP.Ungated {
		list[Gate], list[ExpertGate], list[SharedGate] = tensor.Tensor{}, tensor.Tensor{}, tensor.Tensor{}
	}
	return list
}

// recurrentActivations adds those of linear attention, or of convolutions.
func recurrentActivations(list *[slots]tensor.Tensor, spec arch.Spec, of func(t tensor.Type, cols int) tensor.Tensor, activation tensor.Type) {
	d := spec.Delta
	switch {
	case !spec.Recurrent():
	case spec.Short.Kernel > 0:
		for _, slot := range []Slot{ShortB, ShortC, ShortX, ShortOut} {
			list[slot] = of(activation, spec.Hidden)
		}
	default:
		keys, values, rates := of(activation, d.Keys()), of(activation, d.Values()), 2*d.ValueHeads
		if d.Plain {
			rates = d.ValueHeads
		}
		list[DeltaQuery], list[DeltaKey], list[DeltaValue], list[DeltaGate] = keys, keys, values, values
		list[DeltaColumns] = of(tensor.F32, 2*d.Keys()+d.Values())
		list[DeltaRates], list[DeltaMixed], list[DeltaOut] = of(tensor.F32, rates), of(tensor.F32, d.Values()), values
	}
}

// expertActivations adds those of mixtures of experts, and takes away what layers
// without one would need if there are none.
func expertActivations(list *[slots]tensor.Tensor, spec arch.Spec, rows int, activation tensor.Type) {
	m := spec.MoE
	if m.Experts == 0 {
		return
	}
	of := func(t tensor.Type, cols int) tensor.Tensor { return tensor.New(t, rows, cols, nil) }
	chosen := func(t tensor.Type, cols int) tensor.Tensor { return tensor.New(t, rows*m.TopK, cols, nil) }
	seen := m.TopK // experts that a row sees
	if m.Shared > 0 && !m.Apart {
		seen++
	}
	list[Scores], list[Places], list[Weights] = of(tensor.F32, m.Experts), of(tensor.I32, seen), of(tensor.F32, seen)
	list[Order], list[Choice], list[First] = chosen(tensor.I32, 1), chosen(tensor.I32, 1), tensor.New(tensor.I32, 1, m.Experts+1, nil)
	list[ExpertIn], list[ExpertOut] = chosen(activation, spec.Hidden), tensor.New(activation, rows*seen, spec.Hidden, nil)
	if spec.Names.NormMLPOut != "" || m.Early {
		list[Mixture] = of(tensor.F32, spec.Hidden)
	}
	if m.Early {
		list[Weighted] = of(activation, spec.Hidden)
	}
	for _, slot := range []Slot{ExpertGate, ExpertUp, ExpertActed} {
		list[slot] = chosen(activation, m.Width)
	}
	if m.Shared > 0 {
		for _, slot := range []Slot{SharedGate, SharedUp, SharedActed} {
			list[slot] = of(activation, m.Shared)
		}
	}
	if m.SharedGated {
		list[SharedScores] = of(tensor.F32, 1)
	}
	if m.Apart {
		list[ExpertNormed], list[SharedOut], list[Together] = of(activation, spec.Hidden), of(activation, spec.Hidden), of(tensor.F32, spec.Hidden)
		list[ExpertScale], list[ScaledWeights] = chosen(tensor.F32, 1), of(tensor.F32, seen)
	}
	for layer := range spec.Layers {
		if !spec.Sparse(layer) {
			return
		}
	}
	list[Gate], list[Up], list[Acted] = tensor.Tensor{}, tensor.Tensor{}, tensor.Tensor{}
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

// Bytes returns the device memory that NewState takes for z, with activations
// of the given type.
func Bytes(spec arch.Spec, z Size, activation tensor.Type) int {
	sum := 3 * 4 * z.Rows // ids, positions, sequences
	for _, t := range activations(spec, z, activation) {
		sum += t.Bytes()
	}
	return sum
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
	pos, seq := make([]int32, 0, rows), make([]int32, 0, rows)
	for _, r := range runs {
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
// modules that work row by row, such as the head, may run on it.
func (s *State) Slice(lo, hi int) *State {
	part := *s
	part.left = nil
	part.view(lo, hi)
	part.Batch.Span = 1
	return &part
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
