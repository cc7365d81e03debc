package convert

import (
	"fmt"

	"exl2/internal/exl2"
	"exl2/internal/model"
	"exl2/measure"
)

// headWeight is by how much the head's costs exceed those of matrices of the decoder
// that were measured as large: these are measured without drift, residual and
// descent, which take a quarter off (docs/algorithm.md).
const headWeight = 1.3

// headClass makes a class of the head's table. A measurement that has none leaves no
// choice.
func (s *source) headClass(f *measure.File) (c class, known bool, err error) {
	spec := s.loader.Head().Linears[0]
	for _, h := range f.Sublayers {
		for _, t := range h.Tables {
			if t.Key != spec.Name {
				continue
			}
			c, err := headChoices(t, spec)
			if err != nil {
				return c, false, fmt.Errorf("%s: %w", t.Key, err)
			}
			return c, true, nil
		}
	}
	return class{choices: []measure.Choice{{Bits: headRecipes[usualHead].Size(spec.In, spec.Out)}}}, false, nil
}

// headChoices makes a class of the head's candidates.
func headChoices(t measure.Table, head model.LinearSpec) (c class, err error) {
	if t.In != head.In || t.Out != head.Out {
		return c, fmt.Errorf("%d x %d, want %d x %d: it is another model's", t.In, t.Out, head.In, head.Out)
	}
	c.keys = []string{head.Name}
	for _, o := range t.Candidates {
		c.choices = append(c.choices, measure.Choice{Bits: o.Bits, Cost: headWeight * t.Cost(o)})
		c.recipes = append(c.recipes, []string{o.Recipe})
	}
	return c, nil
}

// setHead gives the head a choice.
func (p *plan) setHead(m *offers, choice int) error {
	p.HeadBits = usualHead
	if !m.headKnown {
		return nil
	}
	text := m.head.recipes[choice][0]
	r, err := exl2.ParseRecipe(text)
	if err != nil {
		return err
	}
	p.HeadBits = r[len(r)-1].Bits
	p.Recipes[m.head.keys[0]] = text
	return nil
}

// head returns the recipe of the head.
func (p *plan) head(key string) (exl2.Recipe, error) {
	if p.Recipes[key] == "" {
		return headRecipes[p.HeadBits], nil
	}
	return p.recipe(key)
}
