package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"exl2/infer"
	"exl2/internal/regular"
)

// maxPrompt bounds a prompt, in bytes, of which a token has some.
const maxPrompt = 8 * infer.MaxPositions

// readPrompt returns the text to continue.
func (o *inferOptions) readPrompt(c *cobra.Command, stdin io.Reader) (string, error) {
	if c.Flags().Changed("prompt") {
		return o.prompt, nil
	}
	if o.promptFile != "" {
		data, err := regular.Await(c.Context(), func() ([]byte, error) { return regular.ReadFile(o.promptFile, maxPrompt) })
		if err != nil {
			return "", fmt.Errorf("--prompt-file: %w", err)
		}
		return plainText("--prompt-file "+o.promptFile, data)
	}
	data, err := regular.Await(c.Context(), func() ([]byte, error) { return regular.ReadAll(stdin, maxPrompt) })
	if err != nil {
		return "", fmt.Errorf("prompt from stdin: %w", err)
	}
	return plainText("prompt from stdin", data)
}

// plainText returns a text without the mark that may stand in front of UTF-8, and refuses
// what is none: a name is for messages.
func plainText(name string, data []byte) (string, error) {
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) {
		return "", fmt.Errorf("%s: UTF-16 text: convert it to UTF-8", name)
	}
	if i := bytes.IndexByte(data, 0); i >= 0 {
		return "", fmt.Errorf("%s: not text: byte %d is 0", name, i)
	}
	return strings.TrimPrefix(string(data), "\xef\xbb\xbf"), nil
}
