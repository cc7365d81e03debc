package tokenizer_test

import (
	"context"
	"fmt"
	"log"
	"path/filepath"

	"exl2/infer/tokenizer"
)

// Text to ids and back, at once and as the ids come.
func Example() {
	t, err := tokenizer.Load(filepath.Join("..", "..", "testdata", "models", "tiny"))
	if err != nil {
		log.Fatal(err)
	}
	ids, err := t.Encode(context.Background(), "naïve café", tokenizer.EncodeOptions{BOS: true})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(ids)
	bos, _ := t.BOS()
	fmt.Println("begins with BOS:", ids[0] == bos)
	fmt.Println(t.Decode(ids, tokenizer.DecodeOptions{SkipSpecial: true}))

	s := t.NewStream(tokenizer.DecodeOptions{SkipSpecial: true})
	for _, id := range ids {
		fmt.Printf("%q ", s.Next(id)) // whole characters only
	}
	fmt.Printf("%q\n", s.Flush())

	// Output:
	// [0 83 70 133 113 328 981 75 541]
	// begins with BOS: true
	// naïve café
	// "" "n" "a" "" "ï" "ve" " ca" "f" "é" ""
}
