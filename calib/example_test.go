package calib_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"exl2/calib"
)

// bytes is a tokenizer with a token for every byte.
type bytes struct{}

func (bytes) EncodePlain(text string) ([]int32, error) {
	var ids []int32
	for _, b := range []byte(text) {
		ids = append(ids, int32(b))
	}
	return ids, nil
}

// Rows of eight tokens of the conversations in a file, wherever its text is.
func Example() {
	dir, err := os.MkdirTemp("", "calib")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "chat.jsonl")
	chat := `{"id": "c0", "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello!"}]}`
	if err := os.WriteFile(path, []byte(chat), 0o666); err != nil {
		log.Fatal(err)
	}

	s, err := calib.Open(path, "")
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	fmt.Println(s.Describe())
	rows, err := calib.Rows(s, calib.Cut{Tokenizer: bytes{}, Vocab: 256, Rows: 2, Length: 8})
	if err != nil {
		log.Fatal(err)
	}
	for _, row := range rows {
		fmt.Println(row)
	}

	// Output:
	// chat.jsonl: text of messages, such as "user Hi assistant Hello!"
	// [117 115 101 114 32 72 105 32]
	// [97 115 115 105 115 116 97 110]
}
