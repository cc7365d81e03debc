package tokenizer

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"exl2/infer/tokenizer/internal/decode"
	"exl2/infer/tokenizer/internal/normalize"
	"exl2/infer/tokenizer/internal/split"
)

// TestComponents compares each component by itself with what the tokenizers
// library, version 0.23.3, makes of the same input; testdata/components.py
// wrote the cases.
func TestComponents(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "components.json"))
	if err != nil {
		t.Fatal(err)
	}
	var groups []struct {
		Kind   string
		Config json.RawMessage
		Cases  []struct{ In, Out json.RawMessage }
	}
	if err := json.Unmarshal(data, &groups); err != nil {
		t.Fatal(err)
	}
	kinds := map[string]func(*testing.T, json.RawMessage, json.RawMessage) any{
		"normalizer":    runNormalizer,
		"pre_tokenizer": runPreTokenizer,
		"decoder":       runDecoder,
	}
	for i, g := range groups {
		t.Run(fmt.Sprintf("%s_%d", g.Kind, i), func(t *testing.T) {
			for _, c := range g.Cases {
				got, err := json.Marshal(kinds[g.Kind](t, g.Config, c.In))
				if err != nil {
					t.Fatal(err)
				}
				if want := compact(t, c.Out); string(got) != want {
					t.Errorf("%s of %s: got %s, want %s", g.Config, c.In, got, want)
				}
			}
		})
	}
}

// compact returns JSON as encoding/json writes it.
func compact(t *testing.T, raw json.RawMessage) string {
	t.Helper()
	var v any
	read(t, raw, &v)
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// read decodes JSON that must be good.
func read(t *testing.T, raw json.RawMessage, v any) {
	t.Helper()
	if err := json.Unmarshal(raw, v); err != nil {
		t.Fatal(err)
	}
}

func runNormalizer(t *testing.T, config, in json.RawMessage) any {
	t.Helper()
	n, err := normalize.Read("normalizer", config)
	if err != nil {
		t.Fatal(err)
	}
	var text string
	read(t, in, &text)
	out, _ := n(nil, text, normalize.Head(text))
	return out
}

func runPreTokenizer(t *testing.T, config, in json.RawMessage) any {
	t.Helper()
	list, err := split.Read("pre_tokenizer", config)
	if err != nil {
		t.Fatal(err)
	}
	var p split.Piece
	read(t, in, &p.Text)
	p.Head = normalize.Head(p.Text)
	pieces := []split.Piece{p}
	for _, s := range list {
		var cut []split.Piece
		for _, p := range pieces {
			if p.Text != "" {
				s.Split(nil, p, func(p split.Piece) { cut = append(cut, p) })
			}
		}
		pieces = cut
	}
	out := []string{}
	for _, p := range pieces {
		if p.Text != "" {
			out = append(out, p.Text)
		}
	}
	return out
}

func runDecoder(t *testing.T, config, in json.RawMessage) any {
	t.Helper()
	stages, err := decode.Read("decoder", config)
	if err != nil {
		t.Fatal(err)
	}
	var tokens []string
	read(t, in, &tokens)
	var out decode.Collector
	first := decode.Chain(stages, &out)
	for _, token := range tokens {
		first.Put(token, decode.Whole)
	}
	first.Close()
	return out.String()
}

// TestModels compares small models with random vocabularies, their added
// tokens and decoders with the tokenizers library, version 0.23.3.
func TestModels(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "models.json"))
	if err != nil {
		t.Fatal(err)
	}
	var models []struct {
		Name      string
		Tokenizer json.RawMessage
		Cases     []goldenCase
		Decode    []struct {
			IDs           []int32
			Decoded, Skip string
		}
	}
	if err := json.Unmarshal(data, &models); err != nil {
		t.Fatal(err)
	}
	for _, m := range models {
		t.Run(m.Name, func(t *testing.T) {
			tok, err := parseJSON(m.Tokenizer, new(settings))
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range m.Cases {
				checkCase(t, tok, c)
			}
			for _, d := range m.Decode {
				checkText(t, fmt.Sprint("Decode ", d.IDs), tok.Decode(d.IDs, DecodeOptions{}), d.Decoded)
				checkText(t, fmt.Sprint("NewStream ", d.IDs), streamed(t, tok.NewStream(DecodeOptions{}), d.IDs), d.Decoded)
				checkText(t, fmt.Sprint("DecodeSkip ", d.IDs), tok.Decode(d.IDs, DecodeOptions{SkipSpecial: true}), d.Skip)
			}
		})
	}
}

// TestAddedTokenFlags has the cases of the flags one by one; ids by the
// tokenizers library, version 0.23.3.
func TestAddedTokenFlags(t *testing.T) {
	const a, b, x, space = 0, 1, 2, 3
	cases := []struct {
		name  string
		flags string
		text  string
		want  []int32
	}{
		{"plain", ``, "aXb", []int32{a, 4, b}},
		{"single word inside a word", `single_word`, "aXb", []int32{a, x, b}},
		{"single word between spaces", `single_word`, "a X", []int32{a, space, 4}},
		{"lstrip", `lstrip`, "a  X b", []int32{a, 4, space, b}},
		{"rstrip", `rstrip`, "a X  b", []int32{a, space, 4, b}},
		{"both", `lstrip rstrip`, "  X  X  ", []int32{4, 4}},
		{"normalized in the text as given", `normalized`, "aXbx", []int32{a, 4, b, 4}},
		{"not normalized", ``, "axb", []int32{a, x, b}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			flag := func(name string) bool { return slices.Contains(strings.Fields(c.flags), name) }
			tok, err := parseJSON(fmt.Appendf(nil, `{"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "x": 2, " ": 3}, "merges": []},
				"normalizer": {"type": "Lowercase"},
				"added_tokens": [{"id": 4, "content": "X", "single_word": %t, "lstrip": %t, "rstrip": %t, "normalized": %t, "special": true}]}`,
				flag("single_word"), flag("lstrip"), flag("rstrip"), flag("normalized")), new(settings))
			if err != nil {
				t.Fatal(err)
			}
			checkIDs(t, c.text, plain(t, tok, c.text), c.want)
		})
	}
}
