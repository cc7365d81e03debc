package measure

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"exl2/internal/exl2"
	"exl2/internal/ordered"
	"exl2/internal/regular"
)

// maxFile bounds the size of a measurement.json: a model of 126 layers has
// about 10 MB.
const maxFile = 1 << 30

// maxError bounds errors and sensitivities in a file: more is no measurement,
// and sums of their products must stay finite.
const maxError = 1e60

// ReadFile reads a measurement.json.
func ReadFile(name string) (*File, error) {
	data, err := regular.ReadFile(name, maxFile)
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
	if regular.IsPointer(data) {
		return nil, regular.ErrPointer
	}
	var in fileJSON
	if err := regular.Unmarshal(data, &in); err != nil {
		if isOld(data) {
			return nil, errOld
		}
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

// errOld tells what to do instead of giving a measurement that is none of sublayers.
var errOld = errors.New("it has the layout of ExLlamaV2's first files, of 2023, which lack what sublayers lose; leave --measurement out, and the model is measured anew")

// isOld reports whether a file has that layout: a list with the options of each matrix.
func isOld(data []byte) bool {
	var old struct {
		Measurement []struct {
			Key     string            `json:"key"`
			Options []json.RawMessage `json:"options"`
		} `json:"measurement"`
	}
	err := json.Unmarshal(data, &old)
	return err == nil && len(old.Measurement) > 0 && old.Measurement[0].Key != "" && old.Measurement[0].Options != nil
}

// parseSublayer reads a list of options, or the two of a parallel block.
func parseSublayer(data json.RawMessage) (options, mlp []Option, err error) {
	var both struct {
		Attn json.RawMessage `json:"attn"`
		MLP  json.RawMessage `json:"mlp"`
	}
	if !bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		options, err = parseOptionList(data)
		return options, nil, err
	}
	if err := regular.Unmarshal(data, &both); err != nil {
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
	if err := regular.Unmarshal(data, &list); err != nil {
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
	var accuracy *float64
	for _, f := range item {
		raw := f.Value.(json.RawMessage)
		switch f.Name {
		case "accuracy":
			err = regular.Unmarshal(raw, &accuracy)
		case "total_bits":
			err = regular.Unmarshal(raw, &o.Bits)
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
	if accuracy == nil {
		return o, fmt.Errorf("no accuracy")
	}
	o.Accuracy = *accuracy
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
	if err := regular.Unmarshal(data, &p); err != nil {
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
		if slices.ContainsFunc(f.Sublayers[i].Tables, func(other Table) bool { return other.Key == t.Key }) {
			return fmt.Errorf("exl2: %s: has two tables", t.Key)
		}
		f.Sublayers[i].Tables = append(f.Sublayers[i].Tables, t)
	}
	for i := range f.Sublayers {
		f.Sublayers[i].Coverage = o.Coverage[f.Sublayers[i].Key]
	}
	for _, fold := range o.Folds {
		if err := fold.check(); err != nil {
			return fmt.Errorf("exl2: %s: %w", fold.Key, err)
		}
	}
	f.Rotated = o.Rotated
	if len(o.Folds) > 0 {
		f.Folds = o.Folds
	}
	return nil
}

// maxExponent is the most of a fold: more is no measurement, and would overflow.
const maxExponent = 64

// check refuses what cannot be a fold.
func (f Fold) check() error {
	if f.Key == "" || len(f.Channels) == 0 || len(f.Channels) != len(f.Exponents) {
		return fmt.Errorf("fold of %d channels with %d exponents", len(f.Channels), len(f.Exponents))
	}
	last := -1
	for i, c := range f.Channels {
		if e := f.Exponents[i]; c <= last || c >= 1<<24 || e == 0 || e < -maxExponent || e > maxExponent {
			return fmt.Errorf("channel %d divided by two to the power of %d", c, e)
		}
		last = c
	}
	return nil
}

func (j tableJSON) table() (Table, error) {
	t := Table{Key: j.Key, Module: j.Module, In: j.In, Out: j.Out, Group: j.Group, Share: j.Share}
	if strings.HasPrefix(t.Key, t.Module+".") {
		t.Module = ""
	}
	if !(j.Share >= 0 && j.Share <= 1) {
		return t, fmt.Errorf("share %v, want 0 to 1", j.Share)
	}
	if len(j.Candidates) == 0 {
		return t, fmt.Errorf("no candidates")
	}
	var err error
	if t.Sensitivity, err = measured("sensitivity", j.Sensitivity); err != nil {
		return t, err
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
		lost, err := measured("error", c.Error)
		if err == nil {
			_, err = measured("divergence", &c.Divergence)
		}
		if err != nil {
			return t, fmt.Errorf("%s: %w", c.Mix, err)
		}
		t.Candidates = append(t.Candidates, Candidate{r.String(), c.Bits, lost, c.Divergence})
	}
	return t, nil
}

// measured returns what was measured, and refuses what cannot have been.
func measured(name string, v *float64) (float64, error) {
	if v == nil {
		return 0, fmt.Errorf("no %s", name)
	}
	if !(*v >= 0 && *v <= maxError) {
		return 0, fmt.Errorf("%s %v, want 0 to %v", name, *v, maxError)
	}
	return *v, nil
}
