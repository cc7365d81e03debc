package measure

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"exl2/internal/exl2"
	"exl2/internal/ordered"
)

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
	Folds    []Fold           `json:"folds,omitempty"`
	Rotated  bool             `json:"rotated,omitempty"`
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
	Sensitivity *float64        `json:"sensitivity"`
	Candidates  []candidateJSON `json:"candidates"`
}

type candidateJSON struct {
	Mix   string   `json:"mix"`
	Bits  int      `json:"bits"`
	Error *float64 `json:"error"`

	Divergence float64 `json:"divergence,omitempty"`
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
	ours := &oursFmt{Version: tableVersion, Folds: f.Folds, Rotated: f.Rotated}
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
	if len(ours.Tables) > 0 || ours.Coverage != nil || ours.Folds != nil || ours.Rotated {
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
	j := tableJSON{Key: t.Key, In: t.In, Out: t.Out, Sensitivity: &t.Sensitivity, Group: t.Group, Share: t.Share}
	if !strings.HasPrefix(t.Key, t.Module+".") {
		j.Module = t.Module
	}
	for _, c := range t.Candidates {
		j.Candidates = append(j.Candidates, candidateJSON{c.Recipe, c.Bits, &c.Error, c.Divergence})
	}
	return j
}
