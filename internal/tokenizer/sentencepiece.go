package tokenizer

import (
	"fmt"
	"math"
)

// parseModel reads a tokenizer.model.
func parseModel(data []byte) (*Tokenizer, error) {
	if isTiktoken(data) {
		return nil, fmt.Errorf("a file of the tiktoken library, not of SentencePiece; convert it to a tokenizer.json: %w", ErrUnsupported)
	}
	m, err := readModelFile(data)
	if err != nil {
		return nil, fmt.Errorf("not a SentencePiece model: %w", err)
	}
	switch {
	case len(m.pieces) == 0:
		return nil, fmt.Errorf("not a SentencePiece model: no pieces")
	case m.denormalizes:
		return nil, fmt.Errorf("denormalizer_spec: %w", ErrUnsupported)
	}
	t := &Tokenizer{pieces: true, bos: m.control(m.bos), eos: m.control(m.eos)}
	if t.vocab, err = m.vocabulary(); err != nil {
		return nil, err
	}
	switch m.modelType {
	case bpeType:
		t.model, err = m.bpe()
	case unigramType:
		t.model, err = m.unigram()
	default:
		return nil, fmt.Errorf("trainer_spec.model_type: %s: %w", modelTypeName(m.modelType), ErrUnsupported)
	}
	if err != nil {
		return nil, err
	}
	n, err := newPieceNormalizer(m)
	if err != nil {
		return nil, err
	}
	t.norm = rewrite(n.normalize)
	t.stages = []stage{newPieceDecoder(m)}
	for id, p := range m.pieces {
		t.vocab.special[id] = p.kind == controlPiece
	}
	return t, nil
}

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
func (m *modelFile) control(id int) int32 {
	if id >= 0 && id < len(m.pieces) && m.pieces[id].kind == controlPiece {
		return int32(id)
	}
	return -1
}

// vocabulary returns the tables of the pieces.
func (m *modelFile) vocabulary() (vocabulary, error) {
	ids := make(map[string]int32, len(m.pieces))
	for id, p := range m.pieces {
		if before, ok := ids[p.text]; ok {
			return vocabulary{}, fmt.Errorf("pieces[%d].piece: %q is pieces[%d] already", id, p.text, before)
		}
		ids[p.text] = int32(id)
	}
	return newVocabulary(ids)
}

// unknown returns the id of the one unknown piece.
func (m *modelFile) unknown() (int32, error) {
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
func (m *modelFile) bytePieces() (*[256]int32, error) {
	if !m.fallback {
		return nil, nil
	}
	table := new([256]int32)
	seen := 0
	for id, p := range m.pieces {
		if p.kind != bytePiece {
			continue
		}
		b, ok := byteToken(p.text)
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
func (m *modelFile) unigram() (model, error) {
	unk, err := m.unknown()
	if err != nil {
		return nil, err
	}
	u := &unigram{unk: unk, single: true}
	if u.fallback, err = m.bytePieces(); err != nil {
		return nil, err
	}
	lowest := float32(math.MaxFloat32)
	keys := make([]string, len(m.pieces))
	for id, p := range m.pieces {
		if p.kind == normalPiece {
			lowest = min(lowest, p.score)
		}
		if p.kind.matchable() {
			keys[id] = p.text
		}
	}
	for _, p := range m.pieces {
		score := float64(p.score)
		switch p.kind {
		case userPiece: // better than any logarithm of a probability; measured with SentencePiece 0.2.3
			score = float64(float32(0.1 * float64(len(p.text)-1)))
		case unusedPiece:
			score = math.NaN()
		}
		u.scores = append(u.scores, score)
	}
	u.unkScore = float64(lowest - unkPenalty)
	u.setPieces(keys)
	return u, nil
}
