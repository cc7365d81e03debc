package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"exl2/calib"
	"exl2/convert"
	"exl2/infer/tokenizer"
	"exl2/internal/arch"
	"exl2/internal/regular"
)

// textRows cuts the text into rows of tokens, which must be the same for all
// models: perplexities and divergences compare over equal tokens only. A model
// but the first may lack a tokenizer.
func (o *pplOptions) textRows(ctx context.Context, a *app, dirs []string) ([][]int32, error) {
	source, err := regular.Await(ctx, func() (*calib.Source, error) { return calib.Open(o.file, o.column) }) // once: it may be a pipe
	if err != nil {
		return nil, err
	}
	defer source.Close()
	p, err := a.follow()
	if err != nil {
		return nil, err
	}
	p.Note(source.Describe())
	rows, err := o.rowsFor(ctx, source, dirs[0])
	if err != nil {
		return nil, err
	}
	if damage := source.Damage(); damage != "" {
		p.Warn(damage)
	}
	for _, dir := range dirs[1:] {
		other, err := o.rowsFor(ctx, source, dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if !slices.EqualFunc(rows, other, slices.Equal[[]int32]) {
			return nil, fmt.Errorf("%w: models %s and %s read the text as different tokens, so what is measured does not compare; measure them one by one", convert.ErrRefused, dirs[0], dir)
		}
	}
	return rows, nil
}

// rowsFor cuts the text into rows of one model's tokens.
func (o *pplOptions) rowsFor(ctx context.Context, source *calib.Source, dir string) ([][]int32, error) {
	spec, err := arch.ReadSpec(dir)
	if err != nil {
		return nil, err
	}
	cut := calib.Cut{Vocab: spec.Vocab, Rows: o.rows, Length: o.length}
	if !source.HasTokens() || o.bos {
		t, err := tokenizer.Load(dir)
		if err != nil {
			return nil, err
		}
		cut.Tokenizer = t.Plain(ctx)
		if o.bos {
			bos, ok := t.BOS()
			if !ok {
				return nil, fmt.Errorf("--bos: the tokenizer of %s has no token that begins texts", dir)
			}
			if int(bos) >= spec.Vocab {
				return nil, fmt.Errorf("--bos: model %s: %w", dir, beyond(t, bos, spec.Vocab))
			}
			cut.Head = []int32{bos}
		}
	}
	return calib.Joined(source, cut)
}
