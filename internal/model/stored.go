package model

import (
	"fmt"
	"maps"
	"slices"

	"exl2/internal/affine"
	"exl2/internal/arch"
	"exl2/internal/exl2"
	"exl2/internal/parallel"
	"exl2/internal/prequant"
	"exl2/internal/safetensors"
)

// unfused shows files in which a tensor may hold several matrices (arch.Stored)
// as if each had its own, by the names of arch.Names. A file that has them apart
// is shown as it is.
type unfused struct {
	files Files
	parts map[string]part // by the name that is shown
	names []string

	held   parallel.Memo[safetensors.Tensor] // of files, that parts were taken from
	packed parallel.Memo[*affine.Matrix]     // likewise
}

// A part is a matrix, or a bias, in a tensor that holds several.
type part struct {
	arch.Stored
	whole   string // the tensor
	index   int    // in Holds
	first   int    // output of the tensor, in blocks
	out, in int    // in 0: a bias
	all     int    // outputs that the tensor holds, of one expert
	expert  int
	experts int

	headDim, group int // heads of queries that share keys
}

func newUnfused(s arch.Spec, layout []ModuleSpec, f Files) *unfused {
	u := &unfused{files: f, parts: map[string]part{}}
	for _, m := range layout {
		linears := m.Matrices()
		outs := map[expertPart]int{}
		for _, l := range linears {
			outs[expertPart{l.Part, l.Expert}] = l.Out
		}
		for _, l := range linears {
			for _, t := range s.Stored {
				if i := slices.Index(t.Holds, l.Part); i >= 0 {
					u.add(s, m.Layer, l, placed{t, i, outs})
				}
			}
		}
	}
	u.addTable(s)
	hidden := map[string]bool{}
	for _, p := range u.parts {
		hidden[p.whole] = true
	}
	for _, name := range f.Names() {
		if !hidden[name] {
			u.names = append(u.names, name)
		}
	}
	u.names = append(u.names, slices.Collect(maps.Keys(u.parts))...)
	slices.Sort(u.names)
	return u
}

// An expertPart is a linear of a module, by what Names calls it and whose it is.
type expertPart struct {
	part   string
	expert int
}

// A placed linear is the ith of a tensor; outs are the outputs of its module's linears.
type placed struct {
	arch.Stored
	i    int
	outs map[expertPart]int
}

// add shows a linear that is in a tensor with others, if the files have that.
func (u *unfused) add(s arch.Spec, layer int, l LinearSpec, t placed) {
	a := s.AttnOf(layer)
	p := part{Stored: t.Stored, index: t.i, out: l.Out, in: l.In, expert: l.Expert, experts: s.MoE.Experts, headDim: a.HeadDim, group: a.Heads / a.KVHeads}
	for k, other := range t.Holds {
		out := t.outs[expertPart{other, l.Expert}]
		if k < t.i {
			p.first += out
		}
		p.all += out
	}
	show := func(name, tensor string) {
		p.whole = s.Names.Layer(layer, arch.Expert(tensor, l.Expert))
		if f, ok := u.files.(*prequant.Files); ok && f.Decoded(p.whole) {
			p.Transposed = false
		}
		if info, _ := u.files.Info(p.whole); p.written(info.Shape) {
			p.Transposed = false
		}
		if u.files.Has(p.whole) && !(name == p.whole && p.plain()) {
			u.parts[name] = p
		}
	}
	show(l.Name+".weight", t.Weight)
	if t.Bias != "" {
		p.in = 0
		show(l.Name+".bias", t.Bias)
	}
}

// addTable shows the embedding's table, if the files have it under the name of the
// head that is tied to it, or as a tensor of another name.
func (u *unfused) addTable(s arch.Spec) {
	name, head := s.Names.Embed+".weight", s.Names.Head+".weight"
	if u.files.Has(name) {
		return
	}
	for whole, may := range map[string]bool{head: s.Tied, s.Table: s.Table != ""} {
		if may && u.files.Has(whole) {
			u.parts[name] = part{Stored: arch.Stored{Weight: whole, Holds: []string{s.Names.Embed}}, whole: whole, out: s.Vocab, all: s.Vocab, in: s.TableWidth()}
		}
	}
}

// written reports whether a matrix that should be transposed has the shape that it has without that, as in
// what the program writes.
func (p part) written(shape []int) bool {
	return p.Transposed && len(p.Holds) == 1 && !p.Stacked && !p.Flat && p.in > 0 && p.in != p.all && slices.Equal(shape, []int{p.all, p.in})
}

