package chat

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"exl2/internal/jinja"
)

// A Conversation is what a template turns into a prompt.
type Conversation struct {
	Messages  *jinja.List // of dicts, as {"role": "user", "content": "..."}
	Tools     jinja.Value // a list of JSON schemas; nil if there are none
	Documents jinja.Value // a list of dicts; nil if there are none
	Answer    bool        // end with what begins the model's answer
	Continue  bool        // end inside the last message, which the model goes on with
	Variables *jinja.Dict // more variables of the template; they win over the special tokens

	Now func() time.Time // what the template takes for the time; nil is the clock
}

// Message returns a message of text.
func Message(role, content string) *jinja.Dict {
	m := &jinja.Dict{}
	m.Set("role", role)
	m.Set("content", content)
	return m
}

// A Template is a chat template that has been read.
type Template struct {
	name, source string
	jinja        *jinja.Template
}

// Parse reads a template; the name is for messages.
func Parse(name, source string) (*Template, error) {
	t, err := jinja.Parse(name, source)
	if err != nil {
		return nil, refused(err)
	}
	return &Template{name, source, t}, nil
}

// continueTag is what transformers puts behind a message that is to be continued,
// to find its end again.
const continueTag = "CONTINUE_FINAL_MESSAGE_TAG "

// Render returns the prompt of a conversation, in which the special tokens, as
// "bos_token", are variables.
func (t *Template) Render(c *Conversation, tokens *jinja.Dict) (string, error) {
	if c.Messages.Len() == 0 {
		return "", errors.New("a conversation without messages has no prompt")
	}
	if c.Continue && c.Answer {
		return "", errors.New("a prompt cannot both continue the last message and begin another")
	}
	messages, last := c.Messages, ""
	if c.Continue {
		var err error
		if messages, last, err = t.tagged(messages); err != nil {
			return "", err
		}
	}
	variables := &jinja.Dict{}
	variables.Set("messages", messages)
	variables.Set("tools", c.Tools)
	variables.Set("documents", c.Documents)
	variables.Set("add_generation_prompt", c.Answer)
	variables.Update(tokens)
	variables.Update(c.Variables)
	text, err := t.jinja.Render(variables, jinja.Options{Now: c.Now})
	if err != nil || !c.Continue {
		return text, refused(err)
	}
	return cut(text, last)
}

// tagged returns the messages with continueTag behind the last, and that one's
// text.
func (t *Template) tagged(messages *jinja.List) (*jinja.List, string, error) {
	if !strings.Contains(t.source, "content") {
		return nil, "", errors.New(`the template does not use "content", which is to be continued`)
	}
	n := messages.Len()
	d, ok := messages.At(n - 1).(*jinja.Dict)
	if !ok {
		return nil, "", errors.New("the last message is not an object")
	}
	content, _ := d.Get("content")
	var text string
	switch v := content.(type) {
	case string:
		text, content = v, v+continueTag
	case *jinja.List:
		blocks, last, err := taggedBlock(v)
		if err != nil {
			return nil, "", err
		}
		text, content = last, blocks
	case nil:
		return nil, "", errors.New(`the last message has no "content" to continue`)
	default:
		return nil, "", fmt.Errorf("the last message's content is a %T, want text", v)
	}
	d = d.Copy()
	d.Set("content", content)
	return messages.With(n-1, d), text, nil
}

// taggedBlock puts the tag behind the last text of a content of several parts.
func taggedBlock(blocks *jinja.List) (*jinja.List, string, error) {
	for i := blocks.Len() - 1; i >= 0; i-- {
		if b, ok := blocks.At(i).(*jinja.Dict); ok {
			v, _ := b.Get("text")
			if text, ok := v.(string); ok {
				b = b.Copy()
				b.Set("text", text+continueTag)
				return blocks.With(i, b), text, nil
			}
		}
	}
	return nil, "", errors.New("the last message has no text to continue")
}

// cut ends a prompt where the last message's text ends.
func cut(prompt, last string) (string, error) {
	tag := strings.TrimSpace(continueTag)
	at := strings.LastIndex(prompt, tag)
	if at < 0 || !strings.Contains(prompt, jinja.Strip(last)) {
		return "", errors.New("the template leaves out the text of the last message, which is to be continued")
	}
	if strings.HasPrefix(prompt[at:], continueTag) {
		return prompt[:at], nil
	}
	return jinja.StripRight(prompt[:at]), nil
}
