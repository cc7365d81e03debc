// Package sentencepiece reads a tokenizer.model and encodes and decodes as the
// SentencePiece library does.
package sentencepiece

import (
	"fmt"
	"math"

	"exl2/infer/tokenizer/internal/jsonfields"
	"exl2/infer/tokenizer/internal/subword"
)

// Read reads a tokenizer.model.
func Read(data []byte) (*File, error) {
	f, err := readFile(data)
	switch {
	case err != nil:
		return nil, fmt.Errorf("not a SentencePiece model: %w", err)
	case len(f.pieces) == 0:
		return nil, fmt.Errorf("not a SentencePiece model: no pieces")
	case f.denormalizes:
		return nil, fmt.Errorf("denormalizer_spec: %w", jsonfields.ErrUnsupported)
	}
	return f, nil
}

// Model returns the model of the file's type.
func (m *File) Model() (subword.Model, error) {
	switch m.modelType {
	case bpeType:
		return m.bpe()
	case unigramType:
		return m.unigram()
	}
	return nil, fmt.Errorf("trainer_spec.model_type: %s: %w", modelTypeName(m.modelType), jsonfields.ErrUnsupported)
}

// BOS and EOS return the ids of the control pieces around a text, -1 for none.
func (m *File) BOS() int32 { return m.control(m.bos) }
func (m *File) EOS() int32 { return m.control(m.eos) }

// PrefixOnce leaves it to the caller to put a space before a text, and only
// there; decoding takes it away there, and not after tokens of other files.
func (m *File) PrefixOnce() { m.dummyPrefix, m.prefixOnce = false, true }

// Unknown returns the id of the unknown piece, -1 if there is none.
func (m *File) Unknown() int32 {
	if id, err := m.unknown(); err == nil {
		return id
	}
	return -1
}

// Special reports whether id is of a control piece.
func (m *File) Special(id int32) bool { return m.pieces[id].kind == controlPiece }

// modelTypeName names a type of model.
func modelTypeName(t int) string {
	switch t {
	case wordType:
		return "WORD"
	case charType:
		return "CHAR"
	}
	return fmt.Sprint(t)
}

// control returns id if it is that of a control piece, else -1.
func (m *File) control(id int) int32 {
	if id >= 0 && id < len(m.pieces) && m.pieces[id].kind == controlPiece {
		return int32(id)
	}
	return -1
}

// IDs returns the ids of the pieces by their texts.
func (m *File) IDs() (map[string]int32, error) {
	ids := make(map[string]int32, len(m.pieces))
	for id, p := range m.pieces {
		if before, ok := ids[p.text]; ok {
			return nil, fmt.Errorf("pieces[%d].piece: %q is pieces[%d] already", id, p.text, before)
		}
		ids[p.text] = int32(id)
	}
	return ids, nil
}

// unknown returns the id of the one unknown piece.
func (m *File) unknown() (int32, error) {
	unk := int32(-1)
	for id, p := range m.pieces {
		if p.kind == unknownPiece {
			if unk >= 0 {
				return 0, fmt.Errorf("pieces[%d].type: a second unknown piece", id)
			}
			unk = int32(id)
		}
	}
	if unk < 0 {
		return 0, fmt.Errorf("pieces: no unknown piece")
	}
	return unk, nil
}

// bytePieces returns the ids of the pieces of bytes, nil without byte fallback.
func (m *File) bytePieces() (*[256]int32, error) {
	if !m.fallback {
		return nil, nil
	}
	table := new([256]int32)
	seen := 0
	for id, p := range m.pieces {
		if p.kind != bytePiece {
			continue
		}
		b, ok := subword.ByteToken(p.text)
		if !ok {
			return nil, fmt.Errorf("pieces[%d].piece: %q is not a byte", id, p.text)
		}
		table[b] = int32(id)
		seen++
	}
	if seen != len(table) {
		return nil, fmt.Errorf("trainer_spec.byte_fallback: %d of 256 byte pieces", seen)
	}
	return table, nil
}

// matchable reports whether the model may cut a piece of this type from text.
func (k pieceKind) matchable() bool {
	return k == normalPiece || k == userPiece || k == unusedPiece
}

// unigram returns the model of type UNIGRAM.
func (m *File) unigram() (subword.Model, error) {
	p := subword.Pieces{Single: true, Texts: make([]string, len(m.pieces)), Scores: make([]float64, len(m.pieces))}
	var err error
	if p.Unk, err = m.unknown(); err != nil {
		return nil, err
	}
	if p.Fallback, err = m.bytePieces(); err != nil {
		return nil, err
	}
	lowest := float32(math.MaxFloat32)
	for id, piece := range m.pieces {
		if piece.kind == normalPiece {
			lowest = min(lowest, piece.score)
		}
		if piece.kind.matchable() {
			p.Texts[id] = piece.text
		}
		p.Scores[id] = float64(piece.score)
		switch piece.kind {
		case userPiece: // better than any logarithm of a probability; measured with SentencePiece 0.2.3
			p.Scores[id] = float64(float32(0.1 * float64(len(piece.text)-1)))
		case unusedPiece:
			p.Scores[id] = math.NaN()
		}
	}
	p.UnkScore = float64(lowest - subword.UnkPenalty)
	return subword.NewUnigram(p), nil
}
