package tokenizer

import "testing"

// A special token is one whatever normalizing makes of it: Llama 2's tokenizer.json says
// that its own are normalized, and its normalizer puts a ▁ in front.
func TestSpecialThoughNormalized(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "tokenizer.json", bpeFile(`"normalizer": {"type": "Prepend", "prepend": "▁"}, "added_tokens": [
		{"id": 3, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": true, "special": true},
		{"id": 4, "content": "<u>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": true, "special": false}]`))
	tok := load(t, dir)
	if !tok.Special(3) || tok.Special(4) {
		t.Errorf("<s> is special: %t, <u>: %t", tok.Special(3), tok.Special(4))
	}
	checkText(t, "Decode", tok.Decode([]int32{2, 3, 0}, DecodeOptions{SkipSpecial: true}), "ab a")
}
