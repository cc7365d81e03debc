package calib

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"
)

// A letters is a tokenizer whose ids are the bytes of the text, behind a 1 for
// every text.
type letters struct{ bytes *atomic.Int64 }

const start = 1

func (l letters) EncodePlain(text string) ([]int32, error) {
	if l.bytes != nil {
		l.bytes.Add(int64(len(text)))
	}
	ids := []int32{start}
	for _, b := range []byte(text) {
		ids = append(ids, int32(b))
	}
	return ids, nil
}

// show makes text of rows of letters.
func show(rows [][]int32) string {
	var all []string
	for _, row := range rows {
		var text []byte
		for _, id := range row {
			text = append(text, byte(id))
		}
		all = append(all, strings.ReplaceAll(string(text), "\x01", "^"))
	}
	return strings.Join(all, "|")
}

func open(t testing.TB, name string, content []byte) *Source {
	t.Helper()
	s, err := Open(place(t, name, content), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

const threeRecords = `{"text":"ab"}` + "\n" + `{"text":null}` + "\n" + `{"text":""}` + "\n" + `{"text":"cdefgh"}`

func TestRowsAndJoined(t *testing.T) {
	cases := []struct {
		name    string
		content string
		cut     func(*Source, Cut) ([][]int32, error)
		rows    int
		length  int
		head    []int32
		want    string
	}{
		{"every record alone", threeRecords, Rows, 0, 4, nil, "^ab^|^cde"},
		{"as many rows as wanted", threeRecords, Rows, 1, 4, nil, "^ab^"},
		{"fewer rows than wanted", threeRecords, Rows, 9, 4, nil, "^ab^|^cde"},
		{"the last row is full", threeRecords, Rows, 9, 11, nil, "^ab^^cdefgh"},
		{"head", threeRecords, Rows, 0, 4, []int32{'B'}, "B^ab|B^^c|Bdef"},
		{"joined by blank lines", threeRecords, Joined, 0, 5, nil, "^ab\n\n|\n\ncde"},
		{"joined with a head", threeRecords, Joined, 0, 5, []int32{'B'}, "B^ab\n|B\n\n\nc|Bdefg"},
		{"plain text is one record", "ab\ncd\n", Rows, 0, 3, nil, "^ab|\ncd"},
		{"plain text joined", "ab\ncd\n", Joined, 0, 3, nil, "^ab|\ncd"},
		{"ids", `{"input_ids":[65,66,67]}` + "\n" + `{"input_ids":[68]}`, Rows, 0, 2, nil, "AB|CD"},
		{"ids joined", `{"input_ids":[65,66,67]}` + "\n" + `{"input_ids":[68]}`, Joined, 0, 2, nil, "AB|CD"},
		{"more rows than can be counted", "abcd", Rows, 1 << 62, 2, nil, "^a|bc"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := open(t, "a.txt", []byte(c.content))
			rows, err := c.cut(s, Cut{Tokenizer: letters{}, Vocab: 256, Rows: c.rows, Length: c.length, Head: c.head})
			if got := show(rows); err != nil || got != c.want {
				t.Errorf("got  %q, %v\nwant %q", got, err, c.want)
			}
		})
	}
}

func TestNoRows(t *testing.T) {
	ids := `{"input_ids":[65,66,300]}`
	cases := []struct {
		name    string
		content string
		cut     Cut
		want    string
	}{
		{"too few tokens", "abc", Cut{Tokenizer: letters{}, Vocab: 256, Length: 5}, ": 4 tokens, a row needs 5: give more text or ask for shorter rows"},
		{"empty file", "", Cut{Tokenizer: letters{}, Vocab: 256, Length: 5}, " tokens, a row needs 5"},
		{"only nulls", `{"text":null}`, Cut{Tokenizer: letters{}, Vocab: 256, Length: 5}, " tokens, a row needs 5"},
		{"id outside the vocabulary", ids, Cut{Vocab: 256, Length: 2}, "line 1: token id 300 is not in the vocabulary of 256 tokens; ids must be of the model's own tokenizer"},
		{"tokenizer of another model", "abc", Cut{Tokenizer: letters{}, Vocab: 98, Length: 2}, "token id 98 is not in the vocabulary of 98 tokens; the tokenizer is another model's: give"},
		{"text without a tokenizer", "abc", Cut{Vocab: 256, Length: 2}, "holds text, and there is no tokenizer"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := open(t, "a.txt", []byte(c.content))
			_, err := Rows(s, c.cut)
			wantError(t, err, s.path, c.want)
			_, err = Joined(s, c.cut)
			wantError(t, err, s.path, c.want)
		})
	}
	s := open(t, "a.txt", []byte("abc"))
	for want, cut := range map[string]Cut{
		"-1 rows are too few":            {Tokenizer: letters{}, Vocab: 256, Rows: -1, Length: 2},
		"rows of 0 tokens are too short": {Tokenizer: letters{}, Vocab: 256},
		"rows of 1 tokens are too short": {Tokenizer: letters{}, Vocab: 256, Length: 1, Head: []int32{5}},
		"a vocabulary without tokens":    {Tokenizer: letters{}, Length: 2},
	} {
		if _, err := Rows(s, cut); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// TestReadNoFurtherThanNeeded has a damaged line behind much good text.
func TestReadNoFurtherThanNeeded(t *testing.T) {
	line := `{"text":"` + strings.Repeat("x", 999) + `"}` + "\n"
	s := open(t, "a.jsonl", []byte(strings.Repeat(line, 3000)+"damaged"))
	cut := Cut{Tokenizer: letters{}, Vocab: 256, Rows: 10, Length: 500}
	if rows, err := Rows(s, cut); err != nil || len(rows) != 10 {
		t.Errorf("Rows: %d rows, %v", len(rows), err)
	}
	if rows, err := Joined(s, cut); err != nil || len(rows) != 10 {
		t.Errorf("Joined: %d rows, %v", len(rows), err)
	}
	cut.Rows = 0
	_, err := Rows(s, cut)
	wantError(t, err, s.path, "line 3001: not a JSON object")
	_, err = Joined(s, cut)
	wantError(t, err, s.path, "line 3001: not a JSON object")
}

// TestLongTextIsCut tokenizes the beginning of a text of 40 MB.
func TestLongTextIsCut(t *testing.T) {
	s := open(t, "a.txt", []byte(strings.Repeat("0123456789ä", 4_000_000)))
	for name, rows := range map[string]func(*Source, Cut) ([][]int32, error){"Rows": Rows, "Joined": Joined} {
		t.Run(name, func(t *testing.T) {
			var seen atomic.Int64
			got, err := rows(s, Cut{Tokenizer: letters{&seen}, Vocab: 256, Rows: 2, Length: 12})
			if want := "^0123456789\xc3|\xa40123456789\xc3"; err != nil || show(got) != want {
				t.Errorf("got %q, %v, want %q", show(got), err, want)
			}
			if seen.Load() > 1<<18 {
				t.Errorf("%d bytes were tokenized", seen.Load())
			}
		})
	}
}

// A sparse is a tokenizer with one token for a thousand bytes, so that a text
// must be tokenized up to its end again and again.
type sparse struct{}

func (sparse) EncodePlain(text string) ([]int32, error) { return make([]int32, len(text)/1000), nil }

func TestLongTextIsReadOnIfTokensAreFew(t *testing.T) {
	s := open(t, "a.txt", []byte(strings.Repeat("0123456789", 200_000)))
	for name, rows := range map[string]func(*Source, Cut) ([][]int32, error){"Rows": Rows, "Joined": Joined} {
		got, err := rows(s, Cut{Tokenizer: sparse{}, Vocab: 1, Rows: 2000, Length: 1})
		if err != nil || len(got) != 2000 {
			t.Errorf("%s: %d rows, %v, want all 2000", name, len(got), err)
		}
	}
}

// TestSameRowsOnAnyNumberOfCores compares rows made by one core and by eight.
func TestSameRowsOnAnyNumberOfCores(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		values := rapid.SliceOfN(rapid.Map(rapid.StringN(0, 30, -1), func(s string) any { return s }), 1, 200).Draw(r, "texts")
		s := open(t, "a.parquet", writeParquet(t, []fixture{texts("text", values)}))
		cut := Cut{Tokenizer: letters{}, Vocab: 256, Rows: rapid.IntRange(0, 50).Draw(r, "rows"), Length: 1}
		var got [][][]int32
		for _, cores := range []int{1, 8} {
			before := runtime.GOMAXPROCS(cores)
			rows, err := Rows(s, cut)
			runtime.GOMAXPROCS(before)
			if err != nil {
				r.Fatal(err)
			}
			got = append(got, rows)
		}
		if !reflect.DeepEqual(got[0], got[1]) {
			r.Errorf("%q on one core, %q on eight", show(got[0]), show(got[1]))
		}
		var all []byte
		for _, v := range values {
			all = append(append(all, start), v.(string)...)
		}
		if cut.Rows > 0 {
			all = all[:min(len(all), cut.Rows)]
		}
		if flat := slices.Concat(got[0]...); len(flat) != len(all) || show([][]int32{flat}) != strings.ReplaceAll(string(all), "\x01", "^") {
			r.Errorf("got %q, want %q", show(got[0]), all)
		}
	})
}

