package tokenizer

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// bpeFile returns a tokenizer.json with the given fields beside a small model.
func bpeFile(fields string) string {
	if fields != "" {
		fields = ", " + fields
	}
	return `{"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}` + fields + `}`
}

// addedOf returns an added token of an id.
func addedOf(id string) string {
	return `{"id": ` + id + `, "content": "x", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}`
}

// longCharsmap returns a table with a replacement of 3000 bytes.
func longCharsmap() string {
	data := binary.LittleEndian.AppendUint32(nil, 4) // bytes of the trie, which is one empty unit
	data = binary.LittleEndian.AppendUint32(data, 0)
	return base64.StdEncoding.EncodeToString(append(data, strings.Repeat("b", 3000)+"\x00"...))
}

// nested returns a Sequence of Sequences.
func nested(key string, depth int) string {
	open := fmt.Sprintf(`{"type": "Sequence", "%s": [`, key)
	return strings.Repeat(open, depth) + strings.Repeat(`]}`, depth)
}

// TestDamagedJSON: each file is refused in one line that names the field.
func TestDamagedJSON(t *testing.T) {
	split := func(pattern string) string {
		quoted, _ := json.Marshal(pattern)
		return bpeFile(`"pre_tokenizer": {"type": "Split", "pattern": {"Regex": ` + string(quoted) + `}, "behavior": "Isolated", "invert": false}`)
	}
	model := func(fields string) string { return `{"model": {` + fields + `}}` }
	cases := []struct {
		name, file, want string
		unsupported      bool
	}{
		{"empty", ``, "unexpected end of JSON input", false},
		{"truncated", `{"model": {"type": "BPE", "vocab": {"a": 0`, "unexpected end of JSON input", false},
		{"not an object", `[1]`, "want an object", false},
		{"null", `null`, "null, want an object", false},
		{"no model", `{}`, "model: missing", false},
		{"version", bpeFile(`"version": "2.0"`), `version: "2.0": not supported`, true},
		{"unknown field", bpeFile(`"new_thing": 1`), "new_thing: unknown field", true},
		{"WordPiece", model(`"type": "WordPiece", "vocab": {}`), `model: type "WordPiece": not supported`, true},
		{"WordLevel", model(`"type": "WordLevel", "vocab": {}`), `model: type "WordLevel": not supported`, true},
		{"model without a type", model(`"vocab": {}`), "model.type: missing", false},
		{"dropout", model(`"type": "BPE", "dropout": 0.1, "vocab": {}, "merges": []`), "model.dropout: anything but null", true},
		{"unknown model field", model(`"type": "BPE", "magic": true, "vocab": {}, "merges": []`), "model.magic: unknown field", true},
		{"vocab list", model(`"type": "BPE", "vocab": [], "merges": []`), "model.vocab: want an object at byte 0", false},
		{"negative id", model(`"type": "BPE", "vocab": {"a": -1}, "merges": []`), `model.vocab: token "a": id -1`, false},
		{"huge id", model(`"type": "BPE", "vocab": {"a": 2000000000}, "merges": []`), `model.vocab: token "a": id 2000000000 is out of range`, false},
		{"id beyond 32 bits", model(`"type": "BPE", "vocab": {"a": 4294967296}, "merges": []`), `id 4294967296 is not a 32-bit number`, false},
		{"fraction", model(`"type": "BPE", "vocab": {"a": 1.5}, "merges": []`), `id 1.5 is not`, false},
		{"merge of strangers", model(`"type": "BPE", "vocab": {"a": 0}, "merges": ["a b"]`), `model.merges: merge 0: "b" is not in the vocabulary`, false},
		{"merge to a stranger", model(`"type": "BPE", "vocab": {"a": 0}, "merges": [["a", "a"]]`), `merge 0: "aa" is not in the vocabulary`, false},
		{"merge of three", model(`"type": "BPE", "vocab": {"a": 0}, "merges": ["a a a"]`), `merge 0: "a a a" is not two tokens`, false},
		{"merge of one", model(`"type": "BPE", "vocab": {"a": 0}, "merges": [["a"]]`), `merge 0: want a string`, false},
		{"unknown token missing", model(`"type": "BPE", "unk_token": "?", "vocab": {"a": 0}, "merges": []`), `model.unk_token: "?" is not in the vocabulary`, false},
		{"unk_id", model(`"type": "Unigram", "unk_id": 7, "vocab": [["a", -1]]`), "model.unk_id: 7 is not the id of one of the 1 pieces", false},
		{"no unk_id", model(`"type": "Unigram", "unk_id": null, "vocab": [["a", -1]]`), "model.unk_id: missing", false},
		{"score", model(`"type": "Unigram", "unk_id": 0, "vocab": [["a", "b"]]`), `model.vocab: piece "a": want a number`, false},
		{"long piece", model(`"type": "Unigram", "unk_id": 0, "vocab": [["` + strings.Repeat("a", 9000) + `", -1]]`), "9000 bytes long", true},
		{"normalizer", bpeFile(`"normalizer": {"type": "Magic"}`), `normalizer: type "Magic": not supported`, true},
		{"normalizer in a sequence", bpeFile(`"normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Magic"}]}`), `normalizer.normalizers[1]: type "Magic"`, true},
		{"normalizer field", bpeFile(`"normalizer": {"type": "NFC", "form": 1}`), "normalizer.form: unknown field", true},
		{"no charsmap", bpeFile(`"normalizer": {"type": "Precompiled"}`), "normalizer.precompiled_charsmap: missing", false},
		{"charsmap", bpeFile(`"normalizer": {"type": "Precompiled", "precompiled_charsmap": "/////w=="}`), "normalizer.precompiled_charsmap: a trie of 4294967295 bytes", false},
		{"pattern", bpeFile(`"normalizer": {"type": "Replace", "pattern": {"Glob": "*"}, "content": ""}`), "normalizer.pattern.Glob: unknown field", true},
		{"both patterns", bpeFile(`"normalizer": {"type": "Replace", "pattern": {"String": "a", "Regex": "a"}, "content": ""}`), "normalizer.pattern: want one of String and Regex", false},
		{"doubling", bpeFile(`"normalizer": {"type": "Sequence", "normalizers": [` + strings.Repeat(`{"type": "Replace", "pattern": {"String": "a"}, "content": "aa"},`, 40) + `{"type": "NFC"}]}`), "normalizer: may make a text more than 256 times as long", true},
		{"long prefix", bpeFile(`"normalizer": {"type": "Prepend", "prepend": "` + strings.Repeat("a", 1000) + `"}`), "normalizer: may make a text more than 256 times as long", true},
		{"long affix", model(`"type": "BPE", "continuing_subword_prefix": "` + strings.Repeat("#", 65) + `", "vocab": {}, "merges": []`), "model.continuing_subword_prefix: or end_of_word_suffix of 65 bytes", true},
		{"long replacement", bpeFile(`"normalizer": {"type": "Precompiled", "precompiled_charsmap": "` + longCharsmap() + `"}`), "normalizer.precompiled_charsmap: a replacement of 3000 bytes, more than 64", true},
		{"long decoder", bpeFile(`"decoder": {"type": "Replace", "pattern": {"Regex": "(?:a|aa){7}"}, "content": ""}`), "decoder.pattern: a regular expression that may take long", true},
		{"nested normalizers", bpeFile(`"normalizer": ` + nested("normalizers", 3000)), "normalizer: nested deeper than 16", true},
		{"nested decoders", bpeFile(`"decoder": ` + nested("decoders", 3000)), "decoder: nested deeper than 16", true},
		{"nested processors", bpeFile(`"post_processor": ` + nested("processors", 3000)), "post_processor: nested deeper than 16", true},
		{"scripts", bpeFile(`"pre_tokenizer": {"type": "UnicodeScripts"}`), `pre_tokenizer: type "UnicodeScripts": not supported`, true},
		{"behavior", bpeFile(`"pre_tokenizer": {"type": "Punctuation", "behavior": "Eaten"}`), `pre_tokenizer.behavior: "Eaten": not supported`, true},
		{"scheme", bpeFile(`"pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "often"}`), `pre_tokenizer.prepend_scheme: "often"`, true},
		{"replacement", bpeFile(`"pre_tokenizer": {"type": "Metaspace", "replacement": "ab"}`), `pre_tokenizer.replacement: "ab" is not one character`, false},
		{"fixed length", bpeFile(`"pre_tokenizer": {"type": "FixedLength", "length": 0}`), "pre_tokenizer.length: 0 is not positive", false},
		{"regex", split(`(a`), "pre_tokenizer.pattern: regex \"(a\": at character 2: ( without )", false},
		{"exponential regex", split(`(a+b?)+$`), "may take exponential time", true},
		{"back reference", split(`(a)\1`), `\1: not supported`, true},
		{"long regex", split(strings.Repeat("a", 5000)), ": regex of 5000 characters", true},
		{"decoder", bpeFile(`"decoder": {"type": "Magic"}`), `decoder: type "Magic"`, true},
		{"strip", bpeFile(`"decoder": {"type": "Strip", "content": " ", "start": -1, "stop": 0}`), "decoder.start: -1", false},
		{"post-processor", bpeFile(`"post_processor": {"type": "Magic"}`), `post_processor: type "Magic"`, true},
		{"template id", bpeFile(`"post_processor": {"type": "BertProcessing", "sep": ["a", 0], "cls": ["b", 99]}`), "post_processor: id 99 is not in the vocabulary", false},
		{"template name", bpeFile(`"post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "x", "type_id": 0}}], "pair": [], "special_tokens": {}}`), `post_processor.single[0]: "x" is not in special_tokens`, false},
		{"template without text", bpeFile(`"post_processor": {"type": "TemplateProcessing", "single": [], "pair": [], "special_tokens": {}}`), "post_processor.single: the text 0 times", true},
		{"added token of a negative id", bpeFile(`"added_tokens": [` + addedOf(`-1`) + `]`), "added_tokens[0].id: have a JSON number -1, want a whole number in range (uint32)", false},
		{"added token of a fraction", bpeFile(`"added_tokens": [` + addedOf(`0`) + `, ` + addedOf(`1.5`) + `]`), "added_tokens[1].id: have a JSON number 1.5, want", false},
		{"added token beyond 32 bits", bpeFile(`"added_tokens": [` + addedOf(`4294967296`) + `]`), "added_tokens[0].id: have a JSON number 4294967296, want", false},
		{"added token", bpeFile(`"added_tokens": [{"id": 0, "content": "x"}]`), "added_tokens[0].single_word: missing", false},
		{"added tokens", bpeFile(`"added_tokens": {"x": 1}`), "added_tokens: have a JSON object, want a list", false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, "tokenizer.json", c.file)
			_, err := Load(dir)
			checkRefusal(t, err, filepath.Join(dir, "tokenizer.json")+": ", c.want)
			if errors.Is(err, ErrUnsupported) != c.unsupported {
				t.Errorf("%v: wraps ErrUnsupported: %t", err, !c.unsupported)
			}
		})
	}
}

