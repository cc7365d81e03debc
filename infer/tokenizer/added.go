package tokenizer

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"exl2/infer/tokenizer/internal/chars"
	"exl2/infer/tokenizer/internal/jsonfields"
	"exl2/infer/tokenizer/internal/limit"
	"exl2/infer/tokenizer/internal/trie"
	"exl2/internal/regular"
)

// An addedToken is found in a text before the model sees it.
type addedToken struct {
	content    string
	id         int32
	singleWord bool // only where no word character stands beside it
	lstrip     bool // takes the white space before it along
	rstrip     bool // takes the white space after it along
	normalized bool // is looked for in the normalized text, in its own normalized form
	special    bool // decoding with SkipSpecial leaves it out
}

// added is the two sets of added tokens.
type added struct {
	raw        tokenSet // looked for in the text as given
	normalized tokenSet // looked for in normalized text
}

// A tokenSet finds added tokens: from left to right, of those that begin at
// one place the longest.
type tokenSet struct {
	tokens []addedToken
	keys   *trie.Trie // of their texts, numbered as tokens are; nil: the set is empty
	begins [256]bool
}

// newTokenSet returns the set of tokens, which are looked for as texts[i].
func newTokenSet(tokens []addedToken, texts []string) tokenSet {
	s := tokenSet{tokens: tokens}
	if len(tokens) == 0 {
		return s
	}
	s.keys = trie.New(texts)
	for _, text := range texts {
		if text != "" {
			s.begins[text[0]] = true
		}
	}
	return s
}

// A section is a part of a text: an added token, or what lies between two.
type section struct {
	text  string
	start int   // in the text
	id    int32 // of the added token, else -1
}

// split passes the sections of text on in order; empty text is one section.
func (s *tokenSet) split(text string, yield func(section)) {
	if s.keys == nil || text == "" {
		yield(section{text: text, id: -1})
		return
	}
	done, spaces := 0, 0 // text[:done] is passed on; white space that was found last ends at spaces
	for at := 0; at < len(text); {
		if !s.begins[text[at]] {
			at++
			continue
		}
		n, length := s.keys.Longest(text[at:])
		if n < 0 {
			at++
			continue
		}
		start, end := at, at+length
		at = end
		tok := &s.tokens[n]
		if tok.singleWord && besideWord(text, start, end) {
			continue
		}
		if tok.lstrip {
			from := min(done, start)
			start = max(from+len(strings.TrimRightFunc(text[from:start], unicode.IsSpace)), done)
		}
		if tok.rstrip {
			if spaces < end {
				spaces = len(text) - len(strings.TrimLeftFunc(text[end:], unicode.IsSpace))
			}
			end = spaces
		}
		if done < start {
			yield(section{text: text[done:start], start: done, id: -1})
		}
		if start < end { // else the token before has taken its white space and more
			yield(section{text: text[start:end], start: start, id: tok.id})
		}
		done = end
	}
	if done < len(text) {
		yield(section{text: text[done:], start: done, id: -1})
	}
}

// besideWord reports whether a word character stands right before or after a match.
func besideWord(text string, start, end int) bool {
	before, n := utf8.DecodeLastRuneInString(text[:start])
	if n > 0 && chars.IsWord(before) {
		return true
	}
	after, n := utf8.DecodeRuneInString(text[end:])
	return n > 0 && chars.IsWord(after)
}

// readAddedTokens reads the list added_tokens of a tokenizer.json.
func readAddedTokens(data json.RawMessage) ([]addedToken, error) {
	var list []json.RawMessage
	if data == nil {
		return nil, nil
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("added_tokens: %w", regular.InWords(err))
	}
	tokens := make([]addedToken, 0, len(list))
	for i, raw := range list {
		f, err := jsonfields.New(fmt.Sprintf("added_tokens[%d]", i), raw)
		if err != nil {
			return nil, err
		}
		tok := addedToken{
			content:    f.Str("content"),
			singleWord: f.Bool("single_word"),
			lstrip:     f.Bool("lstrip"),
			rstrip:     f.Bool("rstrip"),
			normalized: f.Bool("normalized"),
			special:    f.Bool("special"),
		}
		var id uint32 // which is not used, see addTokens
		f.Read("id", f.Need("id"), &id)
		if err := f.Done(); err != nil {
			return nil, err
		}
		if err := jsonfields.CheckToken(tok.content); err != nil {
			return nil, fmt.Errorf("%s: %w", f.At("content"), err)
		}
		tokens = append(tokens, tok)
	}
	return tokens, nil
}

// loadTime is what normalizing all added tokens may take.
const loadTime = 10 * time.Second

// addTokens gives added tokens their ids and builds the sets. The ids that the
// file gives are not used, as in the tokenizers library: a token of the model
// keeps its id, others follow the vocabulary in the order of the list. Of two
// that are one text when normalized the later is found; the library leaves that
// to chance.
func (t *Tokenizer) addTokens(tokens []addedToken) error {
	clock := limit.Start(context.Background(), loadTime)
	next := t.vocab.size
	final := map[int32]addedToken{}
	var order []int32
	for _, tok := range tokens {
		if tok.content == "" {
			continue
		}
		id, ok := t.vocab.id(tok.content)
		if !ok {
			id = next
			next++
		}
		tok.id = id
		t.vocab.add(tok.content, id)
		if tok.normalized && t.norm != nil {
			if text, _ := t.norm(clock, tok.content, 0); text != tok.content {
				t.vocab.shown[id] = text
			}
		}
		if _, again := final[id]; !again {
			order = append(order, id)
		}
		final[id] = tok
	}
	var raw, normalized []addedToken
	var rawTexts, normalTexts []string
	for _, id := range order {
		if tok := final[id]; tok.normalized {
			normalized, normalTexts = append(normalized, tok), append(normalTexts, t.vocab.text(id))
		} else {
			raw, rawTexts = append(raw, tok), append(rawTexts, tok.content)
		}
	}
	t.added.raw = newTokenSet(raw, rawTexts)
	t.added.normalized = newTokenSet(normalized, normalTexts)
	t.markSpecial(tokens)
	if err := clock.Stop(); err != nil {
		return fmt.Errorf("added_tokens: %w", err)
	}
	return nil
}

// markSpecial marks the ids of special tokens, by their texts as files give them: whether
// decoding leaves a token out does not depend on what normalizing makes of it.
func (t *Tokenizer) markSpecial(tokens []addedToken) {
	special := map[string]bool{}
	for _, tok := range tokens {
		special[tok.content] = special[tok.content] || tok.special
	}
	for id := range t.vocab.tokens {
		t.vocab.special[id] = t.vocab.known[id] && special[t.vocab.tokens[id]]
	}
}