func TestBuiltin(t *testing.T) {
	s := Builtin()
	defer s.Close()
	if s.Name() != "(default)" || s.HasTokens() {
		t.Errorf("name %q, tokens %v", s.Name(), s.HasTokens())
	}
	records, bytes := 0, 0
	for r, err := range s.Records() {
		if err != nil {
			t.Fatal(err)
		}
		if strings.TrimSpace(r.Text) == "" || strings.Contains(r.Text, "<|doc|>") {
			t.Errorf("row %d: %.40q", r.Row, r.Text)
		}
		records++
		bytes += len(r.Text)
	}
	if records < 300 || bytes < 400_000 {
		t.Errorf("%d records of %d bytes, want over 300 of over 400 kB", records, bytes)
	}
}

func TestBuiltinRows(t *testing.T) {
	cut := Cut{Tokenizer: letters{}, Vocab: 256, Length: 2048}
	whole, err := BuiltinRows(cut, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := Rows(Builtin(), cut)
	if err != nil {
		t.Fatal(err)
	}
	if len(whole) != len(text)+2 || !reflect.DeepEqual(whole[:len(text)], text) {
		t.Errorf("%d rows, want the %d of the text and two", len(whole), len(text))
	}
	random := whole[len(text):]
	for asked, noise := range map[int]int{1: 0, 7: 0, 8: 1, 15: 1, 16: 2, 100: 2, len(whole) - 1: 2} {
		t.Run(fmt.Sprint(asked), func(t *testing.T) {
			cut.Rows = asked
			got, err := BuiltinRows(cut, nil)
			if err != nil || len(got) != asked {
				t.Fatalf("%d rows, %v, want %d", len(got), err, asked)
			}
			if !reflect.DeepEqual(got[asked-noise:], random[:noise]) {
				t.Errorf("the last %d rows are not the random ones", noise)
			}
			checkSpread(t, got[:asked-noise], text)
		})
	}
	for _, asked := range []int{len(whole), len(whole) + 1, 1 << 40} {
		cut.Rows = asked
		if got, err := BuiltinRows(cut, nil); err != nil || !reflect.DeepEqual(got, whole) {
			t.Errorf("%d rows asked, %d got, %v", asked, len(got), err)
		}
	}
}

// checkSpread makes sure that chosen has rows of all in their order, with no
// gap much larger than another.
func checkSpread(t *testing.T, chosen, all [][]int32) {
	t.Helper()
	even := len(all) / max(len(chosen), 1)
	last := -1
	for _, row := range chosen {
		i := slices.IndexFunc(all, func(r []int32) bool { return reflect.DeepEqual(r, row) })
		if i <= last || last >= 0 && i-last > even+1 || last < 0 && i > even {
			t.Errorf("row %d of the set follows row %d, want steps of about %d", i, last, even)
		}
		last = i
	}
}

func TestRandomRows(t *testing.T) {
	cut := Cut{Tokenizer: letters{}, Vocab: 5000, Length: 2048, Head: []int32{7}}
	rows, err := BuiltinRows(cut, func(id int32) bool { return id < 100 })
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int32]bool{}
	for _, row := range rows[len(rows)-2:] {
		if len(row) != 2048 || row[0] != 7 {
			t.Fatalf("a row of %d tokens that begins with %d", len(row), row[0])
		}
		for _, id := range row[1:] {
			if id < 100 || id >= 5000 {
				t.Fatalf("token %d, want 100 to 4999", id)
			}
			seen[id] = true
		}
	}
	// 4094 draws of 4900 tokens meet 4900·(1-e^(-4094/4900)) = 2775 of them.
	if len(seen) < 2600 || len(seen) > 2950 {
		t.Errorf("%d different tokens, want about 2775", len(seen))
	}
	if _, err := BuiltinRows(cut, func(int32) bool { return true }); err == nil || !strings.Contains(err.Error(), "special") {
		t.Errorf("error %v, want one that says that all tokens are special", err)
	}
}

