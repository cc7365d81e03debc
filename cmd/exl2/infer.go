package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"exl2/infer"
	"exl2/internal/arch"
)

type inferOptions struct {
	model, prompt, promptFile string
	tokens, length            int
	draft                     draftOptions
	sampler                   infer.Sampler
	sample                    bool
	seed                      uint64
	stops                     []string
	noBOS                     bool
	ropeScale, ropeAlpha      float64
	chat                      chatOptions
}

func newInferCommand(a *app) *cobra.Command {
	o := &inferOptions{}
	c := &cobra.Command{
		Use:   "infer -m MODEL -p TEXT",
		Short: "Continue a text",
		Long: `infer continues a text with a model, fp16 or EXL2, and writes what it generates as
it comes. The prompt is given with -p, in a file, or on stdin. Without a
temperature it is greedy: it always takes the most likely token. --sample takes
the settings in the model's generation_config.json, where flags do not say
otherwise.

The text goes to stdout, a summary to stderr. It ends with the model's end token,
before a --stop text, or after -t tokens. Special tokens are no part of the text: the
text of one, as --stop "<|im_end|>", stands for the token. Filters work in the order top-k, top-p,
min-p, typical, each on what the one before has left. The same seed gives the same
text.

Like ExLlamaV2 it begins the prompt with the model's BOS token, if it has one;
-pnb leaves it out.

--chat takes the prompt for a message and writes it as the model's own chat template
says; the answer also ends where the template ends one. On a terminal and without a
prompt it is a conversation: Ctrl-C stops an answer, Ctrl-D ends it, a line that ends
in \ goes on in the next.

--ngram drafts up to seven tokens at a time by what has followed the last ones before,
in the prompt or the text, and accepts those that the model chooses, too
(n-gram speculative decoding): faster where a text repeats what is there, as an edited program
or a summary does, and somewhat slower elsewhere.

-dm has a small model of the same tokens draft (speculative decoding): one of the same
family, or the model itself at fewer bits. The larger the model, the more it gains. With
drafts of either kind the text stays the same. Neither goes with penalties, or with models
that have linear attention.`,
		Example: `  exl2 infer -m llama-4.0bpw -p "Once upon a time" -t 200
  exl2 infer -m llama-4.0bpw -p "1, 2, 3," -temp 0.8 -topp 0.9 --seed 7
  cat story.txt | exl2 infer -m llama-4.0bpw --stop "The End" --json
  exl2 infer -m llama-4.0bpw --chat --system "Answer in one sentence."
  exl2 infer -m llama-4.0bpw --chat --ngram --prompt-file rename-this-function.txt -t 2000
  exl2 infer -m llama-70b-2.5bpw -dm llama-1b-4.0bpw -p "Once upon a time" -t 500
  exl2 infer -m llama-4.0bpw --chat -p "Why is the sky blue?" --show-prompt`,
		Args: flagsOnly,
		RunE: func(c *cobra.Command, _ []string) error { return runInfer(c, a, o) },
	}
	f, s := c.Flags(), &o.sampler
	f.StringVarP(&o.model, "model-dir", "m", "", "model: a folder, or org/name from the local Hugging Face cache")
	f.StringVarP(&o.prompt, "prompt", "p", "", "text to continue")
	f.StringVar(&o.promptFile, "prompt-file", "", "file with the text to continue")
	f.IntVarP(&o.tokens, "tokens", "t", 128, "tokens to generate, at most")
	f.IntVarP(&o.length, "length", "l", 0, "context: prompt and tokens together, at most (default: what both take)")
	f.BoolVar(&o.sample, "sample", false, "sample as the model's generation_config.json says")
	f.Float64Var(&s.Temperature, "temperature", 0, "temperature; 0 is greedy (-temp)")
	f.IntVar(&s.TopK, "top-k", 0, "keep the k most likely tokens (-topk)")
	f.Float64Var(&s.TopP, "top-p", 0, "keep the most likely tokens up to this share (-topp)")
	f.Float64Var(&s.MinP, "min-p", 0, "keep tokens this likely, relative to the most likely (-minp)")
	f.Float64Var(&s.Typical, "typical", 0, "keep the most typical tokens up to this share")
	f.Float64Var(&s.Repetition, "repetition-penalty", 1, "penalty on tokens seen before (-repp)")
	f.Float64Var(&s.Frequency, "frequency-penalty", 0, "subtracted from a token's logit each time it was seen")
	f.Float64Var(&s.Presence, "presence-penalty", 0, "subtracted from a token's logit if it was seen")
	f.Uint64Var(&o.seed, "seed", 0, "seed of the sampler")
	f.StringArrayVar(&o.stops, "stop", nil, "text, or special token, that ends the generation; may be repeated")
	f.BoolVar(&o.noBOS, "prompt-no-bos", false, "do not begin the prompt with the BOS token (-pnb)")
	o.draft.flags(f)
	o.chat.flags(f)
	ropeFlags(f, &o.ropeScale, &o.ropeAlpha)
	a.runFlags(f)
	return c
}

// inferResult is the JSON of infer.
type inferResult struct {
	Text         string           `json:"text"`
	PromptTokens int              `json:"prompt_tokens"`
	Tokens       int              `json:"tokens"`
	Reason       infer.StopReason `json:"stop_reason"`
	FirstToken   float64          `json:"seconds_to_first_token"`
	PerSecond    float64          `json:"tokens_per_second"`
	*drafts
	*shownPrompt
}

