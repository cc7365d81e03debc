package tokenizer

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// Metaspace's "first" asks whether a piece begins where the text did, however much
// normalizers have put in front or taken away. Texts of tokens by the tokenizers
// library, version 0.23.3.
func TestFirst(t *testing.T) {
	vocab := map[string]int{}
	for i, r := range []rune("▁ abcdxyéeABĠâĸģÃ©\u0301") {
		vocab[string(r)] = i
	}
	tokens, err := json.Marshal(vocab)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ normalizers, splitters, text, want string }{
		{`{"type":"Prepend","prepend":"  "}`, `{"type":"WhitespaceSplit"}`, "ab c", "▁abc"},
		{`{"type":"Prepend","prepend":"▁"}`, `{"type":"CharDelimiterSplit","delimiter":"▁"}`, "ab c", "▁ab▁c"},
		{`{"type":"Prepend","prepend":"x y"}`, `{"type":"WhitespaceSplit"}`, "ab c", "▁x▁yabc"},
		{`{"type":"Prepend","prepend":"▁"},{"type":"NFC"}`, `{"type":"CharDelimiterSplit","delimiter":"▁"}`, "e\u0301b c", "▁éb▁c"},
		{`{"type":"Prepend","prepend":"▁"},{"type":"Lowercase"}`, `{"type":"CharDelimiterSplit","delimiter":"▁"}`, "AB c", "▁ab▁c"},
		{`{"type":"Prepend","prepend":" "},{"type":"Strip","strip_left":true,"strip_right":true}`, `{"type":"WhitespaceSplit"}`, "ab c", "▁abc"},
		{`{"type":"Prepend","prepend":"▁ "},{"type":"Strip","strip_left":false,"strip_right":true}`, `{"type":"CharDelimiterSplit","delimiter":"▁"}`, " b c ", "▁▁b▁c"},
		{`{"type":"Strip","strip_left":true,"strip_right":false},{"type":"Prepend","prepend":"▁"}`, `{"type":"CharDelimiterSplit","delimiter":"▁"}`, " ab c", "ab▁c"},
		{`{"type":"Replace","pattern":{"String":"ab"},"content":"x"},{"type":"Prepend","prepend":"▁"}`, `{"type":"CharDelimiterSplit","delimiter":"▁"}`, "abc", "xc"},
		{`{"type":"Replace","pattern":{"String":"a"},"content":"xy"},{"type":"Prepend","prepend":"▁"}`, `{"type":"CharDelimiterSplit","delimiter":"y"}`, "abc", "▁xbc"},
		{`{"type":"Prepend","prepend":"ab"},{"type":"Replace","pattern":{"String":"b"},"content":""}`, `{"type":"WhitespaceSplit"}`, "b c", "▁ac"},
		{`{"type":"Prepend","prepend":"▁"}`, `{"type":"CharDelimiterSplit","delimiter":"▁"},{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true}`, "\u00e9b c", "▁ĠÃ©bĠc"},
		{`{"type":"Prepend","prepend":"▁"}`, `{"type":"CharDelimiterSplit","delimiter":"▁"}`, "<s>ab c", "<s>ab▁c"},
		{``, `{"type":"WhitespaceSplit"}`, " ab c", "abc"},
	} {
		file := fmt.Sprintf(`{"model":{"type":"BPE","vocab":%s,"merges":[]},"added_tokens":[{"id":%d,"content":"<s>","special":true,"normalized":false,"single_word":false,"lstrip":false,"rstrip":false}],
			"normalizer":{"type":"Sequence","normalizers":[%s]},"pre_tokenizer":{"type":"Sequence","pretokenizers":[%s,{"type":"Metaspace","replacement":"▁","prepend_scheme":"first","split":true}]}}`,
			tokens, len(vocab), c.normalizers, c.splitters)
		tok, err := parseJSON([]byte(file), new(settings))
		if err != nil {
			t.Fatal(err)
		}
		ids, err := tok.Encode(context.Background(), c.text, EncodeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.ReplaceAll(tok.Decode(ids, DecodeOptions{}), " ", ""); got != c.want {
			t.Errorf("%s, %s: %q is %q, want %q", c.normalizers, c.splitters, c.text, got, c.want)
		}
	}
}
