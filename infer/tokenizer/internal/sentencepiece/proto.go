package sentencepiece

import (
	"fmt"
	"math"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"exl2/infer/tokenizer/internal/jsonfields"
)

// A pieceKind is the type of a piece in a tokenizer.model.
type pieceKind int

// The types of pieces, numbered as in sentencepiece_model.proto.
const (
	normalPiece pieceKind = iota + 1
	unknownPiece
	controlPiece
	userPiece
	unusedPiece
	bytePiece
)

// A modelPiece is one piece of a tokenizer.model; its place is its id.
type modelPiece struct {
	text  string
	score float32
	kind  pieceKind
}

// The types of models, numbered as in sentencepiece_model.proto.
const (
	unigramType = 1
	bpeType     = 2
	wordType    = 3
	charType    = 4
)

// A File is what a tokenizer.model says, as far as it matters for encoding
// and decoding. Fields that the file leaves out have SentencePiece's defaults.
type File struct {
	pieces []modelPiece

	modelType    int
	fallback     bool // unknown characters are written in byte pieces
	suffixSpace  bool // white space belongs to the end of words
	bos, eos     int  // ids
	unkSurface   string
	charsmap     []byte
	prefixOnce   bool // see PrefixOnce
	dummyPrefix  bool // a space is put before the text
	trimSpaces   bool // white space at the ends goes, inside runs of it become one
	escapeSpaces bool // spaces are written as '▁'
	denormalizes bool // decoded text is rewritten by another table
}

// readFile reads the protobuf message ModelProto. Names of fields are
// those of sentencepiece_model.proto; fields not listed do not matter here.
func readFile(data []byte) (*File, error) {
	m := &File{modelType: unigramType, bos: 1, eos: 2, unkSurface: " \u2047 ", dummyPrefix: true, trimSpaces: true, escapeSpaces: true}
	err := eachField("", data, map[protowire.Number]protoField{
		1: {"pieces", bytesField(m.readPiece)},
		2: {"trainer_spec", bytesField(m.readTrainer)},
		3: {"normalizer_spec", bytesField(m.readNormalizer)},
		5: {"denormalizer_spec", bytesField(m.readDenormalizer)},
	})
	return m, err
}

// maxScore bounds the scores of pieces, which are logarithms, or ranks in
// models of type BPE. NaN is not under it either.
const maxScore = 1e9

// readPiece reads a SentencePiece message.
func (m *File) readPiece(data []byte) error {
	p := modelPiece{kind: normalPiece}
	path := fmt.Sprintf("pieces[%d]", len(m.pieces))
	err := eachField(path, data, map[protowire.Number]protoField{
		1: {"piece", textField(&p.text)},
		2: {"score", floatField(&p.score)},
		3: {"type", intField((*int)(&p.kind))},
	})
	if err == nil && (p.kind < normalPiece || p.kind > bytePiece) {
		err = fmt.Errorf("%s.type: %d: %w", path, p.kind, jsonfields.ErrUnsupported)
	}
	if err == nil && p.text == "" {
		err = fmt.Errorf("%s.piece: empty", path)
	}
	if tooLong := jsonfields.CheckToken(p.text); err == nil && tooLong != nil {
		err = fmt.Errorf("%s.piece: %w", path, tooLong)
	}
	if err == nil && !(math.Abs(float64(p.score)) <= maxScore) {
		err = fmt.Errorf("%s.score: %v", path, p.score)
	}
	m.pieces = append(m.pieces, p)
	return err
}

// readTrainer reads a TrainerSpec message.
func (m *File) readTrainer(data []byte) error {
	return eachField("trainer_spec", data, map[protowire.Number]protoField{
		3:  {"model_type", intField(&m.modelType)},
		24: {"treat_whitespace_as_suffix", boolField(&m.suffixSpace)},
		35: {"byte_fallback", boolField(&m.fallback)},
		41: {"bos_id", intField(&m.bos)},
		42: {"eos_id", intField(&m.eos)},
		44: {"unk_surface", tokenField(&m.unkSurface)},
	})
}

