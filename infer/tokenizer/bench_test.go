package tokenizer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"exl2/internal/goldens"
)

// benchText returns about a megabyte of mixed prose, code and data.
func benchText(b *testing.B) string {
	b.Helper()
	name := filepath.Join(goldens.Repository(b), "..", "shared", "data", "valid.txt")
	data, err := os.ReadFile(name)
	if err != nil {
		b.Skipf("needs %s: %v", name, err)
	}
	return string(data)
}

// BenchmarkEncode measures megabytes of text a second on one core, for each
// golden tokenizer.
func BenchmarkEncode(b *testing.B) {
	for _, dir := range goldens.Dirs(b, "tokenizer") {
		b.Run(filepath.Base(dir), func(b *testing.B) {
			text, tok := benchText(b), load(b, dir)
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				plain(b, tok, text)
			}
		})
	}
}

// BenchmarkHostile measures texts on which careless algorithms take quadratic time.
func BenchmarkHostile(b *testing.B) {
	texts := map[string]string{
		"letter": strings.Repeat("a", 1<<20),
		"space":  strings.Repeat(" ", 1<<20),
		"emoji":  strings.Repeat("👍", 1<<18),
	}
	for _, dir := range goldens.Dirs(b, "tokenizer") {
		tok := load(b, dir)
		for _, name := range []string{"letter", "space", "emoji"} {
			b.Run(filepath.Base(dir)+"/"+name, func(b *testing.B) {
				b.SetBytes(int64(len(texts[name])))
				for b.Loop() {
					plain(b, tok, texts[name])
				}
			})
		}
	}
}

// BenchmarkStream measures the decoding of one id.
func BenchmarkStream(b *testing.B) {
	for _, dir := range goldens.Dirs(b, "tokenizer") {
		b.Run(filepath.Base(dir), func(b *testing.B) {
			tok := load(b, dir)
			ids := plain(b, tok, benchText(b))
			s := tok.NewStream(DecodeOptions{})
			for i := 0; b.Loop(); i++ {
				s.Next(ids[i%len(ids)])
			}
		})
	}
}

// BenchmarkLoad measures the reading of a tokenizer.
func BenchmarkLoad(b *testing.B) {
	for _, dir := range goldens.Dirs(b, "tokenizer") {
		b.Run(filepath.Base(dir), func(b *testing.B) {
			for b.Loop() {
				load(b, dir)
			}
		})
	}
}
