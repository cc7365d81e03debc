package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"exl2/infer/tokenizer"
	"exl2/internal/chat"
	"exl2/internal/jinja"
	"exl2/internal/regular"
)

// chatOptions are what flags say of conversations.
type chatOptions struct {
	on, show      bool
	system, tools string
	variables     []string
}

func (o *chatOptions) flags(f *pflag.FlagSet) {
	f.BoolVar(&o.on, "chat", false, "take the prompt for a message and write it as the model's chat template says")
	f.StringVar(&o.system, "system", "", "system message of the conversation")
	f.StringVar(&o.tools, "tools", "", "JSON file with a list of tools that the model may call, for its template")
	f.StringArrayVar(&o.variables, "template-var", nil, "variable of the chat template, NAME=JSON, as enable_thinking=false; may be repeated")
	f.BoolVar(&o.show, "show-prompt", false, "print the prompt and its token ids in front of the text; -t 0 prints nothing else")
}

func (o *chatOptions) check() error {
	if o.on {
		return nil
	}
	for name, given := range map[string]bool{"--system": o.system != "", "--tools": o.tools != "", "--template-var": len(o.variables) > 0} {
		if given {
			return usage("%s is for conversations; give --chat as well", name)
		}
	}
	return nil
}

// A renderer makes prompts of conversations.
type renderer struct {
	template     *chat.Template
	tokens       *jinja.Dict
	conversation chat.Conversation // without messages
	system       string
}

// renderer reads the template of the model in dir, and what flags give it.
func (o *chatOptions) renderer(ctx context.Context, dir string) (*renderer, error) {
	m, err := chat.Open(dir)
	if err != nil {
		return nil, err
	}
	r := &renderer{tokens: m.Tokens, system: o.system, conversation: chat.Conversation{Variables: &jinja.Dict{}}}
	if o.tools != "" {
		text, err := regular.Await(ctx, func() ([]byte, error) { return regular.ReadFile(o.tools, 16<<20) })
		if err != nil {
			return nil, fmt.Errorf("--tools: %w", err)
		}
		list, err := jinja.ParseJSON(text)
		if err != nil {
			return nil, fmt.Errorf("--tools %s: %w", o.tools, err)
		}
		if !areTools(list) {
			return nil, fmt.Errorf("--tools %s: want a list of tools, [{\"type\": \"function\", ...}]", o.tools)
		}
		r.conversation.Tools = list
	}
	for _, v := range o.variables {
		name, text, _ := strings.Cut(v, "=")
		value, err := jinja.ParseJSON([]byte(text))
		if err != nil || name == "" {
			return nil, usage(`--template-var %s: want NAME=JSON, a text in quotes: name="text"`, v)
		}
		r.conversation.Variables.Set(name, value)
	}
	r.template, err = m.Template(r.conversation.Tools != nil)
	return r, err
}

// areTools reports whether a value is a list of objects.
func areTools(v jinja.Value) bool {
	list, ok := v.(*jinja.List)
	for i := 0; ok && i < list.Len(); i++ {
		_, ok = list.At(i).(*jinja.Dict)
	}
	return ok
}

func userMessage(text string) *jinja.Dict { return chat.Message("user", text) }

// begin returns the messages with which every conversation begins.
func (r *renderer) begin() *jinja.List {
	if r.system == "" {
		return nil
	}
	return jinja.NewList(chat.Message("system", r.system))
}

// render returns the prompt of messages, up to where the answer begins if that is
// wanted.
func (r *renderer) render(messages *jinja.List, answer bool) (string, error) {
	c := r.conversation
	c.Messages, c.Answer = messages, answer
	return r.template.Prompt(&c, r.tokens)
}

// turn makes the prompt of messages that the model is to answer. Its special
// tokens are the template's; none is added.
func (p *prompter) turn(ctx context.Context, messages *jinja.List) (*shownPrompt, error) {
	text, err := p.chat.render(messages, true)
	if err != nil {
		return nil, err
	}
	ids, err := p.tokenizer.Encode(ctx, text, tokenizer.EncodeOptions{})
	if err != nil {
		return nil, err
	}
	return &shownPrompt{text, ids}, nil
}

// endAnswers has the template's end of an answer end texts.
func (p *prompter) endAnswers(ctx context.Context) {
	if p.chat != nil {
		p.end = append(p.end, p.answerEnd(ctx)...)
	}
}

// answerEnd returns the special token that the template puts behind an answer: a
// model that says it has ended its turn, whatever generation_config.json says.
// A template that has none, or does not take this conversation, gives no token.
func (p *prompter) answerEnd(ctx context.Context) []int32 {
	const answer = "Fine, thank you."
	messages := p.chat.begin().Append(userMessage("How are you?"), chat.Message("assistant", answer))
	text, err := p.chat.render(messages, false)
	at := strings.LastIndex(text, answer)
	if err != nil || at < 0 {
		return nil
	}
	ids, err := p.tokenizer.Encode(ctx, text[at+len(answer):], tokenizer.EncodeOptions{})
	if err != nil || len(ids) == 0 || !p.tokenizer.Special(ids[0]) {
		return nil
	}
	return ids[:1]
}