// plain reports whether the tensor is the matrix, or the bias, as it should be.
func (p part) plain() bool {
	return len(p.Holds) == 1 && !p.Stacked && !p.Flat && (p.in == 0 || !p.Transposed)
}

// shape is what the whole tensor should have.
func (p part) shape() []int {
	shape := []int{p.all}
	switch {
	case p.in > 0 && p.Transposed:
		shape = []int{p.in, p.all}
	case p.in > 0:
		shape = []int{p.all, p.in}
	}
	switch {
	case p.Stacked:
		return append([]int{p.experts}, shape...)
	case p.Flat:
		shape[0] *= p.experts
	}
	return shape
}

// Info returns what a tensor's header says, or would.
func (u *unfused) Info(name string) (safetensors.Info, bool) {
	p, ok := u.parts[name]
	if !ok {
		return u.files.Info(name)
	}
	info, ok := u.files.Info(p.whole)
	info.Name, info.Shape = name, []int{p.out, p.in}
	if p.in == 0 {
		info.Shape = []int{p.out}
	}
	return info, ok
}

// Names returns the names of the tensors, sorted.
func (u *unfused) Names() []string { return slices.Clone(u.names) }

// Has reports whether there is a tensor.
func (u *unfused) Has(name string) bool {
	_, ok := u.parts[name]
	return ok || u.files.Has(name)
}

// Get returns a tensor.
func (u *unfused) Get(name string) (safetensors.Tensor, error) {
	p, ok := u.parts[name]
	if !ok {
		return u.files.Get(name)
	}
	info, _ := u.Info(name)
	if f, ok := u.files.(*prequant.Files); ok && p.Stacked {
		if one, ok, err := f.Expert(p.whole, p.expert); ok || err != nil {
			return p.alone(info, one, err)
		}
	}
	whole, err := u.held.Get(p.whole, u.files.Get)
	if err != nil {
		return safetensors.Tensor{}, err
	}
	data, err := p.take(whole)
	return safetensors.Tensor{Info: info, Data: data}, err
}

// alone takes the part from a tensor of its expert alone.
func (p part) alone(info safetensors.Info, one safetensors.Tensor, err error) (safetensors.Tensor, error) {
	if err != nil {
		return one, err
	}
	p.Stacked = false
	data, err := p.take(one)
	return safetensors.Tensor{Info: info, Data: data}, err
}

// forget drops what is kept: all parts of a tensor are of one module.
func (u *unfused) forget() {
	u.held.Clear()
	u.packed.Clear()
	if f, ok := u.files.(*prequant.Files); ok {
		f.Forget()
	}
}

// take returns the part's elements.
func (p part) take(t safetensors.Tensor) ([]byte, error) {
	if want := p.shape(); !slices.Equal(t.Shape, want) && !(p.in == 0 && p.plain() && slices.Equal(t.Shape, []int{exl2.Pad(p.all)})) {
		return nil, fmt.Errorf("%s: shape %v, want %v", t.Name, t.Shape, want)
	}
	width, data := max(p.in, 1), t.Data
	elements := p.all * width // of the expert
	if p.Stacked || p.Flat {
		size := len(data) / p.experts
		data = data[p.expert*size : (p.expert+1)*size]
	}
	size := len(data) / elements
	if p.Transposed && p.in > 0 {
		return p.transposed(data, size), nil
	}
	row := width * size
	if p.Order == arch.Blocks || len(p.Holds) == 1 {
		return data[p.first*row : (p.first+p.out)*row], nil
	}
	out := make([]byte, 0, p.out*row)
	for i := range p.out {
		at := p.output(i)
		out = append(out, data[at*row:(at+1)*row]...)
	}
	return out, nil
}

// transposed returns the part's columns of data, [in, all], as rows; elements
// have the given size.
func (p part) transposed(data []byte, size int) []byte {
	out := make([]byte, p.out*p.in*size)
	for o := range p.out {
		at := p.output(o)
		for i := range p.in {
			copy(out[(o*p.in+i)*size:(o*p.in+i+1)*size], data[(i*p.all+at)*size:])
		}
	}
	return out
}

// output returns which of the tensor's outputs is the part's ith.
func (p part) output(i int) int {
	switch p.Order {
	case arch.Alternating:
		return i*len(p.Holds) + p.index
	case arch.ByGroup:
		share := p.out / p.Groups
		return i/share*(p.all/p.Groups) + p.first/p.Groups + i%share
	case arch.ByHead:
		head, at := i/p.headDim, i%p.headDim
		if p.index == 0 { // queries
			return (head/p.group*(p.group+2)+head%p.group)*p.headDim + at
		}
		return (head*(p.group+2)+p.group+p.index-1)*p.headDim + at
	}
	return p.first + i
}
