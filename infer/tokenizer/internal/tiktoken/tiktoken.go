// Package tiktoken reads files of the tiktoken library: lines of a token in
// base64 and its rank, which is its id too. How texts are split, and which
// special tokens there are, stands in the programs that come with such files;
// it is known here for a few.
package tiktoken

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strconv"

	"exl2/infer/tokenizer/internal/jsonfields"
	"exl2/infer/tokenizer/internal/subword"
)

// A File is the tokens by rank.
type File struct{ tokens []string }

// Is reports whether a file is one of the tiktoken library.
func Is(data []byte) bool {
	line, _, _ := bytes.Cut(data, []byte("\n"))
	_, _, err := readLine(line)
	return err == nil
}

// readLine reads a token and its rank.
func readLine(line []byte) (token string, rank int, err error) {
	text, number, ok := bytes.Cut(bytes.TrimSpace(line), []byte(" "))
	if !ok || len(text) == 0 {
		return "", 0, fmt.Errorf("%.40q is not a token in base64 and its rank", line)
	}
	raw, err := base64.StdEncoding.DecodeString(string(text))
	if err != nil {
		return "", 0, fmt.Errorf("%.40q: %w", line, err)
	}
	rank, err = strconv.Atoi(string(number))
	return string(raw), rank, err
}

// Read reads a file. Ranks must rise by one from 0.
func Read(data []byte) (*File, error) {
	f := new(File)
	seen := map[string]bool{}
	for line := range bytes.Lines(data) {
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		token, rank, err := readLine(line)
		n := len(f.tokens)
		switch {
		case err != nil:
			return nil, fmt.Errorf("token %d: %w", n, err)
		case rank != n:
			return nil, fmt.Errorf("token %d: rank %d: %w", n, rank, jsonfields.ErrUnsupported)
		case token == "" || seen[token]:
			return nil, fmt.Errorf("token %d: %q is empty or there already", n, token)
		}
		if err := jsonfields.CheckToken(token); err != nil {
			return nil, fmt.Errorf("token %d: %w", n, err)
		}
		seen[token] = true
		f.tokens = append(f.tokens, token)
	}
	for b := range 256 {
		if !seen[string([]byte{byte(b)})] {
			return nil, fmt.Errorf("no token for the byte %#02x", b)
		}
	}
	return f, nil
}

// Len returns the number of tokens.
func (f *File) Len() int { return len(f.tokens) }

// IDs returns the ids of tokens, which are written in byte-level characters.
func (f *File) IDs() map[string]int32 {
	ids := make(map[string]int32, len(f.tokens))
	for id, token := range f.tokens {
		ids[subword.ByteLevel(token)] = int32(id)
	}
	return ids
}

// Model returns the model, with the ids that IDs returned: two neighbours merge
// if they are a token together, of all pairs the one of lowest rank.
func (f *File) Model(ids map[string]int32) *subword.BPE {
	b := subword.NewBPE(ids, subword.Rules{Unk: -1, Whole: true, Bytewise: true})
	ranks := make(map[string]int32, len(f.tokens))
	for id, token := range f.tokens {
		ranks[token] = int32(id)
	}
	for id, token := range f.tokens {
		for i := 1; i < len(token); i++ {
			left, ok := ranks[token[:i]]
			if right, ok2 := ranks[token[i:]]; ok && ok2 {
				b.MergeIDs(left, right, int32(id), int32(id))
			}
		}
	}
	return b
}
