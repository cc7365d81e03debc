package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"exl2/infer"
	"exl2/infer/tokenizer"
)

// A prompter makes a model's prompts of what the user types.
type prompter struct {
	tokenizer *tokenizer.Tokenizer
	end       []int32  // tokens that end a text
	stops     []string // texts that do
	stopIDs   []int32  // and special tokens, of which texts have nothing
	noBOS     bool
	chat      *renderer // nil without --chat
}

// prompter reads what the model's folder and the flags say of prompts.
func (o *inferOptions) prompter(c *cobra.Command, a *app, dir string) (*prompter, error) {
	end, err := a.readGeneration(dir, c.Flags(), o)
	if err != nil {
		return nil, err
	}
	p := &prompter{end: end, noBOS: o.noBOS}
	if o.chat.on {
		if p.chat, err = o.chat.renderer(c.Context(), dir); err != nil {
			return nil, err
		}
	}
	if p.tokenizer, err = tokenizer.Load(dir); err != nil {
		return nil, err
	}
	if eos, ok := p.tokenizer.EOS(); ok {
		p.end = append(p.end, eos)
	}
	return p, p.stopAt(o.stops)
}

// stopAt has texts end at what --stop gives: a special token's text is the token, since
// texts leave special tokens out. What is more than that could never be met.
func (p *prompter) stopAt(stops []string) error {
	for _, text := range stops {
		if id, ok := p.tokenizer.TokenID(text); ok && p.tokenizer.Special(id) {
			p.stopIDs = append(p.stopIDs, id)
		} else if token := p.specialIn(text); token != "" {
			return usage("--stop %q: texts leave special tokens out, as %q; give that alone, and what is around it in another --stop", text, token)
		}
		p.stops = append(p.stops, text)
	}
	return nil
}

// specialIn returns the text of a special token that is in a text, or "".
func (p *prompter) specialIn(text string) string {
	for id := range int32(p.tokenizer.VocabSize()) {
		if token, _ := p.tokenizer.Token(id); token != "" && p.tokenizer.Special(id) && strings.Contains(text, token) {
			return token
		}
	}
	return ""
}

// A shownPrompt is a prompt as a text and as tokens.
type shownPrompt struct {
	Text string  `json:"prompt"`
	IDs  []int32 `json:"prompt_ids"`
}

// print writes the prompt and its ids.
func (p *shownPrompt) print(w io.Writer) {
	ids := strings.ReplaceAll(strings.Trim(fmt.Sprint(p.IDs), "[]"), " ", ", ")
	fmt.Fprintf(w, "%s\n[%s]\n", p.Text, ids)
}

// prompt makes the prompt of a text, or with --chat of a message.
func (p *prompter) prompt(ctx context.Context, text string) (*shownPrompt, error) {
	if p.chat != nil {
		return p.turn(ctx, p.chat.begin().Append(userMessage(text)))
	}
	ids, err := p.tokenizer.Encode(ctx, text, tokenizer.EncodeOptions{BOS: !p.noBOS})
	if err != nil {
		return nil, err
	}
	return &shownPrompt{text, ids}, nil
}

// known refuses a prompt with a token that the model does not have.
func (p *prompter) known(prompt []int32, vocab int) error {
	for _, id := range prompt {
		if int(id) < vocab {
			continue
		}
		err := beyond(p.tokenizer, id, vocab)
		if bos, ok := p.tokenizer.BOS(); ok && id == bos && p.chat == nil && !p.noBOS {
			err = fmt.Errorf("%w, or leave it out with -pnb", err)
		}
		return err
	}
	return nil
}

// beyond is about a token of a tokenizer that the model does not have.
func beyond(t *tokenizer.Tokenizer, id int32, vocab int) error {
	text, _ := t.Token(id)
	name := fmt.Sprintf("token %q", text)
	if bos, ok := t.BOS(); ok && bos == id {
		name += " (bos_token)"
	}
	if eos, ok := t.EOS(); ok && eos == id {
		name += " (eos_token)"
	}
	return fmt.Errorf("%s has id %d, and the model has %d tokens; give the model the tokenizer that it was trained with", name, id, vocab)
}

// generation returns what the flags say of the text to generate.
func (p *prompter) generation(o *inferOptions, prompt []int32, limit int) *infer.Generation {
	return &infer.Generation{
		Prompt: prompt, Limit: limit, Sampler: o.sampler, Seed: o.seed, Draft: o.draft.most(), End: p.end, Stops: p.stops, StopIDs: p.stopIDs,
		Text: p.tokenizer.NewStream(tokenizer.DecodeOptions{SkipSpecial: true}),
	}
}
