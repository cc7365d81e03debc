package tokenizer

import (
	"fmt"
	"maps"
	"slices"

	"golang.org/x/text/unicode/norm"

	"exl2/infer/tokenizer/internal/chars"
	"exl2/infer/tokenizer/internal/decode"
	"exl2/infer/tokenizer/internal/normalize"
	"exl2/infer/tokenizer/internal/split"
	"exl2/infer/tokenizer/internal/tiktoken"
)

// parseTiktoken reads a file of the tiktoken library, to which s adds tokens.
func parseTiktoken(name string, data []byte, s *settings) (*Tokenizer, error) {
	f, err := tiktoken.Read(data)
	if err != nil {
		return nil, err
	}
	r, err := f.Rules(name)
	if err != nil {
		return nil, err
	}
	t := &Tokenizer{bos: -1, eos: -1, stages: []decode.Stage{decode.Bytes}}
	ids := f.IDs()
	if t.vocab, err = newVocabulary(ids); err != nil {
		return nil, err
	}
	t.model = f.Model(ids)
	if t.split, err = split.ByPattern(r.Pattern); err != nil {
		return nil, err
	}
	if r.NFC {
		t.norm = normalize.Rewrite(func(s string) string { return chars.Form(norm.NFC, s) })
	}
	if err := t.addByID(r.Special, s); err != nil {
		return nil, err
	}
	t.bos = t.named(r.BOS, -1)
	t.eos = t.named(r.EOS, -1)
	if r.AddBOS {
		t.template.before = []int32{t.bos}
	}
	return t, nil
}

// addByID adds special tokens, and those of the settings, at their ids.
func (t *Tokenizer) addByID(special map[int32]string, s *settings) error {
	byID := map[int32]addedToken{}
	for id, text := range special {
		byID[id] = addedToken{content: text, id: id, special: true}
	}
	list, err := s.byID()
	if err != nil {
		return err
	}
	for _, tok := range list {
		byID[tok.id] = tok
	}
	list = list[:0]
	var texts []string
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		tok := byID[id]
		if err := checkID(tok.content, id, len(byID)+int(t.vocab.size)); err != nil {
			return fmt.Errorf("added tokens: %w", err)
		}
		t.vocab.add(tok.content, id)
		t.vocab.special[id] = tok.special
		list, texts = append(list, tok), append(texts, tok.content)
	}
	t.added.raw = newTokenSet(list, texts)
	return nil
}