// TestRandomTokensStayTheSame pins the first random tokens: jobs and
// measurements of different versions of the program are comparable.
func TestRandomTokensStayTheSame(t *testing.T) {
	rows, err := BuiltinRows(Cut{Tokenizer: letters{}, Vocab: 32000, Length: 8}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := [][]int32{
		{23232, 8891, 10013, 18745, 17382, 2616, 21944, 27865},
		{28962, 2429, 21533, 9470, 10317, 5190, 22044, 28998},
	}
	if got := rows[len(rows)-2:]; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestSharedTextFills counts rows of the text that perplexity is measured on.
func TestSharedTextFills(t *testing.T) {
	path := "../../shared/data/valid.txt"
	stat, err := os.Stat(path)
	if err != nil {
		t.Skip("../shared/data/valid.txt is not there")
	}
	s, err := Open(filepath.Clean(path), "")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	rows, err := Joined(s, Cut{Tokenizer: letters{}, Vocab: 256, Length: 1024})
	if want := (int(stat.Size()) + 1) / 1024; err != nil || len(rows) != want {
		t.Errorf("%d rows, %v, want %d", len(rows), err, want)
	}
}

// TestHugePlainText reads the beginning of a file of a terabyte, most of which
// is a hole.
func TestHugePlainText(t *testing.T) {
	path := place(t, "a.txt", []byte(strings.Repeat("0123456789ä", 100_000)))
	if err := os.Truncate(path, 1<<40); err != nil {
		t.Skip("the file system has no files of a terabyte")
	}
	s, err := Open(path, "")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got, want := s.Describe(), `a.txt: text, such as "0123456789ä`; !strings.HasPrefix(got, want) {
		t.Errorf("described as %s", got)
	}
	cut := Cut{Tokenizer: letters{}, Vocab: 256, Rows: 1000, Length: 500}
	for name, rows := range map[string]func(*Source, Cut) ([][]int32, error){"Rows": Rows, "Joined": Joined} {
		if got, err := rows(s, cut); err != nil || len(got) != 1000 {
			t.Errorf("%s: %d rows, %v", name, len(got), err)
		}
	}
	cut.Rows = 1_000_000_000
	_, err = Joined(s, cut)
	wantError(t, err, path, "of plain text are over the 1073741824 that are read: cut the file")
}

// TestBeginningIsThatOfTheWhole compares the rows of a part of a text, which is
// read and cut off by several steps, with those of all of it.
func TestBeginningIsThatOfTheWhole(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		unit := rapid.StringOfN(rapid.RuneFrom([]rune("ab ä四\n😀")), 1, 20, -1).Draw(r, "unit") + "\xff"
		text := strings.Repeat(unit, 1<<17/len(unit)+1)
		cut := Cut{Tokenizer: letters{}, Vocab: 256, Length: rapid.IntRange(1, 300).Draw(r, "length")}
		s := open(t, "a.txt", []byte("."+text))
		whole, err := Joined(s, cut)
		if err != nil {
			r.Fatal(err)
		}
		cut.Rows = rapid.IntRange(1, len(whole)).Draw(r, "rows")
		if got, err := Joined(s, cut); err != nil || !reflect.DeepEqual(got, whole[:cut.Rows]) {
			r.Errorf("%d rows differ, %v", cut.Rows, err)
		}
	})
}
