package tokenizer

import (
	"context"
	"fmt"

	"exl2/infer/tokenizer/internal/limit"
	"exl2/infer/tokenizer/internal/normalize"
	"exl2/infer/tokenizer/internal/split"
)

// EncodeOptions says how a text is encoded. The zero value is the text alone.
type EncodeOptions struct {
	Template bool // put the special tokens around it that the files ask for, such as BOS
	BOS      bool // begin it with BOS, if there is one and it does not begin so
}

// Encode returns the ids of text. Special tokens that occur in it become their
// ids; bytes that are not UTF-8 count as U+FFFD.
//
// The error is that of ctx, or says what takes too long: some files make the
// encoding of short texts take years.
func (t *Tokenizer) Encode(ctx context.Context, text string, o EncodeOptions) ([]int32, error) {
	ids := make([]int32, 0, len(text)/4+8) // one for four bytes, as in English
	if o.Template {
		ids = append(ids, t.template.before...)
	}
	ids, err := t.encode(ctx, ids, text)
	if err != nil {
		return nil, fmt.Errorf("encoding a text of %d bytes: %w", len(text), err)
	}
	if o.Template {
		ids = append(ids, t.template.after...)
	}
	if bos, ok := t.BOS(); o.BOS && ok && (len(ids) == 0 || ids[0] != bos) {
		ids = append([]int32{bos}, ids...)
	}
	return ids, nil
}

// Plain returns what encodes texts alone until ctx ends.
func (t *Tokenizer) Plain(ctx context.Context) Plain { return Plain{t, ctx} }

// A Plain encodes texts by themselves.
type Plain struct {
	t   *Tokenizer
	ctx context.Context
}

// EncodePlain is Encode without special tokens around the text.
func (p Plain) EncodePlain(text string) ([]int32, error) {
	return p.t.Encode(p.ctx, text, EncodeOptions{})
}

// encode appends the ids of text to dst.
func (t *Tokenizer) encode(ctx context.Context, dst []int32, text string) ([]int32, error) {
	w := t.workers.get(t)
	defer t.workers.put(w)
	time := limit.Start(ctx, limit.For(len(text)))
	w.ids, w.work.Time = dst, time
	text = Valid(text)
	t.added.raw.split(text, func(s section) {
		switch {
		case !time.Check():
		case s.id >= 0:
			w.ids = append(w.ids, s.id)
		default:
			t.encodeSection(w, s)
		}
	})
	dst, w.ids = w.ids, nil
	return dst, time.Stop()
}

// encodeSection encodes text that lies between added tokens.
func (t *Tokenizer) encodeSection(w *worker, s section) {
	if s.start == 0 && t.spaceFirst && s.text != "" {
		s.text = " " + s.text
	}
	head := 0
	if s.start == 0 {
		head = normalize.Head(s.text)
	}
	if t.norm != nil {
		s.text, head = t.norm(w.work.Time, s.text, head)
	}
	t.added.normalized.split(s.text, func(s section) {
		if s.id >= 0 {
			w.ids = append(w.ids, s.id)
		} else if s.text != "" {
			w.run(0, split.Piece{Text: s.text, Head: max(0, min(head-s.start, len(s.text)))})
		}
	})
}
