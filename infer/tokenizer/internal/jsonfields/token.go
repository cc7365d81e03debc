package jsonfields

import "fmt"

// MaxToken is how long a token that is looked for in a text may be, in bytes:
// SentencePiece's own limit.
const MaxToken = 8000

// CheckToken refuses tokens that are too long to look for.
func CheckToken(text string) error {
	if len(text) >= MaxToken {
		return fmt.Errorf("%.20q...: %d bytes long, more than %d: %w", text, len(text), MaxToken, ErrUnsupported)
	}
	return nil
}
