package tiktoken

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"exl2/infer/tokenizer/internal/subword"
)

// file returns a file of the bytes and more tokens.
func file(more ...string) []byte {
	var out []byte
	for b := range 256 {
		out = fmt.Appendf(out, "%s %d\n", base64.StdEncoding.EncodeToString([]byte{byte(b)}), b)
	}
	for i, token := range more {
		out = fmt.Appendf(out, "%s %d\n", base64.StdEncoding.EncodeToString([]byte(token)), 256+i)
	}
	return out
}

// naive is the encoding of a word by its definition: merge the neighbours whose
// text has the lowest rank, again and again.
func naive(ranks map[string]int, word string) []int32 {
	if id, ok := ranks[word]; ok {
		return []int32{int32(id)}
	}
	var parts []string
	for i := range len(word) {
		parts = append(parts, word[i:i+1])
	}
	for {
		best, at := math.MaxInt, -1
		for i := range len(parts) - 1 {
			if rank, ok := ranks[parts[i]+parts[i+1]]; ok && rank < best {
				best, at = rank, i
			}
		}
		if at < 0 {
			break
		}
		parts = slices.Replace(parts, at, at+2, parts[at]+parts[at+1])
	}
	var ids []int32
	for _, p := range parts {
		ids = append(ids, int32(ranks[p]))
	}
	return ids
}

func TestModelIsTheDefinition(t *testing.T) {
	letters := rapid.SampledFrom([]rune("abé"))
	rapid.Check(t, func(t *rapid.T) {
		tokens := rapid.SliceOfNDistinct(rapid.StringOfN(letters, 2, 6, -1), 0, 20, rapid.ID).Draw(t, "tokens")
		tokens = slices.DeleteFunc(tokens, func(s string) bool { return len(s) == 1 })
		f, err := Read(file(tokens...))
		if err != nil {
			t.Fatal(err)
		}
		ranks := map[string]int{}
		for id, token := range f.tokens {
			ranks[token] = id
		}
		word := rapid.StringOfN(letters, 1, 40, -1).Draw(t, "word")
		if got, want := f.Model(f.IDs()).Encode(new(subword.Work), nil, word), naive(ranks, word); !slices.Equal(got, want) {
			t.Fatalf("%q with %q: %v, want %v", word, tokens, got, want)
		}
	})
}

func TestRefused(t *testing.T) {
	cases := []struct{ name, file, want string }{
		{"no bytes", "YQ== 0\n", "no token for the byte 0x00"},
		{"not base64", "a! 0\n", "token 0: \"a! 0\\n\": illegal base64"},
		{"no rank", "YQ==\n", "not a token in base64 and its rank"},
		{"a gap", "YQ== 1\n", "token 0: rank 1: not supported"},
		{"twice", "YQ== 0\nYQ== 1\n", `token 1: "a" is empty or there already`},
		{"long", base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("a"), 9000)) + " 0\n", "9000 bytes long"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if _, err := Read([]byte(c.file)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
	f, err := Read(file("ab"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Rules("tokenizer.model"); err == nil || !strings.Contains(err.Error(), "of 257 tokens") {
		t.Errorf("rules of an unknown file: %v", err)
	}
}

// FuzzRead: no file makes reading panic, nor encoding with its model.
func FuzzRead(f *testing.F) {
	f.Add(file("ab", "abc"), "abcab")
	f.Fuzz(func(t *testing.T, data []byte, word string) {
		file, err := Read(data)
		if err != nil || word == "" {
			return
		}
		file.Model(file.IDs()).Encode(new(subword.Work), nil, word)
	})
}
