package tokenizer

import "fmt"

// A vocabulary maps tokens to ids and back, added tokens included.
type vocabulary struct {
	ids     map[string]int32 // of the model's tokens; shared with the model
	size    int32            // how many tokens the model has
	added   map[string]int32
	tokens  []string // by id; "" with !known where there is a gap
	known   []bool
	special []bool
	shown   map[int32]string // what an added token decodes to, where that is not its text
}

// has reports whether id is a token's.
func (v *vocabulary) has(id int32) bool {
	return id >= 0 && int(id) < len(v.known) && v.known[id]
}

// text returns what a token is before the decoding stages.
func (v *vocabulary) text(id int32) string {
	if s, ok := v.shown[id]; ok {
		return s
	}
	return v.tokens[id]
}

// id returns the id of a token.
func (v *vocabulary) id(token string) (int32, bool) {
	if id, ok := v.added[token]; ok {
		return id, true
	}
	id, ok := v.ids[token]
	return id, ok
}

// count returns how many tokens there are, the id that the next one gets.
func (v *vocabulary) count() int32 {
	n := v.size
	for token := range v.added {
		if _, ok := v.ids[token]; !ok {
			n++
		}
	}
	return n
}

// add gives id an added token; an earlier token of that id is no longer what the id means.
func (v *vocabulary) add(token string, id int32) {
	v.added[token] = id
	v.grow(int(id) + 1)
	v.tokens[id], v.known[id] = token, true
}

// grow makes the tables hold n ids at least.
func (v *vocabulary) grow(n int) {
	if more := n - len(v.tokens); more > 0 {
		v.tokens = append(v.tokens, make([]string, more)...)
		v.known = append(v.known, make([]bool, more)...)
		v.special = append(v.special, make([]bool, more)...)
	}
}

// maxGap is how far ids may lie apart from the number of tokens: more is a
// damaged file, for which tables by id would be absurdly large.
const maxGap = 1 << 16

// checkID refuses ids that are far out of proportion to the number of tokens.
func checkID(token string, id int32, tokens int) error {
	if limit := 4*tokens + maxGap; int(id) >= limit {
		return fmt.Errorf("token %q: id %d is out of range for %d tokens", token, id, tokens)
	}
	return nil
}

// newVocabulary builds the tables of a model's tokens; ids is kept.
func newVocabulary(ids map[string]int32) (vocabulary, error) {
	v := vocabulary{ids: ids, size: int32(len(ids)), added: map[string]int32{}, shown: map[int32]string{}}
	for token, id := range ids {
		if err := checkID(token, id, len(ids)); err != nil {
			return v, err
		}
		v.grow(int(id) + 1)
		// Two tokens seldom share an id; which one it means must not depend on map order.
		if !v.known[id] || token < v.tokens[id] {
			v.tokens[id], v.known[id] = token, true
		}
	}
	return v, nil
}