// readNormalizer reads a NormalizerSpec message.
func (m *File) readNormalizer(data []byte) error {
	return eachField("normalizer_spec", data, map[protowire.Number]protoField{
		2: {"precompiled_charsmap", bytesField(func(b []byte) error { m.charsmap = b; return nil })},
		3: {"add_dummy_prefix", boolField(&m.dummyPrefix)},
		4: {"remove_extra_whitespaces", boolField(&m.trimSpaces)},
		5: {"escape_whitespaces", boolField(&m.escapeSpaces)},
	})
}

// readDenormalizer reads a NormalizerSpec message for decoded text.
func (m *File) readDenormalizer(data []byte) error {
	return eachField("denormalizer_spec", data, map[protowire.Number]protoField{
		2: {"precompiled_charsmap", bytesField(func(b []byte) error { m.denormalizes = len(b) > 0; return nil })},
	})
}

// A protoField is a field's name and what reads it.
type protoField struct {
	name string
	read func(t protowire.Type, data []byte) error // data is the value with the tag removed
}

// eachField reads the fields of a message that known lists and skips others.
func eachField(path string, data []byte, known map[protowire.Number]protoField) error {
	whole := len(data)
	for len(data) > 0 {
		num, t, n := protowire.ConsumeTag(data)
		if n < 0 {
			return protoError(path, "", whole-len(data), protowire.ParseError(n))
		}
		data = data[n:]
		field := known[num]
		n = protowire.ConsumeFieldValue(num, t, data)
		if n < 0 {
			return protoError(path, field.name, whole-len(data), protowire.ParseError(n))
		}
		if field.read != nil {
			if err := field.read(t, data[:n]); err != nil {
				if t == protowire.BytesType && num < 6 && path == "" {
					return err // it names its own field
				}
				return protoError(path, field.name, whole-len(data), err)
			}
		}
		data = data[n:]
	}
	return nil
}

// protoError names the place of an error.
func protoError(path, field string, at int, err error) error {
	if path != "" && field != "" {
		path += "."
	}
	if path += field; path != "" {
		path += ": "
	}
	return fmt.Errorf("%sat byte %d: %w", path, at, err)
}

// errWire says that a field is not encoded as its type is.
var errWire = fmt.Errorf("wrong wire type")

// bytesField reads bytes or a message.
func bytesField(read func([]byte) error) func(protowire.Type, []byte) error {
	return func(t protowire.Type, data []byte) error {
		if t != protowire.BytesType {
			return errWire
		}
		b, _ := protowire.ConsumeBytes(data)
		return read(b)
	}
}

// textField reads a string.
func textField(to *string) func(protowire.Type, []byte) error {
	return bytesField(func(b []byte) error {
		if !utf8.Valid(b) {
			return fmt.Errorf("not UTF-8")
		}
		*to = string(b)
		return nil
	})
}

// tokenField reads a string that is a token, and so short.
func tokenField(to *string) func(protowire.Type, []byte) error {
	read := textField(to)
	return func(t protowire.Type, data []byte) error {
		if err := read(t, data); err != nil {
			return err
		}
		return jsonfields.CheckToken(*to)
	}
}

// intField reads an int32 or an enumeration.
func intField(to *int) func(protowire.Type, []byte) error {
	return func(t protowire.Type, data []byte) error {
		if t != protowire.VarintType {
			return errWire
		}
		v, _ := protowire.ConsumeVarint(data)
		*to = int(int32(v))
		return nil
	}
}

// boolField reads a bool.
func boolField(to *bool) func(protowire.Type, []byte) error {
	var v int
	read := intField(&v)
	return func(t protowire.Type, data []byte) error {
		err := read(t, data)
		*to = v != 0
		return err
	}
}

// floatField reads a float.
func floatField(to *float32) func(protowire.Type, []byte) error {
	return func(t protowire.Type, data []byte) error {
		if t != protowire.Fixed32Type {
			return errWire
		}
		v, _ := protowire.ConsumeFixed32(data)
		*to = math.Float32frombits(v)
		return nil
	}
}
