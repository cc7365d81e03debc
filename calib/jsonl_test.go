package calib

import (
	"reflect"
	"strings"
	"testing"
)

func TestJSONLines(t *testing.T) {
	text := func(row int, text string) Record { return Record{Row: row, Text: text} }
	cases := []struct {
		name, content, column string
		want                  []Record
	}{
		{"text", `{"id":1,"text":"a"}` + "\n" + `{"text":"b"}`, "", []Record{text(1, "a"), text(2, "b")}},
		{"blank lines and white space", "\n \t\r\n {\"text\" : \"a\" } \r\n\n\n{\"text\":\"b\"}\n\n", "", []Record{text(3, "a"), text(6, "b")}},
		{"byte order mark", "\xef\xbb\xbf{\"text\":\"a\"}", "", []Record{text(1, "a")}},
		{"escapes", `{"text":"a\nb\u00e9\ud83d\ude00\ud800\u0000"}`, "", []Record{text(1, "a\nbé😀\uFFFD\x00")}},
		{"invalid UTF-8", "{\"text\":\"a\xff\"}", "", []Record{text(1, "a\uFFFD")}},
		{"null and missing", `{"text":null}` + "\n{}\n" + `{"text":""}`, "", []Record{text(3, "")}},
		{"content", `{"a":"x","content":"c"}`, "", []Record{text(1, "c")}},
		{"text before content", `{"content":"c","text":"t"}`, "", []Record{text(1, "t")}},
		{"text of nothing", `{"text":[],"content":"c"}`, "", []Record{text(1, "c")}},
		{"all strings in order", `{"z":"1","n":2,"a":"3","l":["4",["5"]],"x":null,"b":true}`, "", []Record{text(1, "1 3 4 5")}},
		{"ids last", `{"id":"i","z":"1","m":{"sha1":"s","note":"n"}}`, "", []Record{text(1, "1 n i s")}},
		{"messages by another name", `{"n":1,"chat":[{"role":"user","text":"Hi"},{"role":"bot","text":"Yo","k":[["!"]]}]}`, "", []Record{text(1, "user Hi bot Yo")}},
		{"messages of a named column", `{"text":"no","chat":[{"content":"Hi","at":"1970","role":"user"}]}`, "chat", []Record{text(1, "user Hi")}},
		{"conversation of strings", `{"id":"x","conversations":["a","b"]}`, "", []Record{text(1, "a b")}},
		{"conversation that is null or empty", `{"id":"x","messages":null}` + "\n" + `{"id":"y","messages":[]}` + "\n" + `{"id":"z","messages":["a"]}`, "", []Record{text(3, "a")}},
		{"conversation written as text", `{"id":"x","messages":"[]"}`, "", []Record{text(1, "[] x")}},
		{"prompt that is null", `{"prompt":null,"answer":"a"}`, "", []Record{text(1, "a")}},
		{"records of different kinds", `{"text":"a"}` + "\n" + `{"messages":[{"role":"r","content":"c"}]}` + "\n" + `{"question":"q"}`, "", []Record{text(1, "a"), text(2, "r c"), text(3, "q")}},
		{"nested text", `{"text":["a",{"k":"b"},1,null]}`, "", []Record{text(1, "a b")}},
		{"no strings at all", `{"n":1}` + "\n" + `{"text":"a"}`, "", []Record{text(2, "a")}},
		{"key that stands twice", `{"text":"a","text":"b"}`, "", []Record{text(1, "b")}},
		{"keys are told apart by case", `{"Text":"a","text":"b"}`, "", []Record{text(1, "b")}},
		{"named column", `{"text":"a","other":"o"}` + "\n" + `{"text":"b"}`, "other", []Record{text(1, "o")}},
		{"named column that comes late", `{"text":"a"}` + "\n" + `{"other":"o"}`, "other", []Record{text(2, "o")}},
		{"named path", `{"meta":{"body":{"en":"b"}}}`, "meta.body.en", []Record{text(1, "b")}},
		{"named key with a dot", `{"a.b":"x","a":{"b":"y"}}`, "a.b", []Record{text(1, "x")}},

		{"numbers of Python", `{"score":NaN,"text":"a"}` + "\n" + `{"text":"NaN","l":[-Infinity,Infinity]}` + "\n" + `{"text":NaN}`, "", []Record{text(1, "a"), text(2, "NaN")}},
		{"list of objects", ` [{"text":"a"} , {"text":"b]"}` + "\n\n" + `,{"n":[{}]},{"text":"\"{" }] ` + "\n", "", []Record{text(1, "a"), text(2, "b]"), text(4, `"{`)}},
		{"list over several lines", "[\n  {\n    \"text\": \"a\"\n  }\n]\n", "", []Record{text(1, "a")}},
		{"list of token ids", `[{"input_ids":[1,2]},{"input_ids":[3]}]`, "", []Record{{Row: 1, IDs: []int32{1, 2}}, {Row: 2, IDs: []int32{3}}}},
		{"list of strings", "[\n \"a\", \"{\\\"b\\\": [\\\\\" ,\n\"\",\"c\\nd\"]\n", "", []Record{text(1, "a"), text(2, `{"b": [\`), text(3, ""), text(4, "c\nd")}},
		{"list of one string", `["a"]`, "", []Record{text(1, "a")}},
		{"list of strings, by the name that they have", `["a"]`, "text", []Record{text(1, "a")}},
		{"a link", `["A"](b.md) and more`, "", []Record{text(1, `["A"](b.md) and more`)}},
		{"a quotation in brackets", `["A" he said]`, "", []Record{text(1, `["A" he said]`)}},
		{"a list, then prose", `["A"] b`, "", []Record{text(1, `["A"] b`)}},
		{"a number in brackets, then prose", `[1] [2] see below`, "", []Record{text(1, "[1] [2] see below")}},
		{"object over several lines", "{\n  \"text\": \"a\",\n  \"n\": [\n    1\n  ]\n}\n", "", []Record{text(1, "a")}},
		{"objects over several lines", "{\n\"text\":\"a\"\n}\n{\n\"text\":\"b}\"\n}", "", []Record{text(1, "a"), text(2, "b}")}},
		{"objects in one line", `{"text":"a"}{"text":"b"} {"text":"c"}`, "", []Record{text(1, "a"), text(2, "b"), text(3, "c")}},
		{"lines that end as on early Macs", `{"text":"a"}` + "\r" + `{"text":"b"}` + "\r", "", []Record{text(1, "a"), text(2, "b")}},
		{"an object, then prose", "{\n\"text\":\"a\"\n}\nis an object", "", []Record{text(1, "{\n\"text\":\"a\"\n}\nis an object")}},
		{"prose in brackets", "[{Chapter} 1]\nIt rained.", "", []Record{text(1, "[{Chapter} 1]\nIt rained.")}},

		{"ids", `{"text":"no","input_ids":[1,2]}` + "\n" + `{"input_ids":[]}` + "\n" + `{"input_ids":null}` + "\n" + `{"input_ids":[ 3 ]}`, "",
			[]Record{{Row: 1, IDs: []int32{1, 2}}, {Row: 4, IDs: []int32{3}}}},
		{"ids, the first are none", `{"input_ids":[]}` + "\n" + `{"input_ids":[3]}`, "", []Record{{Row: 2, IDs: []int32{3}}}},
		{"ids that are no list", `{"input_ids":5,"text":"a"}`, "", []Record{text(1, "a")}},
		{"named ids", `{"text":"a","ids":[1]}`, "ids", []Record{{Row: 1, IDs: []int32{1}}}},
		{"ids in lists of lists beside a text", `{"text":"a","input_ids":[[1]]}`, "", []Record{{Row: 1, Text: "a"}}},
		{"text that is a number beside a content", `{"text":1,"content":"c"}`, "", []Record{{Row: 1, Text: "c"}}},
		{"text that is a number in some rows", `{"text":"a"}` + "\n" + `{"text":2019,"title":"t"}` + "\n" + `{"text":"b"}`, "", []Record{{Row: 1, Text: "a"}, {Row: 3, Text: "b"}}},
		{"text that comes late", `{"n":1,"source":null}` + "\n" + `{"n":1,"source":"a"}`, "", []Record{{Row: 2, Text: "a"}}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := readAll(place(t, "a.txt", []byte(c.content)), c.column)
			if err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("read %+v, %v\nwant %+v", got, err, c.want)
			}
		})
	}
}

func TestHostileJSONLines(t *testing.T) {
	cases := []struct{ name, content, column, want string }{
		{"damaged line", `{"text":"a"}` + "\n\n" + `{"text":"b`, "", `line 3: "text": unexpected EOF`},
		{"line cut off behind a colon", `{"text":"a"}` + "\n" + `{"text":`, "", `line 2: "text": unexpected EOF`},
		{"line cut off behind a comma", `{"text":"a"}` + "\n" + `{"text":"b",`, "", `line 2: not a JSON object: unexpected EOF`},
		{"nesting that is too deep for text", `{"text":` + strings.Repeat("[", 70) + `"a"` + strings.Repeat("]", 70) + `}`, "", `line 1: column "text": nested more than 64 levels deep`},
		{"line cut off", `{"text":"a"}` + "\n" + `{"text":"b"`, "", "line 2: a JSON object without an end"},
		{"another kind of line", `{"text":"a"}` + "\n" + `["text"]`, "", "line 2: not a JSON object"},
		{"text after the object", `{"text":"a"}` + "\n" + `{"text":"b"} {}`, "", "line 2: text after the JSON object"},
		{"comma too many", `{"text":"a"}` + "\n" + `{"text":"b",}`, "", "line 2: not a JSON object: "},
		{"deep nesting", `{"text":"a"}` + "\n" + `{"text":` + strings.Repeat("[", 100_000), "", "line 2: "},
		{"named column that is nowhere", `{"text":"a","b":1}` + "\n" + `{"c":1}`, "txt", `no column "txt"; there are text, b`},
		{"named column that is no text", `{"n":1}`, "n", `line 1: column "n" holds neither text nor token ids: numbers`},
		{"named column of lists of lists", `{"n":[[1]]}`, "n", `line 1: column "n" holds neither text nor token ids: lists of lists of numbers; token ids are a list of integers in each row`},
		{"ids in lists of lists", `{"input_ids":[[1,2],[3]]}`, "", `line 1: column "input_ids" holds neither text nor token ids: lists of lists of numbers`},
		{"ids in lists of lists beside text", `{"input_ids":[[1]],"source":"web"}`, "", `column "input_ids" holds neither text nor token ids`},
		{"one id in each line", `{"input_ids":1}`, "", `column "input_ids" holds neither text nor token ids: numbers`},
		{"ids in an object", `{"input_ids":{"a":[1]}}`, "", `no column of text or token ids; there are "input_ids" (objects)`},
		{"nothing at all", `{}`, "", `no column of text or token ids; there are none`},
		{"named column of nothing", `{}`, "txt", `no column "txt"; there are none`},
		{"no text at all", `{"n":1,"tokens":[1, 2],"ok":true}`, "", `no column of text or token ids; there are "n" (numbers), "tokens" (lists of numbers), "ok" (truths)`},
		{"text that is a number", `{"text":1,"title":"t"}`, "", `column "text" is not text: numbers; give --column, the column that is`},
		{"text that is an object of numbers", `{"text":{"a":1},"title":"t"}`, "", `column "text" is not text: objects`},
		{"content that is a number", `{"content":1,"title":"t"}`, "", `column "content" is not text: numbers`},
		{"damaged first line", `{"text":"a` + "\n" + `{"text":"b"}`, "", `line 1: "text": `},
		{"an object cut off, over several lines", "{\n\"text\":\"a\"\n}\n{\n\"text\":\"b\"\n", "", "record 2: a JSON object without an end"},
		{"prose behind objects", `{"text":"a"}{"text":"b"} or so`, "", `record 3: not a JSON object: it begins with 'o'`},
		{"list of numbers", `[1, 2]`, "", "JSON, lists of numbers: neither objects with a text nor texts"},
		{"list of nothing", `[]`, "", "JSON, lists of nothing"},
		{"list of token ids without a name", "[[1, 2],\n[3]]", "", `JSON, lists of lists of numbers: neither objects with a text nor texts; token ids are given as {"input_ids": [...]}, an object a line`},
		{"lists in lists in lists", strings.Repeat("[", 5000) + strings.Repeat("]", 5000), "", "JSON, lists: neither"},
		{"lists a line", "[1, 2]\n[3]\n", "", "JSON, lists of numbers"},
		{"list of lists of strings", `[["a","b"],["c"]]`, "", "JSON, lists of lists of texts"},
		{"list without an end", `[{"text":"a"}`, "", "record 2: the list has no end"},
		{"list cut off", `[{"text":"a"},{"text":"b`, "", "record 2: the list has no end"},
		{"list cut off behind an escape", `[{"text":"a"},{"text":"b\`, "", "record 2: the list has no end"},
		{"list of many kinds", `[{"text":"a"},["b"]]`, "", `record 2: not a JSON object: it begins with '['`},
		{"list of strings and other things", `["a",5]`, "", `record 2: not a JSON string: it begins with '5'`},
		{"list of strings and objects", `["a",{"text":"b"}]`, "", `record 2: not a JSON string: it begins with '{'`},
		{"list of strings cut off", `["a","b`, "", "record 2: the list has no end"},
		{"list of strings with a column", `["a"]`, "body", `no column "body"; there are text`},
		{"list without a comma", `[{"text":"a"} {"text":"b"}]`, "", `record 2: '{', want a comma or the end of the list`},
		{"list with a comma too many", `[{"text":"a"},]`, "", `record 2: not a JSON object: it begins with ']'`},
		{"text behind the list", `[{"text":"a"}] x`, "", `record 2: 'x' behind the end of the list`},
		{"damaged record", `[{"text":"a"},{"text":}]`, "", "record 2: "},
		{"id that is no number", `{"input_ids":[1]}` + "\n" + `{"input_ids":[1,"x"]}`, "", `line 2: column "input_ids": "x" is not a token id`},
		{"id in quotes", `{"input_ids":[5,"6",7,"8"]}`, "", `line 1: column "input_ids": "6" is not a token id`},
		{"id that is a list", `{"input_ids":[5,[6]]}`, "", `line 1: column "input_ids": [6] is not a token id`},
		{"id that is null", `{"input_ids":[1,null]}`, "", `line 1: column "input_ids": null is not a token id`},
		{"id with a fraction", `{"input_ids":[1,1.5]}`, "", `line 1: column "input_ids": 1.5 is not a token id`},
		{"negative id", `{"input_ids":[-1]}`, "", `line 1: column "input_ids": -1 is not a token id`},
		{"id beyond 31 bits", `{"input_ids":[2147483648]}`, "", `2147483648 is not a token id`},
		{"id beyond 64 bits", `{"input_ids":[1e400]}`, "", `1e400 is not a token id`},
		{"ids that are an object", `{"input_ids":[1]}` + "\n" + `{"input_ids":{"a":1}}`, "", `line 2: column "input_ids": not a list of token ids`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			path := place(t, "a.jsonl", []byte(c.content))
			_, err := readAll(path, c.column)
			wantError(t, err, path, c.want)
		})
	}
}

func TestLongLine(t *testing.T) {
	long := strings.Repeat("long ", 1<<18)
	got, err := readAll(place(t, "a.jsonl", []byte(`{"text":"a"}`+"\n"+`{"text":"`+long+`"}`)), "")
	if err != nil || len(got) != 2 || got[1].Text != long {
		t.Errorf("%d records, %v", len(got), err)
	}
}

func FuzzJSONLines(f *testing.F) {
	f.Add([]byte(`{"text":"a","n":[1,{"x":"y"}]}`+"\n"+`{"content":"b"}`), "")
	f.Add([]byte(`{"input_ids":[1,2,3]}`), "")
	f.Add([]byte(`[{"text":"a"}, {"input_ids":[NaN]}]`), "")
	f.Add([]byte(`{"a":{"b":"c"}}`), "a.b")
	f.Add([]byte(`{"text":"\ud800"}`+"\n"+`{"text":"`), "text")
	f.Fuzz(func(t *testing.T, content []byte, column string) {
		s := &Source{path: "fuzzed", close: func() error { return nil }}
		if err := s.recognize(strings.NewReader(string(content)), int64(len(content)), column); err != nil {
			return
		}
		row := 0
		for r, err := range s.Records() {
			if err != nil {
				return
			}
			if r.Row <= row || s.HasTokens() != (len(r.IDs) > 0) || r.Text != strings.ToValidUTF8(r.Text, "") {
				t.Errorf("row %d after %d: %+v", r.Row, row, r)
			}
			row = r.Row
		}
	})
}
