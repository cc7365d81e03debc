package convert

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"exl2/internal/arch"
	"exl2/internal/exl2"
	"exl2/internal/model"
	"exl2/internal/sensitivity"
	"exl2/measure"
)

// A plan is the recipe of every matrix of the decoder, and the head's: what its width
// stands for, or a recipe that was chosen, of which the width is the smallest one.
type plan struct {
	Bits     int               `json:"bits"` // of the decoder's matrices
	HeadBits int               `json:"head_bits"`
	Recipes  map[string]string `json:"recipes"`
}

// recipe returns the recipe of a matrix.
func (p *plan) recipe(key string) (exl2.Recipe, error) {
	text, ok := p.Recipes[key]
	if !ok {
		return nil, fmt.Errorf("plan: no recipe for %s; --restart begins again", key)
	}
	return exl2.ParseRecipe(text)
}

// A class is something that one choice is to be made for: a matrix, or a
// sublayer if only ExLlamaV2's options were measured.
type class struct {
	keys    []string
	choices []measure.Choice
	recipes [][]string // by choice, one for each key
}

// offers is what a measurement has to choose from.
type offers struct {
	decoder   []class
	head      class
	headKnown bool // head has choices
	folding   folding
}

// optionPower is the power of an option's relative error that is minimized: a
// relative error enters the model's divergence squared.
const optionPower = 2

// classes turns a measurement into classes; sizes are computed anew for the
// source's shapes.
func (s *source) classes(f *measure.File) ([]class, error) {
	if err := s.checkLast(f.LastModule); err != nil {
		return nil, err
	}
	blocks := map[string]measure.Sublayer{}
	tables := map[string]measure.Table{}
	for _, h := range f.Sublayers {
		known := slices.ContainsFunc(s.loader.Decoder(), func(m model.ModuleSpec) bool { return m.Name == h.Key })
		if len(h.Options) > 0 && !known {
			return nil, fmt.Errorf("%s is not in the model: it is another model's", h.Key)
		}
		blocks[h.Key] = h
		for _, t := range h.Tables {
			tables[t.Key] = t
		}
	}
	var list []class
	for _, m := range s.loader.Decoder() {
		if len(m.Packable()) == 0 {
			continue
		}
		c, err := tableClasses(m.Packable(), tables)
		if h := blocks[m.Name]; err == nil && (c == nil || len(h.Options) > 0) {
			var other []class // what it has beside tables is of this model, too
			if other, err = optionClasses(m, h); c == nil {
				c = other
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.Name, err)
		}
		list = append(list, c...)
	}
	return list, nil
}

// checkLast refuses a measurement whose head, if it says so, has another place than the
// source's. ExLlamaV2 has a module for a table of positions, and this program has none.
func (s *source) checkLast(last int) error {
	want := len(s.loader.Layout)
	if last == 0 || last == want || last == want+1 && s.loader.Spec.Learned > 0 {
		return nil
	}
	return fmt.Errorf("last_module_idx is %d there, %d in the model: it is another model's", last, want)
}

// tableClasses makes a class of every matrix's table, or none if the file has
// no tables for the sublayer.
func tableClasses(shapes []model.LinearSpec, tables map[string]measure.Table) ([]class, error) {
	var list []class
	for _, m := range shapes {
		t, ok := tables[m.Name]
		if !ok {
			if len(list) > 0 {
				return nil, fmt.Errorf("%s has no table, matrices before it have", m.Name)
			}
			continue
		}
		if len(list) == 0 && m != shapes[0] {
			return nil, fmt.Errorf("%s has a table, matrices before it have none", m.Name)
		}
		if t.In != m.In || t.Out != m.Out {
			return nil, fmt.Errorf("%s is %d x %d there, %d x %d in the model: it is another model's", m.Name, t.In, t.Out, m.In, m.Out)
		}
		c := class{keys: []string{m.Name}}
		for _, o := range t.Candidates {
			c.choices = append(c.choices, measure.Choice{Bits: o.Bits, Cost: t.Cost(o)})
			c.recipes = append(c.recipes, []string{o.Recipe})
		}
		list = append(list, c)
	}
	return list, nil
}

// optionClasses makes one class of a sublayer's options, two of a parallel
// block's.
func optionClasses(m model.ModuleSpec, h measure.Sublayer) ([]class, error) {
	if m.Kind != model.Parallel {
		c, err := optionClass(m.Kind, m.Packable(), h.Options)
		return []class{c}, err
	}
	linears := m.Packable()
	i := slices.IndexFunc(linears, func(l model.LinearSpec) bool { return l.Role == arch.O }) + 1
	attention, err := optionClass(m.Kind, linears[:i], h.Options)
	if err != nil {
		return nil, err
	}
	mlp, err := optionClass(m.Kind, linears[i:], h.MLP)
	return []class{attention, mlp}, err
}

