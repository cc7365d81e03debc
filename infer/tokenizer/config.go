package tokenizer

import (
	"fmt"
	"slices"
)

// configure finds BOS and EOS and puts around texts what the files beside the
// tokenizer ask for.
func (t *Tokenizer) configure(s *settings) {
	t.nameEnds(s)
	t.applyEnds(s)
}

// nameEnds finds BOS and EOS: as the settings name them, else as the model
// file does, else as the template puts them around a text.
func (t *Tokenizer) nameEnds(s *settings) {
	if n := len(t.template.before); t.bos < 0 && n > 0 {
		t.bos = t.template.before[0]
	}
	if n := len(t.template.after); t.eos < 0 && n > 0 {
		t.eos = t.template.after[n-1]
	}
	c := s.class()
	t.bos = t.named(s.BOS.or(c.bos), t.bos)
	t.eos = t.named(s.EOS.or(c.eos), t.eos)
}

// named returns the id of a token by its text, or id if there is none.
func (t *Tokenizer) named(text string, id int32) int32 {
	if found, ok := t.vocab.id(text); ok && text != "" {
		return found
	}
	return id
}

// applyEnds makes the template follow add_bos_token and add_eos_token, where
// the class of the tokenizer does so. A tokenizer.model has no template;
// without settings Llama's and Gemma's habit holds, BOS before and nothing after.
func (t *Tokenizer) applyEnds(s *settings) {
	c := s.class()
	if t.pieces && c == (class{}) {
		c.addBOS = true
	} else if !c.ends && !t.pieces {
		return
	}
	if s.Class != "" || t.pieces {
		t.template = template{}
	} else {
		c.addBOS, c.addEOS = t.AddsBOS(), t.AddsEOS()
	}
	if s.AddBOS != nil {
		c.addBOS = *s.AddBOS
	}
	if s.AddEOS != nil {
		c.addEOS = *s.AddEOS
	}
	b, a := t.template.before, t.template.after
	if t.bos >= 0 && c.addBOS != t.AddsBOS() {
		if c.addBOS {
			b = append([]int32{t.bos}, b...)
		} else {
			b = b[1:]
		}
	}
	if t.eos >= 0 && c.addEOS != t.AddsEOS() {
		if c.addEOS {
			a = append(slices.Clone(a), t.eos)
		} else {
			a = a[:len(a)-1]
		}
	}
	t.template = template{before: b, after: a}
}

// addToJSON returns the added tokens of a tokenizer.json, as the settings have them, and
// what the settings add to them: each text once, as it is named first.
func addToJSON(list []addedToken, s *settings) ([]addedToken, error) {
	more, err := s.byID()
	if err != nil {
		return nil, err
	}
	list = s.flagged(list)
	have := map[string]bool{}
	for _, tok := range list {
		have[tok.content] = true
	}
	for _, tok := range append(more, s.named()...) {
		if !have[tok.content] {
			have[tok.content] = true
			list = append(list, tok)
		}
	}
	return list, nil
}

// flagged returns the tokens of a tokenizer.json with the flags that tokenizer_config.json
// gives them with their ids, which have the last word; special are those that either file
// calls so, and those that have a purpose.
func (s *settings) flagged(list []addedToken) []addedToken {
	said, purposes := map[string]addedToken{}, s.purposes()
	for _, n := range s.ByID {
		said[n.content] = n.addedToken
	}
	out := slices.Clone(list)
	for i, tok := range list {
		if of, ok := said[tok.content]; ok {
			out[i] = of
			out[i].id, out[i].normalized = tok.id, tok.normalized && of.normalized // found as it stands, if either file says so
		}
		out[i].special = tok.special || out[i].special || purposes[tok.content]
	}
	return out
}

// addToPieces gives a tokenizer.model the tokens that were added to it later,
// at their ids, and those with a purpose: its own BOS, EOS and unknown piece and
// what the settings name.
func (t *Tokenizer) addToPieces(s *settings, unk int32) error {
	list, err := s.byID()
	if err != nil {
		return err
	}
	have := map[string]bool{}
	for _, tok := range list {
		if err := checkID(tok.content, tok.id, len(list)+int(t.vocab.size)); err != nil {
			return fmt.Errorf("added tokens: %w", err)
		}
		t.vocab.add(tok.content, tok.id)
		have[tok.content] = true
	}
	named := s.named()
	for _, id := range []int32{t.bos, t.eos, unk} {
		if id >= 0 {
			named = append(named, addedToken{content: t.vocab.tokens[id], special: true})
		}
	}
	next := t.vocab.count()
	for _, tok := range named {
		if have[tok.content] {
			continue
		}
		have[tok.content] = true
		id, ok := t.vocab.id(tok.content)
		if !ok {
			id = next
			next++
			t.vocab.add(tok.content, id)
		}
		tok.id = id
		list = append(list, tok)
	}
	var texts []string
	for _, tok := range list {
		t.vocab.special[tok.id] = tok.special
		texts = append(texts, tok.content)
	}
	t.added.raw = newTokenSet(list, texts)
	return nil
}
