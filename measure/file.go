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
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"exl2/internal/exl2"
	"exl2/internal/ordered"
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

// A Candidate is one way to store a matrix.
type Candidate struct {
	Recipe string
	Bits   int
	Error  float64 // squared error of the outputs over the outputs' square
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
}

// fileJSON is the file's layout.
type fileJSON struct {
	Measurement ordered.Object `json:"measurement"`
	LastModule  int            `json:"last_module_idx"`
	Ours        *oursFmt       `json:"exl2,omitempty"`
}

type oursFmt struct {
	Version  int              `json:"version"`
	Tables   []tableJSON      `json:"tables"`
	Coverage map[string][]int `json:"coverage,omitempty"` // by sublayer
}

// parallelJSON is the options of a parallel block.
type parallelJSON struct {
	Attention []ordered.Object `json:"attn"`
	MLP       []ordered.Object `json:"mlp"`
}

type tableJSON struct {
	Key         string          `json:"key"`
	Module      string          `json:"module,omitempty"` // unless Key begins with it
	Group       string          `json:"group,omitempty"`
	Share       float64         `json:"share,omitempty"`
	In          int             `json:"in"`
	Out         int             `json:"out"`
	Sensitivity float64         `json:"sensitivity"`
	Candidates  []candidateJSON `json:"candidates"`
}

type candidateJSON struct {
	Mix   string  `json:"mix"`
	Bits  int     `json:"bits"`
	Error float64 `json:"error"`
}

type paramsJSON struct {
	GroupSize ordered.Object `json:"group_size"`
	Bits      []int          `json:"bits"`
	Shares    []float64      `json:"bits_prop"`
	ScaleBits int            `json:"scale_bits"`
}

// tableVersion counts the layouts of the "exl2" part.
const tableVersion = 1

// Write writes f as JSON.
func (f *File) Write(w io.Writer) error {
	out := fileJSON{LastModule: f.LastModule}
	ours := &oursFmt{Version: tableVersion}
	for _, h := range f.Sublayers {
		options, err := h.options()
		if err != nil {
			return fmt.Errorf("%s: %w", h.Key, err)
		}
		out.Measurement = append(out.Measurement, ordered.Field{Name: h.Key, Value: options})
		for _, t := range h.Tables {
			ours.Tables = append(ours.Tables, t.json())
		}
		if h.Coverage != nil {
			if ours.Coverage == nil {
				ours.Coverage = map[string][]int{}
			}
			ours.Coverage[h.Key] = h.Coverage
		}
	}
	if len(ours.Tables) > 0 || ours.Coverage != nil {
		out.Ours = ours
	}
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(out)
}

// options returns what a file has of the sublayer's options, nil if there are none.
func (h Sublayer) options() (any, error) {
	if h.Options == nil {
		return nil, nil
	}
	list, err := optionsJSON(h.Options)
	if h.MLP == nil || err != nil {
		return list, err
	}
	mlp, err := optionsJSON(h.MLP)
	return parallelJSON{list, mlp}, err
}

func optionsJSON(options []Option) ([]ordered.Object, error) {
	var list []ordered.Object
	for _, o := range options {
		item := ordered.Object{{Name: "accuracy", Value: o.Accuracy}, {Name: "total_bits", Value: o.Bits}}
		for _, named := range o.Recipes {
			r, err := exl2.ParseRecipe(named.Recipe)
			if err != nil {
				return nil, err
			}
			item = append(item, ordered.Field{Name: named.Name, Value: params(r)})
		}
		list = append(list, item)
	}
	return list, nil
}

func params(r exl2.Recipe) paramsJSON {
	p := paramsJSON{ScaleBits: 4}
	for _, part := range r {
		p.GroupSize = append(p.GroupSize, ordered.Field{Name: strconv.Itoa(part.Bits), Value: part.Group})
		p.Bits = append(p.Bits, part.Bits)
		p.Shares = append(p.Shares, part.Share)
	}
	return p
}

func (t Table) json() tableJSON {
	j := tableJSON{Key: t.Key, In: t.In, Out: t.Out, Sensitivity: t.Sensitivity, Group: t.Group, Share: t.Share}
	if !strings.HasPrefix(t.Key, t.Module+".") {
		j.Module = t.Module
	}
	for _, c := range t.Candidates {
		j.Candidates = append(j.Candidates, candidateJSON{c.Recipe, c.Bits, c.Error})
	}
	return j
}

// maxFile bounds the size of a measurement.json: a model of 126 layers has
// about 10 MB.
const maxFile = 1 << 30

// maxError bounds errors and sensitivities in a file: more is no measurement,
// and sums of their products must stay finite.
const maxError = 1e60

// ReadFile reads a measurement.json.
func ReadFile(name string) (*File, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("measurement: %w", err)
	}
	if info.Size() > maxFile {
		return nil, fmt.Errorf("measurement %s: %d bytes, want at most %d", name, info.Size(), maxFile)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("measurement: %w", err)
	}
	f, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("measurement %s: %w", name, err)
	}
	return f, nil
}

// Parse reads a measurement.json, ours or ExLlamaV2's.
func Parse(data []byte) (*File, error) {
	var in struct {
		Measurement ordered.Object `json:"measurement"`
		LastModule  int            `json:"last_module_idx"`
		Ours        *oursFmt       `json:"exl2"`
	}
	if err := json.Unmarshal(data, &in); err != nil {
		return nil, err
	}
	if in.Measurement == nil {
		return nil, fmt.Errorf(`no object "measurement"`)
	}
	f := &File{LastModule: in.LastModule}
	for _, m := range in.Measurement {
		h := Sublayer{Key: m.Name}
		var err error
		if h.Options, h.MLP, err = parseSublayer(m.Value.(json.RawMessage)); err != nil {
			return nil, fmt.Errorf("%s: %w", m.Name, err)
		}
		f.Sublayers = append(f.Sublayers, h)
	}
	if in.Ours == nil {
		return f, nil
	}
	return f, f.addTables(in.Ours)
}

