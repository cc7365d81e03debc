package tokenizer

import (
	"fmt"
	"math"

	"exl2/infer/tokenizer/internal/jsonfields"
	"exl2/infer/tokenizer/internal/subword"
)

// readBPE reads the model of type BPE of a tokenizer.json.
func readBPE(f *jsonfields.Fields) (*subword.BPE, vocabulary, error) {
	r := subword.Rules{
		Unk:    -1,
		Fuse:   f.BoolOr("fuse_unk", false),
		Whole:  f.BoolOr("ignore_merges", false),
		Prefix: f.StrOr("continuing_subword_prefix", ""),
		Suffix: f.StrOr("end_of_word_suffix", ""),
	}
	if f.Take("dropout") != nil {
		f.Refuse("dropout", "anything but null")
	}
	if n := max(len(r.Prefix), len(r.Suffix)); n > maxAffix {
		f.Refuse("continuing_subword_prefix", "or end_of_word_suffix of %d bytes", n)
	}
	unk, bytes := f.StrOr("unk_token", ""), f.BoolOr("byte_fallback", false)
	vocab, merges := f.Need("vocab"), f.Need("merges")
	if err := f.Done(); err != nil {
		return nil, vocabulary{}, err
	}
	ids := map[string]int32{}
	err := jsonfields.ScanVocab(vocab, func(token string, id int32) error {
		ids[token] = id
		return nil
	})
	var v vocabulary
	if err == nil {
		v, err = newVocabulary(ids)
	}
	if err != nil {
		return nil, v, fmt.Errorf("%s: %w", f.At("vocab"), err)
	}
	if unk != "" {
		id, ok := ids[unk]
		if !ok {
			return nil, v, fmt.Errorf("%s: %q is not in the vocabulary", f.At("unk_token"), unk)
		}
		r.Unk = id
	}
	if bytes {
		r.Fallback = subword.ByteTokens(ids)
	}
	b := subword.NewBPE(ids, r)
	if err := jsonfields.ScanMerges(merges, b.Merge); err != nil {
		return nil, v, fmt.Errorf("%s: %w", f.At("merges"), err)
	}
	return b, v, nil
}

// maxAffix bounds what is put around characters, in bytes.
const maxAffix = 64

// readUnigram reads the model of type Unigram of a tokenizer.json.
func readUnigram(f *jsonfields.Fields) (*subword.Unigram, vocabulary, error) {
	p := subword.Pieces{Whole: map[string]int32{}, Unk: -1, Words: true}
	f.Read("unk_id", f.Need("unk_id"), &p.Unk)
	bytes := f.BoolOr("byte_fallback", false)
	vocab := f.Need("vocab")
	if err := f.Done(); err != nil {
		return nil, vocabulary{}, err
	}
	lowest := math.Inf(1)
	err := jsonfields.ScanScores(vocab, func(piece string, score float64) error {
		p.Whole[piece] = int32(len(p.Texts))
		p.Texts, p.Scores = append(p.Texts, piece), append(p.Scores, score)
		lowest = min(lowest, score)
		return jsonfields.CheckToken(piece)
	})
	if err != nil {
		return nil, vocabulary{}, fmt.Errorf("%s: %w", f.At("vocab"), err)
	}
	if p.Unk < 0 || int(p.Unk) >= len(p.Texts) {
		return nil, vocabulary{}, fmt.Errorf("%s: %d is not the id of one of the %d pieces", f.At("unk_id"), p.Unk, len(p.Texts))
	}
	p.UnkScore = lowest - subword.UnkPenalty
	if bytes {
		p.Fallback = subword.ByteTokens(p.Whole)
	}
	v, err := newVocabulary(p.Whole)
	v.size = int32(len(p.Texts))
	for id, piece := range p.Texts { // pieces listed twice keep both ids for decoding
		v.tokens[id], v.known[id] = piece, true
	}
	return subword.NewUnigram(p), v, err
}
