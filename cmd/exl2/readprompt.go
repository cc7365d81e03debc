package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"exl2/calib"
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

// plainText is calib.Plain: a prompt is read as data are. name is for messages.
func plainText(name string, data []byte) (string, error) {
	text, err := calib.Plain(data)
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return text, nil
}
