package infer

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"

	"exl2/internal/ordered"
	"exl2/internal/regular"
)

// Settings are what a model's folder says of generating text. The tokenizer's
// own EOS is not among them.
type Settings struct {
	End     []int32 // tokens that end a text, by config.json and generation_config.json
	Sampler Sampler // as generation_config.json advises; the temperature is 1 where it says none

	Foreign []string // fields of generation_config.json by which other programs would choose other tokens, and which nothing here does
}

// ReadSettings reads config.json and generation_config.json, as far as they are
// there.
func ReadSettings(dir string) (*Settings, error) {
	var config configEnd
	var generation generationConfig
	if err := regular.OptionalJSON(filepath.Join(dir, "config.json"), &config); err != nil {
		return nil, err
	}
	if err := regular.OptionalJSON(filepath.Join(dir, "generation_config.json"), &generation); err != nil {
		return nil, err
	}
	return &Settings{End: append(config.end(), generation.EOS...), Sampler: generation.sampler(), Foreign: generation.foreign}, nil
}

// configEnd is what a config.json says of tokens that end a text.
type configEnd struct {
	EOS      idList     `json:"eos_token_id"`
	Text     *configEnd `json:"text_config"`
	Thinker  *configEnd `json:"thinker_config"`
	Language *configEnd `json:"language_config"`
	LLM      *configEnd `json:"llm_config"`
}

// end returns the tokens: where the whole has none those of what computes text in it, as transformers has it.
func (c *configEnd) end() idList {
	if c == nil {
		return nil
	}
	end := c.EOS
	for _, inner := range []*configEnd{c.Thinker, c.Text, c.Language, c.LLM} {
		if len(end) == 0 {
			end = inner.end()
		}
	}
	return end
}

// generationConfig is what generation_config.json says. do_sample is not looked at: who asks for
// sampling is taken at his word.
type generationConfig struct {
	EOS         idList   `json:"eos_token_id"`
	Temperature *float64 `json:"temperature"`
	TopK        *int     `json:"top_k"`
	TopP        *float64 `json:"top_p"`
	MinP        *float64 `json:"min_p"`
	Typical     *float64 `json:"typical_p"`
	Repetition  *float64 `json:"repetition_penalty"`

	foreign []string // Settings.Foreign
}

// UnmarshalJSON reads the fields, and which of the others are foreign.
func (g *generationConfig) UnmarshalJSON(data []byte) error {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil {
		return err
	}
	g.foreign = foreign(all)
	type fields generationConfig
	return regular.Unmarshal(data, (*fields)(g))
}

func (g *generationConfig) sampler() Sampler {
	s := Sampler{Temperature: 1}
	for _, f := range []struct{ to, from *float64 }{
		{&s.Temperature, g.Temperature}, {&s.TopP, g.TopP}, {&s.MinP, g.MinP}, {&s.Typical, g.Typical}, {&s.Repetition, g.Repetition},
	} {
		if f.from != nil {
			*f.to = *f.from
		}
	}
	if g.TopK != nil {
		s.TopK = *g.TopK
	}
	return s
}

// idList is the end tokens: one id or a list of them.
type idList []int32

// UnmarshalJSON reads a number, a list of numbers or null.
func (l *idList) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	var one int32
	if json.Unmarshal(data, &one) == nil {
		*l = idList{one}
		return nil
	}
	var list []*int32
	if json.Unmarshal(data, &list) != nil || slices.Contains(list, nil) {
		return fmt.Errorf("%.40s, want a token id or a list of them", cmp.Or(ordered.Number(data), string(data)))
	}
	*l = nil
	for _, id := range list {
		*l = append(*l, *id)
	}
	return nil
}
