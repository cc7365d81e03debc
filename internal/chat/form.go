package chat

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"exl2/internal/jinja"
)

// ErrUnsupported is in the chain of every error about a template that asks for what is
// not there, or that no message can be given to.
var ErrUnsupported = jinja.ErrUnsupported

// Prompt renders a conversation whose contents are texts, in the form that the template
// takes: templates of models that see pictures may want a list of parts,
// [{"type": "text", "text": ...}], and leave a text out. Whether they do is learnt by
// rendering the same roles with marks for texts, since templates strip and change what
// they are given.
func (t *Template) Prompt(c *Conversation, tokens *jinja.Dict) (string, error) {
	parts, missing := t.form(c, tokens)
	if missing >= 0 {
		if _, text := say(c.Messages.At(missing)); jinja.Strip(text) != "" {
			return "", fmt.Errorf("%s: the template leaves the user's message out, as a text and as a list of parts: %w; give the prompt without --chat", t.name, ErrUnsupported)
		}
	}
	given := *c
	given.Messages = shaped(c.Messages, parts, nil)
	return t.Render(&given, tokens)
}

// form returns the roles whose messages are lists of parts: none if the template then
// leaves no message out, or else those with which it leaves out the fewest. Missing is
// the message that it leaves out all the same, though it must not, or -1.
func (t *Template) form(c *Conversation, tokens *jinja.Dict) (parts []string, missing int) {
	roles := rolesOf(c.Messages)
	best, missing := c.Messages.Len()+1, -1
	for set := range 1 << len(roles) {
		var try []string
		for i, role := range roles {
			if set>>i&1 == 1 {
				try = append(try, role)
			}
		}
		out, err := t.leftOut(c, try, tokens)
		if err != nil || len(out) >= best {
			continue
		}
		if best, parts, missing = len(out), try, needed(c.Messages, out); best == 0 {
			break
		}
	}
	return parts, missing
}

// needed returns the last message if it is a user's, and left out. Others a template may
// leave out: system messages where it has no place for them, earlier turns where it looks at
// the last one only.
func needed(messages *jinja.List, out []int) int {
	last := messages.Len() - 1
	if role, _ := say(messages.At(last)); role == "user" && slices.Contains(out, last) {
		return last
	}
	return -1
}

// leftOut returns the messages that are not in the prompt when the roles in parts are
// given lists.
func (t *Template) leftOut(c *Conversation, parts []string, tokens *jinja.Dict) (out []int, err error) {
	probe := *c
	mark := func(i int) string { return fmt.Sprintf("qzmark%dqz", i) }
	probe.Messages = shaped(c.Messages, parts, mark)
	prompt, err := t.Render(&probe, tokens)
	prompt = strings.ToLower(prompt)
	for i := range c.Messages.Len() {
		if !strings.Contains(prompt, mark(i)) {
			out = append(out, i)
		}
	}
	return out, err
}

// shaped returns messages with lists of parts for contents where their role has them,
// and with marks for texts if there are marks.
func shaped(messages *jinja.List, parts []string, mark func(i int) string) *jinja.List {
	for i := range messages.Len() {
		role, text := say(messages.At(i))
		if mark != nil {
			text = mark(i)
		}
		m := Message(role, text)
		if slices.Contains(parts, role) {
			part := &jinja.Dict{}
			part.Set("type", "text")
			part.Set("text", text)
			m.Set("content", jinja.NewList(part))
		}
		messages = messages.With(i, m)
	}
	return messages
}

// rolesOf returns the roles of messages, each once.
func rolesOf(messages *jinja.List) (roles []string) {
	for i := range messages.Len() {
		if role, _ := say(messages.At(i)); !slices.Contains(roles, role) {
			roles = append(roles, role)
		}
	}
	return roles
}

// say returns the role and the text of a message that Message made.
func say(message jinja.Value) (role, text string) {
	d, _ := message.(*jinja.Dict)
	r, _ := d.Get("role")
	c, _ := d.Get("content")
	role, _ = r.(string)
	text, _ = c.(string)
	return role, text
}

// refused adds what to do to an error about what a template uses and is not there.
func refused(err error) error {
	if errors.Is(err, ErrUnsupported) {
		return fmt.Errorf("%w; mend the template there, or give the prompt without --chat", err)
	}
	return err
}