// write writes a file of a test's folder.
func write(t *testing.T, dir, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// checkRefusal checks that an error is one line that names file and field.
func checkRefusal(t *testing.T, err error, begin, want string) {
	t.Helper()
	if err == nil {
		t.Fatalf("loaded, want an error with %q", want)
	}
	text := err.Error()
	if !strings.HasPrefix(text, begin) || !strings.Contains(text, want) || strings.Contains(text, "\n") || len(text) > 600+len(begin) {
		t.Errorf("error %q, want one line %q...%q", text, begin, want)
	}
}

// Numbers of sentencepiece_model.proto.
const (
	unigramType, bpeType, wordType, charType                        = 1, 2, 3, 4
	normalPiece, unknownPiece, controlPiece, userPiece, unusedPiece = 1, 2, 3, 4, 5
)

// A protoPiece is a piece of a tokenizer.model made by a test.
type protoPiece struct {
	text  string
	score float32
	kind  uint64 // numbered as in sentencepiece_model.proto
}

// protoModel returns a tokenizer.model of a type.
func protoModel(modelType uint64, pieces ...protoPiece) []byte {
	var out []byte
	for _, p := range pieces {
		var b []byte
		b = protowire.AppendTag(b, 1, protowire.BytesType)
		b = protowire.AppendString(b, p.text)
		b = protowire.AppendTag(b, 2, protowire.Fixed32Type)
		b = protowire.AppendFixed32(b, f32(p.score))
		b = protowire.AppendTag(b, 3, protowire.VarintType)
		b = protowire.AppendVarint(b, p.kind)
		out = protowire.AppendTag(out, 1, protowire.BytesType)
		out = protowire.AppendBytes(out, b)
	}
	trainer := protowire.AppendTag(nil, 3, protowire.VarintType)
	trainer = protowire.AppendVarint(trainer, modelType)
	out = protowire.AppendTag(out, 2, protowire.BytesType)
	return protowire.AppendBytes(out, trainer)
}

// tiktokenBytes is a file of the tiktoken library of the 256 bytes.
func tiktokenBytes() []byte {
	var out []byte
	for b := range 256 {
		out = fmt.Appendf(out, "%s %d\n", base64.StdEncoding.EncodeToString([]byte{byte(b)}), b)
	}
	return out
}

// TestDamagedModel is TestDamagedJSON for tokenizer.model.
func TestDamagedModel(t *testing.T) {
	unk := protoPiece{"<unk>", 0, unknownPiece}
	good, err := os.ReadFile(filepath.Join(golden(t, "sp_bpe_gemma"), "tokenizer.model"))
	if err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name, want  string
		file        []byte
		unsupported bool
	}{
		{"empty", "no pieces", nil, false},
		{"truncated", "not a SentencePiece model: pieces: at byte", good[:len(good)/3], false},
		{"text", "not a SentencePiece model", []byte("hello, this is no model\n"), false},
		{"tiktoken", "a file of the tiktoken library of 256 tokens", tiktokenBytes(), true},
		{"truncated tiktoken", "no token for the byte 0x00", []byte("IQ== 0\nIg== 1\n"), false},
		{"WORD", "trainer_spec.model_type: WORD", protoModel(wordType, unk), true},
		{"CHAR", "trainer_spec.model_type: CHAR", protoModel(charType, unk), true},
		{"no unknown piece", "pieces: no unknown piece", protoModel(bpeType, protoPiece{"a", 0, normalPiece}), false},
		{"two unknown pieces", "pieces[1].type: a second unknown piece", protoModel(unigramType, unk, protoPiece{"x", 0, unknownPiece}), false},
		{"type", "pieces[1].type: 9", protoModel(bpeType, unk, protoPiece{"x", 0, 9}), true},
		{"empty piece", "pieces[1].piece: empty", protoModel(bpeType, unk, protoPiece{"", 0, normalPiece}), false},
		{"piece twice", `pieces[2].piece: "a" is pieces[1] already`, protoModel(bpeType, unk, protoPiece{"a", 0, normalPiece}, protoPiece{"a", 0, normalPiece}), false},
		{"score", "pieces[1].score: NaN", protoModel(bpeType, unk, protoPiece{"a", nan32, normalPiece}), false},
		{"unused piece", "pieces[1].type: an unused piece in a model of type BPE", protoModel(bpeType, unk, protoPiece{"a", 0, unusedPiece}), true},
		{"not UTF-8", "pieces[1].piece: at byte 1: not UTF-8", protoModel(bpeType, unk, protoPiece{"\xff", 0, normalPiece}), false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, "tokenizer.model", string(c.file))
			_, err := Load(dir)
			checkRefusal(t, err, filepath.Join(dir, "tokenizer.model")+": ", c.want)
			if errors.Is(err, ErrUnsupported) != c.unsupported {
				t.Errorf("%v: wraps ErrUnsupported: %t", err, !c.unsupported)
			}
		})
	}
}

func TestNoTokenizer(t *testing.T) {
	dir := t.TempDir()
	for _, dir := range []string{dir, filepath.Join(dir, "missing")} {
		_, err := Load(dir)
		checkRefusal(t, err, dir+": ", "no tokenizer.json and no tokenizer.model")
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v does not wrap fs.ErrNotExist", err)
		}
	}
	for _, name := range []string{"tekken.json", "vocab.json", "spiece.model", "sentencepiece.bpe.model", "vocab.txt"} {
		dir := t.TempDir()
		write(t, dir, name, "{}")
		_, err := Load(dir)
		checkRefusal(t, err, dir+": ", name)
		if !errors.Is(err, fs.ErrNotExist) || !errors.Is(err, ErrUnsupported) {
			t.Errorf("%v does not wrap fs.ErrNotExist and ErrUnsupported", err)
		}
	}
}
