package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"exl2/infer/tokenizer/internal/decode"
	"exl2/infer/tokenizer/internal/jsonfields"
	"exl2/infer/tokenizer/internal/normalize"
	"exl2/infer/tokenizer/internal/sentencepiece"
	"exl2/infer/tokenizer/internal/split"
	"exl2/infer/tokenizer/internal/subword"
	"exl2/infer/tokenizer/internal/tiktoken"
	"exl2/internal/regular"
)

// maxFile bounds the size of a tokenizer's files; the largest known are 40 MB.
const maxFile = 1 << 28

// Load reads the tokenizer of a model's folder: tokenizer.json if it is there,
// else tokenizer.model, else a file of the tiktoken library. Beside it
// tokenizer_config.json, special_tokens_map.json and added_tokens.json are read
// if they are there.
//
// The error wraps fs.ErrNotExist if the folder has no tokenizer, and
// ErrUnsupported if the tokenizer asks for something that is not implemented, or
// if there are only files of a kind that is not read.
func Load(dir string) (*Tokenizer, error) {
	s, err := readSettings(dir)
	if err != nil {
		return nil, err
	}
	names := []string{"tokenizer.json", "tokenizer.model", "tiktoken.model"}
	others, err := regular.WithSuffix(dir, ".tiktoken")
	if err != nil {
		return nil, err
	}
	for _, path := range others {
		names = append(names, filepath.Base(path))
	}
	for _, name := range names {
		data, err := readFile(dir, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var t *Tokenizer
		if err == nil {
			t, err = parse(name, data, s)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Join(dir, name), err)
		}
		t.configure(s)
		return t, nil
	}
	return nil, none(dir)
}

// parse reads a tokenizer by the name of its file, and by what it looks like.
func parse(name string, data []byte, s *settings) (*Tokenizer, error) {
	switch {
	case name == "tokenizer.json":
		return parseJSON(data, s)
	case name == "tokenizer.model" && !tiktoken.Is(data):
		return parseModel(data, s)
	}
	return parseTiktoken(name, data, s)
}

// readFile reads a file of a bounded size.
func readFile(dir, name string) ([]byte, error) {
	return regular.Read(filepath.Join(dir, name), maxFile)
}

// parseJSON reads a tokenizer.json, to which s adds tokens.
func parseJSON(data []byte, s *settings) (*Tokenizer, error) {
	f, err := jsonfields.New("", data)
	if err != nil {
		return nil, err
	}
	f.Ignore("truncation", "padding") // of batches, which this package does not make
	if v := f.StrOr("version", "1.0"); v != "1.0" {
		f.Refuse("version", "%q", v)
	}
	model, normalizer, preTokenizer := f.Need("model"), f.Take("normalizer"), f.Take("pre_tokenizer")
	postProcessor, decoder, addedTokens := f.Take("post_processor"), f.Take("decoder"), f.Take("added_tokens")
	t := &Tokenizer{bos: -1, eos: -1, stages: []decode.Stage{decode.Spaced}}
	for _, step := range []func() error{
		f.Done,
		func() error { return t.readModel(model) },
		func() error { return t.readNormalizer(normalizer) },
		func() error { return t.readPreTokenizer(preTokenizer) },
		func() error { return t.readDecoder(decoder) },
		func() error { return t.readAddedTokens(addedTokens, s) },
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
	f, err := jsonfields.New("model", data)
	if err != nil {
		return err
	}
	kind := ""
	switch vocab := bytes.TrimSpace(f.Raw("vocab")); {
	case f.Has("type"):
		kind = f.Str("type")
	case f.Has("merges"):
		kind = "BPE"
	case bytes.HasPrefix(vocab, []byte("[")):
		kind = "Unigram"
	default:
		kind = f.Str("type")
	}
	if f.Err() != nil {
		return f.Err()
	}
	switch kind {
	case "BPE":
		t.model, t.vocab, err = readBPE(f)
	case "Unigram":
		t.model, t.vocab, err = readUnigram(f)
	default:
		err = jsonfields.Unsupported("model", kind)
	}
	return err
}

// bytesInModel leaves the writing of words in byte-level characters to a BPE
// model, which does so only with words that it has not seen before.
func (t *Tokenizer) bytesInModel() {
	b, ok := t.model.(*subword.BPE)
	n := len(t.split)
	if !ok || n == 0 {
		return
	}
	if _, ok := t.split[n-1].(split.Bytes); ok {
		b.Bytewise = true
		t.split = t.split[:n-1]
	}
}

// readNormalizer reads the normalizer.
func (t *Tokenizer) readNormalizer(data json.RawMessage) (err error) {
	if err := checkPipeline("normalizer", data); err != nil {
		return err
	}
	t.norm, err = normalize.Read("normalizer", data)
	return err
}

// readPreTokenizer reads the splitters.
func (t *Tokenizer) readPreTokenizer(data json.RawMessage) (err error) {
	if err := checkPipeline("pre_tokenizer", data); err != nil {
		return err
	}
	t.split, err = split.Read("pre_tokenizer", data)
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
	t.stages, err = decode.Read("decoder", data)
	return err
}

// readAddedTokens reads the added tokens.
func (t *Tokenizer) readAddedTokens(data json.RawMessage, s *settings) error {
	list, err := readAddedTokens(data)
	if err == nil {
		list, err = addToJSON(list, s)
	}
	if err != nil {
		return err
	}
	return t.addTokens(list)
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

// parseModel reads a tokenizer.model, to which s adds tokens.
func parseModel(data []byte, s *settings) (*Tokenizer, error) {
	f, err := sentencepiece.Read(data)
	if err != nil {
		return nil, err
	}
	t := &Tokenizer{pieces: true, spaceFirst: s.spaceFirst(), bos: f.BOS(), eos: f.EOS(), stages: []decode.Stage{f.Stage()}}
	if s.prefixOnce() {
		f.PrefixOnce()
	}
	ids, err := f.IDs()
	if err != nil {
		return nil, err
	}
	if t.vocab, err = newVocabulary(ids); err != nil {
		return nil, err
	}
	if t.model, err = f.Model(); err != nil {
		return nil, err
	}
	if t.norm, err = f.Normalizer(); err != nil {
		return nil, err
	}
	for _, id := range ids {
		t.vocab.special[id] = f.Special(id)
	}
	if s.found {
		err = t.addToPieces(s, f.Unknown())
	}
	return t, err
}
