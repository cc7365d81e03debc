package chat_test

import (
	"testing"

	"exl2/internal/chat/chattest"
)

func TestGolden(t *testing.T) { chattest.Run(t) }