// parseSublayer reads a list of options, or the two of a parallel block.
func parseSublayer(data json.RawMessage) (options, mlp []Option, err error) {
	var both struct{ Attn, MLP json.RawMessage }
	if !bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		options, err = parseOptionList(data)
		return options, nil, err
	}
	if err := json.Unmarshal(data, &both); err != nil {
		return nil, nil, err
	}
	if options, err = parseOptionList(both.Attn); err == nil {
		mlp, err = parseOptionList(both.MLP)
	}
	if err == nil && (len(options) == 0 || len(mlp) == 0) {
		err = fmt.Errorf("a parallel block needs options in attn and in mlp")
	}
	return options, mlp, err
}

func parseOptionList(data json.RawMessage) ([]Option, error) {
	var list []ordered.Object
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, err
	}
	var options []Option
	for i, item := range list {
		o, err := parseOption(item)
		if err != nil {
			return nil, fmt.Errorf("option %d: %w", i, err)
		}
		options = append(options, o)
	}
	return options, nil
}

func parseOption(item ordered.Object) (o Option, err error) {
	for _, f := range item {
		raw := f.Value.(json.RawMessage)
		switch f.Name {
		case "accuracy":
			err = json.Unmarshal(raw, &o.Accuracy)
		case "total_bits":
			err = json.Unmarshal(raw, &o.Bits)
		default:
			var r exl2.Recipe
			r, err = parseParams(raw)
			o.Recipes = append(o.Recipes, NamedRecipe{f.Name, r.String()})
		}
		if err != nil {
			return o, fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	if len(o.Recipes) == 0 {
		return o, fmt.Errorf("no matrices")
	}
	if o.Bits <= 0 || !(o.Accuracy <= 1 && o.Accuracy >= 1-maxError) {
		return o, fmt.Errorf("total_bits %d and accuracy %v, want a positive number and one up to 1", o.Bits, o.Accuracy)
	}
	return o, nil
}

func parseParams(data json.RawMessage) (exl2.Recipe, error) {
	var p struct {
		GroupSize map[string]int `json:"group_size"`
		Bits      []int          `json:"bits"`
		Shares    []float64      `json:"bits_prop"`
		ScaleBits int            `json:"scale_bits"`
	}
	if err := json.Unmarshal(data, &p); err != nil {
		return nil, err
	}
	if len(p.Bits) != len(p.Shares) {
		return nil, fmt.Errorf("%d bits and %d bits_prop", len(p.Bits), len(p.Shares))
	}
	if p.ScaleBits != 4 {
		return nil, fmt.Errorf("scale_bits %d, want 4", p.ScaleBits)
	}
	var r exl2.Recipe
	for i, bits := range p.Bits {
		r = append(r, exl2.Part{Bits: bits, Group: p.GroupSize[strconv.Itoa(bits)], Share: p.Shares[i]})
	}
	return r, r.Check()
}

// addTables attaches our tables to the sublayers whose keys they extend.
func (f *File) addTables(o *oursFmt) error {
	if o.Version != tableVersion {
		return fmt.Errorf("exl2: version %d, want %d", o.Version, tableVersion)
	}
	for _, j := range o.Tables {
		t, err := j.table()
		if err != nil {
			return fmt.Errorf("exl2: %s: %w", j.Key, err)
		}
		i := slices.IndexFunc(f.Sublayers, func(h Sublayer) bool {
			if t.Module != "" {
				return t.Module == h.Key
			}
			return strings.HasPrefix(t.Key, h.Key+".")
		})
		if i < 0 {
			return fmt.Errorf("exl2: %s: belongs to no sublayer", t.Key)
		}
		f.Sublayers[i].Tables = append(f.Sublayers[i].Tables, t)
	}
	for i := range f.Sublayers {
		f.Sublayers[i].Coverage = o.Coverage[f.Sublayers[i].Key]
	}
	return nil
}

func (j tableJSON) table() (Table, error) {
	t := Table{Key: j.Key, Module: j.Module, In: j.In, Out: j.Out, Sensitivity: j.Sensitivity, Group: j.Group, Share: j.Share}
	if strings.HasPrefix(t.Key, t.Module+".") {
		t.Module = ""
	}
	if !(j.Share >= 0 && j.Share <= 1) {
		return t, fmt.Errorf("share %v, want 0 to 1", j.Share)
	}
	if len(j.Candidates) == 0 {
		return t, fmt.Errorf("no candidates")
	}
	if !(j.Sensitivity >= 0 && j.Sensitivity <= maxError) {
		return t, fmt.Errorf("sensitivity %v", j.Sensitivity)
	}
	if t.In <= 0 || t.In%exl2.Align != 0 || t.In > 1<<16 || t.Out <= 0 || t.Out > 1<<24 {
		return t, fmt.Errorf("shape %d x %d", t.In, t.Out)
	}
	for _, c := range j.Candidates {
		r, err := exl2.ParseRecipe(c.Mix)
		if err != nil {
			return t, err
		}
		if want := r.Size(t.In, t.Out); c.Bits != want {
			return t, fmt.Errorf("%s: %d bits, want %d", c.Mix, c.Bits, want)
		}
		if !(c.Error >= 0 && c.Error <= maxError) {
			return t, fmt.Errorf("%s: error %v", c.Mix, c.Error)
		}
		t.Candidates = append(t.Candidates, Candidate{r.String(), c.Bits, c.Error})
	}
	return t, nil
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
