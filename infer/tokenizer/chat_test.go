package tokenizer_test

import (
	"testing"

	"exl2/internal/chat/chattest"
)

// The golden conversations are a part of what a tokenizer does, for programs that
// run the goldens.
func TestGoldenChat(t *testing.T) { chattest.Run(t) }
