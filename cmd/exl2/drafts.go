package main

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/spf13/pflag"

	"exl2/infer"
	"exl2/infer/tokenizer"
	"exl2/internal/arch"
)

// draftOptions say what drafts tokens of a text.
type draftOptions struct {
	ngram, tokens int
	model         string
}

// usualDraft is how many tokens a draft model drafts at a time, as ExLlamaV2's.
const usualDraft = 5

func (o *draftOptions) flags(f *pflag.FlagSet) {
	f.IntVar(&o.ngram, "ngram", 0, "draft up to so many tokens by what followed the last ones before: faster where a text repeats (-ngram)")
	f.Lookup("ngram").NoOptDefVal = strconv.Itoa(infer.MostDraft)
	f.StringVar(&o.model, "draft-model-dir", "", "a small model of the same tokens, to draft for a large one (-dm)")
	f.IntVar(&o.tokens, "num-draft-tokens", usualDraft, fmt.Sprintf("tokens that it drafts at a time, at most, 1 to %d (-dn)", infer.MostDraft))
}

// check refuses what cannot be. Of two ways to draft the one that was typed counts, not one of the environment or the configuration file.
func (o *draftOptions) check(f *pflag.FlagSet) error {
	ngram, model := wasTyped(f, "ngram"), wasTyped(f, "draft-model-dir")
	switch {
	case f.Changed("draft-model-dir") && o.model == "":
		return usage("--draft-model-dir (-dm): empty name")
	case ngram && !model:
		o.model = ""
	case model && !ngram:
		o.ngram = 0
	case o.model != "" && o.ngram > 0:
		return usage("--ngram and --draft-model-dir (-dm) are both given")
	}
	if o.model == "" && wasTyped(f, "num-draft-tokens") {
		return usage("--num-draft-tokens (-dn) is for a --draft-model-dir (-dm); or give --ngram, up to %d", infer.MostDraft)
	}
	return cmp.Or(within("ngram", o.ngram, 0, infer.MostDraft), within("num-draft-tokens", o.tokens, 1, infer.MostDraft))
}

// most is how many tokens are drafted at a time.
func (o *draftOptions) most() int {
	if o.model != "" {
		return o.tokens
	}
	return o.ngram
}

// find returns the folder of the draft model, or "" without one. It has to have the tokens of the model's tokenizer, and it is told if it has
// the first of them alone.
func (o *draftOptions) find(a *app, of *tokenizer.Tokenizer) (string, error) {
	if o.model == "" {
		return "", nil
	}
	dir, err := findModel(o.model)
	if err != nil {
		return "", fmt.Errorf("draft %w", err)
	}
	known := 0
	own, err := tokenizer.Load(dir)
	if err == nil {
		err = sameTokens(own, of)
	}
	if err == nil {
		var spec arch.Spec
		spec, err = arch.ReadSpec(dir)
		known = spec.Vocab
	}
	if err != nil {
		return "", fmt.Errorf("draft model %s: %w", o.model, err)
	}
	if n, all := min(own.VocabSize(), known), of.VocabSize(); n < all {
		a.note(fmt.Sprintf("draft model %s: it has the first %d of %d tokens; behind one of the others nothing is drafted", o.model, n, all))
	}
	return dir, nil
}

// sameTokens refuses a draft model's tokenizer of which a token is another one than the model's. One may have more than the other.
func sameTokens(draft, model *tokenizer.Tokenizer) error {
	for id := range int32(min(draft.VocabSize(), model.VocabSize())) {
		a, _ := draft.Token(id)
		b, _ := model.Token(id)
		if a != b {
			return fmt.Errorf("token %d is %q, and %q in the model that it drafts for; give a model of the same tokens", id, a, b)
		}
	}
	return nil
}

// told says how drafts went, if there were to be any.
func (o *draftOptions) told(r *infer.Result) string {
	if o.most() == 0 {
		return ""
	}
	return fmt.Sprintf(", %d of %d drafted ones accepted", r.Accepted, r.Drafted)
}

// drafts is what drafts add to the JSON.
type drafts struct {
	Drafted  int `json:"drafted_tokens"`
	Accepted int `json:"accepted_tokens"`
}

// result returns what is added, or nil.
func (o *draftOptions) result(r *infer.Result) *drafts {
	if o.most() == 0 {
		return nil
	}
	return &drafts{r.Drafted, r.Accepted}
}
