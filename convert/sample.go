package convert

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"strings"

	"exl2/infer/tokenizer"
	"exl2/internal/sampled"
)

// sample makes the rows that are sampled, unless an earlier run has or nothing is to
// be quantized. A job that begins without goes on without, whatever is free then.
func (r *run) sample() error {
	switch {
	case len(r.unfinished()) == 0:
		return nil
	case r.without != "":
		return r.job.WriteJSON(withoutName, without{r.without})
	case r.synthetic == 0:
		return nil
	case r.tokens.synthetic != nil: // an earlier run wrote them, and may have ended then
		return r.job.Remove(begunFile(syntheticTokens))
	}
	rows, err := r.written(syntheticTokens, r.synthetic, r.opts.Data.Length, calibrationSeed)
	switch short := errors.Is(err, sampled.ErrShort); {
	case short && r.opts.SyntheticRows == AutoRows:
		r.synthetic = 0
		r.progress.Warn(fmt.Sprintf("%v: quantizing goes on without such rows", err))
		return r.job.WriteJSON(withoutName, without{err.Error()})
	case short:
		return fmt.Errorf("%w; --synthetic-rows 0 with --restart, or in another --out-dir, does without", err)
	}
	r.tokens.synthetic = rows
	return err
}

// written returns rows that the source writes: those in a file of the job, or new ones, which it
// then has. While there are only some, begunFile has them.
func (r *run) written(name string, n, length int, seed uint64) ([][]int32, error) {
	rows, err := r.keptRows(name)
	if errors.Is(err, fs.ErrNotExist) {
		if rows, err = r.sampleRows(name, n, length, seed); err == nil {
			err = r.writeTokens(name, rows)
		}
	}
	if err != nil && !errors.Is(err, sampled.ErrShort) {
		return nil, err
	}
	if gone := r.job.Remove(begunFile(name)); gone != nil {
		return nil, gone
	}
	return rows, err
}

// begunFile is the job's file of the first of the rows that another file will have.
func begunFile(name string) string {
	return strings.TrimSuffix(name, ".safetensors") + ".begun.safetensors"
}

// begunRows returns the first of n rows, as far as an earlier run has sampled them.
func (r *run) begunRows(name string, n, length int) ([][]int32, error) {
	if begun, err := r.job.Has(begunFile(name)); err != nil || !begun {
		return nil, err
	}
	rows, err := r.keptRows(begunFile(name))
	if err == nil && (len(rows) >= n || len(rows[0]) != length) {
		err = r.job.Damaged(begunFile(name), fmt.Errorf("%d rows of %d tokens, want fewer than %d of %d", len(rows), len(rows[0]), n, length))
	}
	return rows, err
}

// calibrationSeed is the seed of the rows: "exl2" in ASCII.
const calibrationSeed = 0x65786c32

// sampleRows samples rows from the source for a file, but for those that an earlier run has,
// and keeps those that are done while others are not.
func (r *run) sampleRows(name string, n, length int, seed uint64) ([][]int32, error) {
	begun, err := r.begunRows(name, n, length)
	if err != nil {
		return nil, err
	}
	o := sampled.Options{Rows: n, Length: length, Seed: seed, Kept: begun}
	o.Keep = func(rows [][]int32) error { return r.writeTokens(begunFile(name), rows) }
	if err := r.textEnds(&o); err != nil {
		return nil, err
	}
	defer r.profile.Off("sample text")()
	s, err := sampled.New(r.dev, r.src.loader, r.shelf.load, r.opts.GPUMemory)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	const steps = 20
	r.progress.Start("sample text", steps)
	done, what := 0, fmt.Sprintf("%d rows of %d tokens", n, length)
	for ; done < steps*len(begun)/n; done++ {
		r.progress.Skip(what)
	}
	o.Progress = func(share float64) {
		for ; done < int(share*steps); done++ {
			r.progress.Step(what, "")
		}
	}
	return s.Rows(r.ctx, o)
}

// textEnds sets what texts of the source begin and end with. Without a token that
// begins texts it is the one that ends them, which then stands between them; without
// either, or a tokenizer, any token that is not special. Data that are token ids need no
// tokenizer, so that one that is not known is none.
func (r *run) textEnds(o *sampled.Options) error {
	t, err := tokenizer.Load(r.src.dir)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			r.progress.Warn(fmt.Sprintf("%v: texts that the model writes begin with any of its tokens, and do not end", err))
		}
		vocab := int32(r.src.loader.Spec.Vocab)
		o.Start, o.Special = func(x *rand.Rand) int32 { return x.Int32N(vocab) }, func(int32) bool { return false }
		return nil
	}
	known := int32(min(t.VocabSize(), r.src.loader.Spec.Vocab))
	if known == 0 {
		return fmt.Errorf("%s: the tokenizer has no tokens to begin a text with; give --synthetic-rows 0", r.src.dir)
	}
	o.Vocab, o.Special = int(known), t.Special
	o.Unused = func(id int32) bool { _, there := t.Token(id); return !there }
	first, ok := t.BOS()
	if !ok {
		first, ok = t.EOS()
	}
	o.Start = func(x *rand.Rand) int32 {
		if ok && int(first) < r.src.loader.Spec.Vocab {
			return first
		}
		for range 1000 {
			if id := x.Int32N(known); !o.Special(id) && !o.Unused(id) {
				return id
			}
		}
		return 0
	}
	return nil
}
