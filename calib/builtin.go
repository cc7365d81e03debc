package calib

import (
	"bytes"
	_ "embed"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
)

// builtinSet is made by scripts/calibset.
//
//go:embed builtin.parquet
var builtinSet []byte

// Builtin returns the embedded set: 471 kB of text of eight kinds (code, data,
// dialogue, encyclopedia, European languages, fiction, web, other scripts),
// interleaved evenly. The smaller the vocabulary, the more tokens it has:
// about 110 thousand with a large one, 245 thousand with 2048 tokens.
func Builtin() *Source {
	s := &Source{path: "the built-in calibration set", label: "(default)", unit: "row", close: func() error { return nil }}
	if err := s.recognize(bytes.NewReader(builtinSet), int64(len(builtinSet)), ""); err != nil {
		panic("calib: the built-in set: " + err.Error())
	}
	return s
}

const (
	// randomRows of random tokens end the built-in set: ExLlamaV2 has two in its
	// own. They exercise tokens that no text has.
	randomRows = 2

	// textPerRandom is how many rows there are to a random one at least.
	textPerRandom = 8

	// The seed of the random tokens, for PCG of math/rand/v2: "exl2" and 1.
	seedHigh, seedLow = 0x65786c32, 1
)

// BuiltinRows returns the rows of the built-in set with two rows of random
// tokens at their end. If c.Rows is less than there are, as it is for
// measuring, the rows are taken from evenly spread places of the set, and one
// in eight at most is random: 14 and 2 of 16. The random tokens are the same
// for the same vocabulary; those that special tells of are not among them.
func BuiltinRows(c Cut, special func(id int32) bool) ([][]int32, error) {
	asked := c.Rows
	c.Rows = 0
	rows, err := Rows(Builtin(), c)
	if err != nil {
		return nil, err
	}
	random := randomRows
	if asked > 0 && asked < len(rows)+random {
		random = min(random, asked/textPerRandom)
		rows = spread(rows, asked-random)
	}
	noise, err := c.randomRows(random, special)
	return append(rows, noise...), err
}

// spread returns n of the rows, at most all, from the middles of n equal parts.
func spread(rows [][]int32, n int) [][]int32 {
	n = min(n, len(rows))
	chosen := make([][]int32, n)
	for i := range chosen {
		chosen[i] = rows[(2*i+1)*len(rows)/(2*n)]
	}
	return chosen
}

// randomRows makes rows of tokens that are drawn evenly from the vocabulary
// but for special tokens.
func (c Cut) randomRows(n int, special func(id int32) bool) ([][]int32, error) {
	const tries = 10_000
	draw := rand.New(rand.NewPCG(seedHigh, seedLow))
	rows := make([][]int32, n)
	for i := range rows {
		rows[i] = slices.Clone(c.Head)
		for failed := 0; len(rows[i]) < c.Length; {
			id := int32(draw.IntN(min(c.Vocab, math.MaxInt32)))
			if special == nil || !special(id) {
				rows[i] = append(rows[i], id)
			} else if failed++; failed > tries {
				return nil, errors.New("next to all tokens of the vocabulary are special: no random ones can be drawn")
			}
		}
	}
	return rows, nil
}
