package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"exl2/infer"
	"exl2/internal/arch"
	"exl2/internal/chat"
	"exl2/internal/jinja"
)

// conversationLength is the context of a conversation without --length, for
// models that have as much.
const conversationLength = 8192

// A conversation is messages, and what the cache holds of them.
type conversation struct {
	app      *app
	options  *inferOptions
	dir      string
	prompter *prompter
	session  *infer.Session
	messages *jinja.List
	limited  bool // by --tokens
}

// converse answers messages from a terminal until it ends.
func (o *inferOptions) converse(c *cobra.Command, a *app, dir string, p *prompter, t *terminal) error {
	if a.json {
		return usage("--json is for one answer; give a --prompt")
	}
	spec, err := arch.ReadSpec(dir)
	if err != nil {
		return err
	}
	e, err := o.open(a, dir, spec, p, cmp.Or(o.length, min(conversationLength, cmp.Or(spec.MaxPositions, conversationLength))))
	if err != nil {
		return err
	}
	defer e.Close()
	p.endAnswers(c.Context())
	talk := &conversation{a, o, dir, p, &infer.Session{Engine: e}, p.chat.begin(), c.Flags().Changed("tokens")}
	fmt.Fprintf(a.err, "%d tokens of context. Ctrl-C stops an answer, Ctrl-D ends, /new begins anew.\n", e.Options.Positions)
	return talk.run(c.Context(), t)
}

// run reads messages and answers them. Ctrl-C that comes when an answer has just ended, and no line is being typed yet, is late, and means nothing.
func (t *conversation) run(ctx context.Context, from *terminal) error {
	defer t.app.interrupts.take(func() {})()
	for {
		text, err := from.read(ctx)
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		case strings.TrimSpace(text) == "":
			continue
		case strings.TrimSpace(text) == "/new":
			t.messages = t.prompter.chat.begin()
			continue
		}
		if err := t.answer(ctx, text); err != nil {
			if ctx.Err() != nil || t.app.out.(*writer).err != nil {
				return err
			}
			fmt.Fprintln(t.app.err, "exl2:", oneLine(err.Error()))
		}
	}
}

// answer answers one message. A message of which no answer has begun is
// forgotten.
func (t *conversation) answer(ctx context.Context, text string) error {
	inner, stop := context.WithCancel(ctx)
	defer stop()
	defer t.app.interrupts.take(stop)()
	stopped := func(err error) bool {
		return errors.Is(err, context.Canceled) && ctx.Err() == nil && t.app.out.(*writer).err == nil
	}
	messages := t.messages.Append(userMessage(text))
	prompt, room, err := t.turn(inner, messages)
	if stopped(err) {
		err = errors.New("stopped before an answer began")
	}
	if err != nil {
		return err
	}
	if t.options.chat.show {
		prompt.print(t.app.out)
	}
	r, err := t.app.generate(inner, t.dir, t.session, t.prompter.generation(t.options, prompt.IDs, room))
	if err != nil && !stopped(err) {
		return err
	}
	if len(r.Tokens) > 0 {
		t.messages = messages.Append(chat.Message("assistant", r.Text))
	}
	reason := "ended by " + string(r.Reason)
	if err != nil {
		reason = "stopped"
	}
	fmt.Fprintln(t.app.out)
	fmt.Fprintf(t.app.err, "(%d prompt tokens, %d of them cached, first token after %v; %d tokens, %.1f a second%s; %s)\n",
		r.PromptTokens, r.Cached, r.FirstToken.Round(time.Millisecond), len(r.Tokens), r.PerSecond, t.options.draft.told(r), reason)
	return nil
}

// turn returns the prompt of messages, and how many tokens may follow it.
func (t *conversation) turn(ctx context.Context, messages *jinja.List) (prompt *shownPrompt, room int, err error) {
	e := t.session.Engine
	if prompt, err = t.prompter.turn(ctx, messages); err != nil {
		return nil, 0, err
	}
	if room = e.Options.Positions - len(prompt.IDs); room < 1 {
		return nil, 0, fmt.Errorf("the conversation has %d tokens, the context %d; /new begins another, a larger --length has more room",
			len(prompt.IDs), e.Options.Positions)
	}
	if t.limited {
		room = min(room, t.options.tokens)
	}
	return prompt, room, t.prompter.known(prompt.IDs, e.Vocab())
}

// terminal returns the terminal that stdin and stdout are, or nil.
func (a *app) terminal() *terminal {
	w, ok := a.out.(*writer)
	if !ok {
		return nil
	}
	out, ok := w.to.(*os.File)
	if !ok {
		return nil
	}
	return newTerminal(os.Stdin, out, &a.interrupts)
}
