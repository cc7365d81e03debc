package infer_test

import (
	"context"
	"fmt"
	"log"
	"path/filepath"

	"exl2/infer"
	"exl2/infer/tokenizer"
)

var (
	ctx  = context.Background()
	tiny = filepath.Join("..", "testdata", "models", "tiny")
)

// A text is continued with the model's own tokenizer and settings.
func Example() {
	text, err := tokenizer.Load(tiny)
	if err != nil {
		log.Fatal(err)
	}
	settings, err := infer.ReadSettings(tiny)
	if err != nil {
		log.Fatal(err)
	}
	e, err := infer.Open(tiny, infer.Options{Devices: "cpu", Positions: 64})
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close()

	prompt, err := text.Encode(ctx, "The quick", tokenizer.EncodeOptions{BOS: true})
	if err != nil {
		log.Fatal(err)
	}
	g := &infer.Generation{Prompt: prompt, Limit: 12, End: settings.End, Text: text.NewStream(tokenizer.DecodeOptions{SkipSpecial: true})}
	r, err := e.Generate(ctx, g)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%q, ended by %s\n", r.Text, r.Reason)

	g.Sampler, g.Seed = settings.Sampler, 7 // instead of the most likely tokens
	if r, err = e.Generate(ctx, g); err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(r.Tokens), r.Reason)

	// Output:
	// "est pract! of the division of the", ended by length
	// 12 length
}

// How well a model predicts rows of tokens, and how far it is from its source.
func ExampleEngine_Perplexity() {
	source, err := infer.Open(tiny, infer.Options{Devices: "cpu", Positions: 64})
	if err != nil {
		log.Fatal(err)
	}
	defer source.Close()
	small, err := infer.Open(filepath.Join("..", "testdata", "golden", "exl2", "tiny-2.5bpw"), infer.Options{Devices: "cpu", Positions: 64})
	if err != nil {
		log.Fatal(err)
	}
	defer small.Close()

	rows := make([][]int32, 4)
	for i := range rows {
		for k := range 64 {
			rows[i] = append(rows[i], int32((i*97+k*k*31)%source.Vocab()))
		}
	}
	s, err := small.Perplexity(ctx, source, rows, func(*infer.Score) {})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(s.Tokens(), "tokens")
	fmt.Println("KL above 0:", s.KL().Mean > 0)

	// Output:
	// 252 tokens
	// KL above 0: true
}

// A caller that gives tokens himself: two sequences, of which the second begins
// like the first.
func ExampleEngine_Step() {
	e, err := infer.Open(tiny, infer.Options{Devices: "cpu", Positions: 512, Sequences: 2})
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close()
	prompt := make([]int32, 300)
	for i := range prompt {
		prompt[i] = int32(i * i % e.Vocab())
	}
	show := func(run, first int, logits [][]float32) {
		fmt.Printf("run %d: logits of %d tokens behind position %d\n", run, len(logits[0]), first)
	}
	if err := e.Step([]infer.Run{{Sequence: 0, IDs: prompt, Logits: 1}}, show); err != nil {
		log.Fatal(err)
	}
	shared := e.Share(1, 0, len(prompt))
	fmt.Println("shared:", shared)
	err = e.Step([]infer.Run{
		{Sequence: 0, First: 300, IDs: []int32{5}, Logits: 1},
		{Sequence: 1, First: shared, IDs: []int32{6}, Logits: 1},
	}, show)
	if err != nil {
		log.Fatal(err)
	}

	// Output:
	// run 0: logits of 2048 tokens behind position 299
	// shared: 256
	// run 0: logits of 2048 tokens behind position 300
	// run 1: logits of 2048 tokens behind position 256
}
