package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"

	"exl2/internal/tokenizer/jsonfields"
)

// settings is what tokenizer_config.json and special_tokens_map.json say about
// tokens. Both files have many more fields; only those that this package reads
// are looked at, since the files are for other programs as well.
type settings struct {
	BOS     *tokenName               `json:"bos_token"`
	EOS     *tokenName               `json:"eos_token"`
	Pad     *tokenName               `json:"pad_token"`
	Unk     *tokenName               `json:"unk_token"`
	Special []tokenName              `json:"additional_special_tokens"`
	AddBOS  *bool                    `json:"add_bos_token"`
	AddEOS  *bool                    `json:"add_eos_token"`
	Decoder map[string]settingsToken `json:"added_tokens_decoder"` // by id
}

// isSpecial reports whether the settings name a token as one with a purpose.
func (s *settings) isSpecial(text string) bool {
	for _, n := range []*tokenName{s.BOS, s.EOS, s.Pad, s.Unk} {
		if n != nil && string(*n) == text {
			return true
		}
	}
	return slices.Contains(s.Special, tokenName(text))
}

// tokenName is a token's text, written as a string or as an object with its flags.
type tokenName string

// UnmarshalJSON reads either way of writing.
func (n *tokenName) UnmarshalJSON(data []byte) error {
	var object struct {
		Content *string `json:"content"`
	}
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		if json.Unmarshal(data, &object) != nil || object.Content == nil {
			return fmt.Errorf("a token is neither a string nor an object with content: %.40s", data)
		}
		text = *object.Content
	}
	*n = tokenName(text)
	return nil
}

// settingsToken is an added token of tokenizer_config.json.
type settingsToken struct {
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
	Special    bool   `json:"special"`
}

// readSettings reads a JSON file of a folder into v; a missing file leaves v as it is.
func readSettings(dir, name string, v any) error {
	data, err := readFile(dir, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(data, v)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(dir, name), jsonfields.Plain(err))
	}
	return nil
}

// configure applies the files beside the tokenizer: first what
// special_tokens_map.json says, then tokenizer_config.json, whose word is last.
func (t *Tokenizer) configure(dir string) error {
	var s settings
	for _, name := range []string{"special_tokens_map.json", "tokenizer_config.json"} {
		if err := readSettings(dir, name, &s); err != nil {
			return err
		}
	}
	if t.pieces {
		if err := t.addFromSettings(dir, &s); err != nil {
			return err
		}
	}
	t.nameEnds(s)
	t.applyEnds(s)
	return nil
}

// nameEnds finds BOS and EOS: as the settings name them, else as the model
// file does, else as the template puts them around a text.
func (t *Tokenizer) nameEnds(s settings) {
	if n := len(t.template.before); t.bos < 0 && n > 0 {
		t.bos = t.template.before[0]
	}
	if n := len(t.template.after); t.eos < 0 && n > 0 {
		t.eos = t.template.after[n-1]
	}
	if s.BOS != nil {
		if id, ok := t.vocab.id(string(*s.BOS)); ok {
			t.bos = id
		}
	}
	if s.EOS != nil {
		if id, ok := t.vocab.id(string(*s.EOS)); ok {
			t.eos = id
		}
	}
}

// applyEnds makes the template follow add_bos_token and add_eos_token, where
// they are given: transformers rebuilds its template from them as well. A
// tokenizer.model has no template; without settings Llama's and Gemma's
// habit holds, BOS before and nothing after.
func (t *Tokenizer) applyEnds(s settings) {
	if s.AddBOS == nil && t.pieces {
		yes := true
		s.AddBOS = &yes
	}
	b, a := t.template.before, t.template.after
	if s.AddBOS != nil && t.bos >= 0 && *s.AddBOS != t.AddsBOS() {
		if *s.AddBOS {
			b = append([]int32{t.bos}, b...)
		} else {
			b = b[1:]
		}
	}
	if s.AddEOS != nil && t.eos >= 0 && *s.AddEOS != t.AddsEOS() {
		if *s.AddEOS {
			a = append(slices.Clone(a), t.eos)
		} else {
			a = a[:len(a)-1]
		}
	}
	t.template = template{before: b, after: a}
}

// addFromSettings gives a tokenizer.model the tokens that were added to it
// later: those of added_tokens.json ("text": id) and of the settings.
func (t *Tokenizer) addFromSettings(dir string, s *settings) error {
	ids := map[string]int32{}
	if err := readSettings(dir, "added_tokens.json", &ids); err != nil {
		return err
	}
	byID := map[int32]addedToken{}
	for text, id := range ids {
		byID[id] = addedToken{content: text, id: id, special: s.isSpecial(text)}
	}
	for key, tok := range s.Decoder {
		id, err := strconv.ParseInt(key, 10, 32)
		if err != nil {
			return fmt.Errorf("%s: added_tokens_decoder: %q is not an id", filepath.Join(dir, "tokenizer_config.json"), key)
		}
		byID[int32(id)] = addedToken{
			content: tok.Content, id: int32(id), singleWord: tok.SingleWord,
			lstrip: tok.LStrip, rstrip: tok.RStrip, special: tok.Special,
		}
	}
	var list []addedToken
	for id, tok := range byID {
		if tok.content == "" || id < 0 {
			return fmt.Errorf("%s: added token %d: %q", dir, id, tok.content)
		}
		if err := checkID(tok.content, id, len(byID)+int(t.vocab.size)); err != nil {
			return fmt.Errorf("%s: added tokens: %w", dir, err)
		}
		list = append(list, tok)
	}
	slices.SortFunc(list, func(a, b addedToken) int { return int(a.id) - int(b.id) })
	var texts []string
	for _, tok := range list {
		texts = append(texts, tok.content)
		t.vocab.add(tok.content, tok.id)
		t.vocab.special[tok.id] = tok.special
	}
	t.added.raw = newTokenSet(list, texts)
	return nil
}