// optionClass makes one class of the options of some matrices.
func optionClass(kind model.Kind, shapes []model.LinearSpec, options []measure.Option) (class, error) {
	if len(options) == 0 {
		return class{}, errors.New("no options: it is another model's")
	}
	var c class
	for _, m := range shapes {
		c.keys = append(c.keys, m.Name)
	}
	for i, o := range options {
		if name := strange(kind, shapes, o); name != "" {
			return class{}, fmt.Errorf("option %d has %s, which the model has not: it is another model's", i, name)
		}
		choice := measure.Choice{Cost: math.Pow(1-o.Accuracy, optionPower)}
		var recipes []string
		for _, m := range shapes {
			text, ok := o.Recipe(sensitivity.OptionName(kind, m))
			if !ok {
				return class{}, fmt.Errorf("options lack %s: it is another model's", m.Name)
			}
			r, err := exl2.ParseRecipe(text)
			if err != nil {
				return class{}, err
			}
			choice.Bits += r.Size(m.In, m.Out)
			recipes = append(recipes, text)
		}
		if !slices.Contains(totals(shapes, choice.Bits), o.Bits) {
			return class{}, fmt.Errorf("option %d has %d bits there, %d in the model: it is another model's", i, o.Bits, choice.Bits)
		}
		c.choices = append(c.choices, choice)
		c.recipes = append(c.recipes, recipes)
	}
	return c, nil
}

// strange returns the name of a matrix of an option that is none of some, or "".
func strange(kind model.Kind, shapes []model.LinearSpec, o measure.Option) string {
	for _, r := range o.Recipes {
		if !slices.ContainsFunc(shapes, func(m model.LinearSpec) bool { return sensitivity.OptionName(kind, m) == r.Name }) {
			return r.Name
		}
	}
	return ""
}

// totals returns what an option's total_bits may be for matrices that take so many bits:
// with their biases, as ExLlamaV2 counts them. Before February 2024 it left biases out
// (its commit cedeb61), and before January 30 of that year the permutations (2cc9710).
func totals(shapes []model.LinearSpec, bits int) []int {
	biases, permutations := 0, 0
	for _, m := range shapes {
		permutations += 32 * m.In
		if m.Biased {
			biases += 16 * exl2.Pad(m.Out)
		}
	}
	return []int{bits + biases, bits, bits - permutations}
}

// solve chooses within the budget of a target. With a class for the head, that has
// to do for both.
func (s *source) solve(m *offers, t Target, head HeadBits) (*plan, error) {
	budget, classes := s.budget(t.Bits), m.decoder
	choices := make([][]measure.Choice, len(classes))
	for i, c := range classes {
		choices[i] = c.choices
	}
	if head == AutoHead {
		spec := s.loader.Head().Linears[0]
		budget += headRecipes[usualHead].Size(spec.In, spec.Out)
		choices = append(choices, m.head.choices)
	}
	pick, err := measure.Allocate(choices, budget)
	if err != nil {
		return nil, err
	}
	p := &plan{Recipes: map[string]string{}, HeadBits: int(head)}
	if head == AutoHead {
		if err := p.setHead(m, pick[len(classes)]); err != nil {
			return nil, err
		}
	}
	for i, c := range classes {
		p.Bits += c.choices[pick[i]].Bits
		for k, key := range c.keys {
			p.Recipes[key] = c.recipes[pick[i]][k]
		}
	}
	return p, nil
}

// budget returns the bits that all matrices may take at a mean of bpw. A little
// is held back for the entries that their tensors have in the file's header, so
// that a file is no larger than ExLlamaV2's, whose coarser options leave up to
// 0.17 % of the target unspent (docs/benchmarks.md).
func (s *source) budget(bpw float64) int {
	bits := int(math.Floor(bpw * float64(s.weights())))
	return bits - min(8*s.headerBytes(), bits/500)
}

// headerEntry is the length of a tensor's entry in a safetensors header, but
// for its key: type, shape, offsets, quotes, and the suffix of the name.
const headerEntry = 90

// headerBytes estimates the entries of all matrices, five tensors each.
func (s *source) headerBytes() int {
	n := 0
	for _, m := range s.shapes {
		n += 5 * (len(m.Name) + headerEntry)
	}
	return n
}

// reachable refuses targets that no choice can meet, and names the range of
// those that it does not, to three digits.
func (s *source) reachable(lo, hi int, targets []Target) error {
	least := s.least(lo)
	most := max(math.Ceil(float64(hi)/float64(s.weights())*100)/100, least)
	for _, t := range targets {
		if s.budget(t.Bits) >= lo && t.Bits <= most {
			continue
		}
		can := fmt.Sprintf("%.3f to %.3f", least, most)
		if least == most {
			can = fmt.Sprintf("%.3f only", least)
		}
		return fmt.Errorf("%w: %s bits per weight are out of reach: this model can have %s", ErrRefused, t.Text, can)
	}
	return nil
}

// least returns the least target, in thousandths of a bit, whose budget holds lo
// bits.
func (s *source) least(lo int) float64 {
	bpw := func(thousandths int) float64 { return float64(thousandths) / 1000 }
	at := int(float64(lo) / float64(s.weights()) * 1000)
	for s.budget(bpw(at)) < lo {
		at++
	}
	return bpw(at)
}

// limits returns the fewest and the most bits that the classes can take.
func limits(classes []class) (lo, hi int) {
	for _, c := range classes {
		least, most := c.choices[0].Bits, c.choices[0].Bits
		for _, o := range c.choices {
			least, most = min(least, o.Bits), max(most, o.Bits)
		}
		lo, hi = lo+least, hi+most
	}
	return lo, hi
}

// unmeasured returns classes with sizes only, for what measuring would offer.
func (s *source) unmeasured() []class {
	var list []class
	for _, m := range s.shapes {
		c := class{keys: []string{m.Name}}
		for _, r := range sensitivity.Recipes(m.Role) {
			c.choices = append(c.choices, measure.Choice{Bits: r.Size(m.In, m.Out)})
		}
		list = append(list, c)
	}
	return list
}
