// Package measure holds what quantizing each part of a model costs, and chooses
// how to spend a budget of bits.
//
// The nouns: a matrix has a [Table] of [Candidate]s, each a recipe with its
// size and its error; the table's sensitivity turns errors into divergence of
// the model's output. A sublayer has ExLlamaV2's [Option]s, one recipe for
// each of its matrices. A [File] holds both; convert.Measure makes it. [Allocate]
// solves for the best choice within a budget.
//
// A recipe says how the rows of a matrix, most important first, are divided among
// bit widths and group sizes: "0.1:4b_128g/0.9:3b_128g".
package measure

import (
	"slices"
	"strings"
)

// An Option is one way to store a sublayer, as ExLlamaV2 measures it.
type Option struct {
	// Accuracy is 1 minus the relative error of the sublayer's output,
	// residual included, averaged over calibration rows.
	Accuracy float64
	Bits     int // of all matrices of the sublayer
	Recipes  []NamedRecipe
}

// A NamedRecipe is the recipe of one matrix; the name is the last part of its
// key, as "q_proj".
type NamedRecipe struct {
	Name   string
	Recipe string
}

// Recipe returns the recipe of the matrix with the given key.
func (o Option) Recipe(key string) (string, bool) {
	for _, r := range o.Recipes {
		if key == r.Name || strings.HasSuffix(key, "."+r.Name) {
			return r.Recipe, true
		}
	}
	return "", false
}

// A Candidate is one way to store a matrix.
type Candidate struct {
	Recipe string
	Bits   int
	Error  float64 // squared error of the outputs over the outputs' square

	// Divergence (KL, nats a token) of the model's output, if this candidate's own was
	// measured.
	Divergence float64
}

// A Table is what was measured of one matrix.
type Table struct {
	Key     string // in the file, without ".weight"
	Module  string // the sublayer's Key; read from a file, empty where Key begins with it
	In, Out int
	// Sensitivity is the divergence (KL, nats a token) of the model's output
	// per unit of Error.
	Sensitivity float64
	Candidates  []Candidate

	// Group is the name of the matrices that experts have in the same place, whose
	// sensitivity is found of all together, and Share the matrix's part in the
	// squares of the group's outputs. Other matrices have neither.
	Group string
	Share float64
}

// VariantKey names the variant of the model that the matrix's sensitivity is found
// with: one in which it alone is quantized, or its group.
func (t Table) VariantKey() string {
	if t.Group != "" {
		return t.Group
	}
	return t.Key
}

// VariantShare is the part of the variant's error that is the matrix's.
func (t Table) VariantShare() float64 {
	if t.Group != "" {
		return t.Share
	}
	return 1
}

// Cost is the divergence that storing the matrix by a candidate causes.
func (t Table) Cost(c Candidate) float64 {
	if c.Divergence > 0 {
		return c.Divergence
	}
	return t.Sensitivity * c.Error
}

// SetSensitivity sets the sensitivity of the matrix, given the divergence of its
// variant per unit of the variant's error.
func (t *Table) SetSensitivity(variant float64) { t.Sensitivity = variant * t.VariantShare() }

// A Sublayer is what was measured of one sublayer; a module that is not
// measured has neither options nor tables.
type Sublayer struct {
	Key      string
	Options  []Option
	MLP      []Option // of a parallel block, whose Options are attention's
	Tables   []Table
	Coverage []int // tokens that each expert has seen, if there are experts
}

// A File is a measurement.json. Its "measurement" and "last_module_idx" are
// ExLlamaV2's, to the byte of their meaning; "exl2" holds the tables beside
// them, which ExLlamaV2 does not look at and its files do not have.
type File struct {
	Sublayers  []Sublayer
	LastModule int // index of the head among embedding, sublayers, norm, head

	// Folds say what was scaled in the model that was measured, and is to be scaled in
	// the one that is quantized; nil if nothing was.
	Folds []Fold

	// Rotated says that its residual stream was rotated, too (docs/algorithm.md).
	Rotated bool
}

// EvenOut gives all matrices of the decoder the sensitivity 1, and says so, if none has any: by
// zeros alone each would be given as few bits as can be.
func (f *File) EvenOut() bool {
	var idle []*Table
	for i := range f.Sublayers {
		for k := range f.Sublayers[i].Tables {
			t := &f.Sublayers[i].Tables[k]
			if t.Sensitivity > 0 {
				return false
			}
			if slices.ContainsFunc(t.Candidates, func(c Candidate) bool { return c.Divergence == 0 && c.Error > 0 }) {
				idle = append(idle, t)
			}
		}
	}
	for _, t := range idle {
		t.Sensitivity = 1
	}
	return len(idle) > 0
}

// A Fold divides channels of what a norm, or a matrix, makes by powers of two; the inputs of the
// matrices that read them are multiplied, so that the model computes what it did.
type Fold struct {
	Key       string `json:"key"`       // of the norm or matrix, without ".weight"
	Channels  []int  `json:"channels"`  // that are scaled, rising
	Exponents []int  `json:"exponents"` // of two, by which they are divided: from -64 to 64, not 0
}