func (o *inferOptions) check(c *cobra.Command) error {
	switch {
	case o.model == "":
		return usage("--model-dir (-m) is missing; see exl2 infer --help")
	case c.Flags().Changed("prompt") && o.promptFile != "":
		return usage("--prompt and --prompt-file are both given")
	case c.Flags().Changed("prompt-file") && o.promptFile == "":
		return usage("--prompt-file: empty name; leave the flag out to read the prompt from stdin")
	}
	if err := cmp.Or(o.chat.check(), o.draft.check(c.Flags())); err != nil {
		return err
	}
	if err := cmp.Or(within("tokens", o.tokens, 0, infer.MaxPositions), within("length", o.length, 0, infer.MaxPositions), checkRope(o.ropeScale, o.ropeAlpha)); err != nil {
		return err
	}
	for _, s := range o.stops {
		if s == "" {
			return usage("--stop: empty text")
		}
	}
	if err := o.sampler.Check(); err != nil {
		return usageError{err}
	}
	return nil
}

func runInfer(c *cobra.Command, a *app, o *inferOptions) error {
	if err := o.check(c); err != nil {
		return err
	}
	dir, err := findModel(o.model)
	if err != nil {
		return err
	}
	p, err := o.prompter(c, a, dir)
	if err != nil {
		return err
	}
	if files := a.terminal(); o.chat.on && !o.hasPrompt(c) && files != nil {
		return o.converse(c, a, dir, p, files)
	}
	text, err := o.readPrompt(c, os.Stdin)
	if err != nil {
		return err
	}
	if !utf8.ValidString(text) {
		a.note("the prompt is not all UTF-8; each other byte is read as U+FFFD")
	}
	prompt, err := p.prompt(c.Context(), text)
	if err != nil {
		return err
	}
	if o.chat.show && !a.json {
		prompt.print(a.out)
	}
	limit, err := o.limit(len(prompt.IDs))
	if err != nil {
		return err
	}
	p.endAnswers(c.Context())
	r, err := o.answer(c, a, dir, p, p.generation(o, prompt.IDs, limit))
	if err != nil {
		return err
	}
	if a.json {
		if !o.chat.show {
			prompt = nil
		}
		out := inferResult{r.Text, r.PromptTokens, len(r.Tokens), r.Reason, r.FirstToken.Seconds(), r.PerSecond, o.draft.result(r), prompt}
		return a.print(out, nil)
	}
	fmt.Fprintln(a.out)
	fmt.Fprintf(a.err, "\n%d prompt tokens, first token after %v; %d tokens generated, %.1f a second%s; ended by %s\n",
		r.PromptTokens, r.FirstToken.Round(time.Millisecond), len(r.Tokens), r.PerSecond, o.draft.told(r), r.Reason)
	return nil
}

// limit returns how many tokens may follow a prompt: as many as are asked for, and as
// the context has room for, which the prompt must leave some of.
func (o *inferOptions) limit(prompt int) (int, error) {
	room := o.length - prompt
	switch {
	case o.length == 0:
		return o.tokens, nil
	case room < min(o.tokens, 1):
		return 0, usage("--length: the context of %d tokens has no room behind a prompt of %d; give a larger one, or a shorter prompt", o.length, prompt)
	}
	return min(o.tokens, room), nil
}

// answer loads the model and generates a text. Without any tokens to generate
// the prompt was all that was wanted, if it was shown.
func (o *inferOptions) answer(c *cobra.Command, a *app, dir string, p *prompter, g *infer.Generation) (*infer.Result, error) {
	if o.chat.show && g.Limit == 0 {
		return &infer.Result{PromptTokens: len(g.Prompt), Reason: infer.Length}, nil
	}
	spec, err := arch.ReadSpec(dir)
	if err != nil {
		return nil, err
	}
	if err := p.known(g.Prompt, spec.Vocab); err != nil {
		return nil, fmt.Errorf("model %s: %w", dir, err)
	}
	e, err := o.open(a, dir, spec, p, max(o.length, len(g.Prompt)+g.Limit, 1))
	if err != nil {
		return nil, err
	}
	defer e.Close()
	return a.generate(c.Context(), dir, &infer.Session{Engine: e, Once: true}, g)
}

// open loads the model, and what drafts for it, with room for so many positions, if it can do what flags say.
func (o *inferOptions) open(a *app, dir string, spec arch.Spec, p *prompter, positions int) (*infer.Engine, error) {
	if err := infer.CheckDraft(o.draft.most(), o.sampler, spec.Recurrent()); err != nil {
		return nil, usageError{err}
	}
	small, err := o.draft.find(a, p.tokenizer)
	if err != nil {
		return nil, err
	}
	e, err := a.openModel(dir, infer.Options{Positions: positions, RopeScale: o.ropeScale, RopeAlpha: o.ropeAlpha})
	if err != nil || small == "" {
		return e, err
	}
	if err := e.OpenDraft(small); err != nil {
		e.Close()
		return nil, err
	}
	return e, nil
}

// generate continues a prompt and writes the text to stdout as it comes, unless
// the result will be JSON. A write that fails ends it.
func (a *app) generate(ctx context.Context, dir string, s *infer.Session, g *infer.Generation) (*infer.Result, error) {
	inner, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	g.Emit = func(text string) {
		if a.json {
			return
		}
		if _, err := io.WriteString(a.out, text); err != nil {
			stop(err)
		}
	}
	r, err := s.Generate(inner, g)
	switch {
	case ctx.Err() == nil && inner.Err() != nil:
		return r, context.Cause(inner)
	case err != nil:
		return r, fmt.Errorf("model %s: %w", dir, err)
	}
	return r, nil
}

// hasPrompt reports whether flags say where the prompt is.
func (o *inferOptions) hasPrompt(c *cobra.Command) bool {
	return c.Flags().Changed("prompt") || o.promptFile != ""
}
