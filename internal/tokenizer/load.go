package tokenizer

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"

	"exl2/internal/regular"
)

// maxFile bounds the size of a tokenizer's files; the largest known are 40 MB.
const maxFile = 1 << 28

// Load reads the tokenizer of a model's folder: tokenizer.json if it is there,
// else tokenizer.model. Beside it tokenizer_config.json, special_tokens_map.json
// and, for tokenizer.model, added_tokens.json are read if they are there.
//
// The error wraps fs.ErrNotExist if the folder has no tokenizer, and
// ErrUnsupported if the tokenizer asks for something that is not implemented.
func Load(dir string) (*Tokenizer, error) {
	for _, kind := range []struct {
		name string
		read func(data []byte) (*Tokenizer, error)
	}{
		{"tokenizer.json", parseJSON},
		{"tokenizer.model", parseModel},
	} {
		data, err := readFile(dir, kind.name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var t *Tokenizer
		if err == nil {
			t, err = kind.read(data)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Join(dir, kind.name), err)
		}
		if err := t.configure(dir); err != nil {
			return nil, err
		}
		return t, nil
	}
	return nil, fmt.Errorf("%s: no tokenizer.json and no tokenizer.model: %w", dir, fs.ErrNotExist)
}

// readFile reads a file of a bounded size.
func readFile(dir, name string) ([]byte, error) {
	return regular.Read(filepath.Join(dir, name), maxFile)
}

// parseJSON reads a tokenizer.json.
func parseJSON(data []byte) (*Tokenizer, error) {
	f, err := newFields("", data)
	if err != nil {
		return nil, err
	}
	f.ignore("truncation", "padding") // of batches, which this package does not make
	if v := f.strOr("version", "1.0"); v != "1.0" {
		f.refuse("version", "%q", v)
	}
	model, normalizer, preTokenizer := f.need("model"), f.take("normalizer"), f.take("pre_tokenizer")
	postProcessor, decoder, addedTokens := f.take("post_processor"), f.take("decoder"), f.take("added_tokens")
	t := &Tokenizer{bos: -1, eos: -1, stages: []stage{spaced}}
	for _, step := range []func() error{
		f.done,
		func() error { return t.readModel(model) },
		func() error { return t.readNormalizer(normalizer) },
		func() error { return t.readPreTokenizer(preTokenizer) },
		func() error { return t.readDecoder(decoder) },
		func() error { return t.readAddedTokens(addedTokens) },
		func() error { return t.readTemplate(postProcessor) },
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// readModel reads the model of a tokenizer.json. Files from before models had
// a type are told by their fields.
func (t *Tokenizer) readModel(data json.RawMessage) error {
	f, err := newFields("model", data)
	if err != nil {
		return err
	}
	kind := "BPE"
	if _, ok := f.raw["merges"]; !ok || f.raw["type"] != nil {
		kind = f.str("type")
	}
	if f.err != nil {
		return f.err
	}
	switch kind {
	case "BPE":
		t.model, t.vocab, err = readBPE(f)
	case "Unigram":
		t.model, t.vocab, err = readUnigram(f)
	default:
		err = unsupported("model", kind)
	}
	return err
}

// bytesInModel leaves the writing of words in byte-level characters to a BPE
// model, which does so only with words that it has not seen before.
func (t *Tokenizer) bytesInModel() {
	b, ok := t.model.(*bpe)
	n := len(t.split)
	if !ok || n == 0 {
		return
	}
	if _, ok := t.split[n-1].(bytesAsRunes); ok {
		b.bytewise = true
		t.split = t.split[:n-1]
	}
}

// readNormalizer reads the normalizer.
func (t *Tokenizer) readNormalizer(data json.RawMessage) (err error) {
	if err := checkPipeline("normalizer", data); err != nil {
		return err
	}
	t.norm, err = readNormalizer("normalizer", data)
	return err
}

// readPreTokenizer reads the splitters.
func (t *Tokenizer) readPreTokenizer(data json.RawMessage) (err error) {
	if err := checkPipeline("pre_tokenizer", data); err != nil {
		return err
	}
	t.split, err = readPreTokenizer("pre_tokenizer", data)
	t.bytesInModel()
	return err
}

// readDecoder reads the stages of decoding, if the file has any.
func (t *Tokenizer) readDecoder(data json.RawMessage) (err error) {
	if data == nil {
		return nil
	}
	if err := checkPipeline("decoder", data); err != nil {
		return err
	}
	t.stages, err = readDecoder("decoder", data)
	return err
}

// readAddedTokens reads the added tokens.
func (t *Tokenizer) readAddedTokens(data json.RawMessage) error {
	list, err := readAddedTokens(data)
	t.addTokens(list)
	return err
}

// readTemplate reads the post-processor.
func (t *Tokenizer) readTemplate(data json.RawMessage) (err error) {
	if err := checkPipeline("post_processor", data); err != nil {
		return err
	}
	if t.template, err = readTemplate("post_processor", data); err != nil {
		return err
	}
	return t.template.check(&t.vocab)
}

// isTiktoken reports whether a file is one of the tiktoken library, lines of a
// token in base64 and its rank: some models call theirs tokenizer.model.
func isTiktoken(data []byte) bool {
	line, _, _ := bytes.Cut(data, []byte("\n"))
	token, rank, ok := bytes.Cut(bytes.TrimSpace(line), []byte(" "))
	if !ok || len(token) == 0 {
		return false
	}
	_, err := base64.StdEncoding.DecodeString(string(token))
	_, err2 := strconv.ParseUint(string(rank), 10, 32)
	return err == nil && err2 == nil
}
