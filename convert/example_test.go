package convert_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"exl2/convert"
	"exl2/infer"
)

// progress that says when a stage begins.
type progress struct{}

func (progress) Start(stage string, steps int) { fmt.Println(stage) }
func (progress) Step(what, note string)        {}
func (progress) Skip(what string)              {}
func (progress) Note(text string)              {}
func (progress) Warn(text string)              { fmt.Println("warning:", text) }

// A model of two small layers becomes one of 4 bits a weight, and runs. Run goes on
// where an earlier one has stopped, if one has.
func Example() {
	dir, err := os.MkdirTemp("", "convert")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	tokens := filepath.Join(dir, "tokens.jsonl") // calibration data, without a tokenizer
	if err := os.WriteFile(tokens, rows(20, 64), 0o666); err != nil {
		log.Fatal(err)
	}

	r, err := convert.Run(context.Background(), &convert.Options{
		Source: filepath.Join("..", "testdata", "golden", "arch", "llama"),
		Work:   filepath.Join(dir, "work"), Out: filepath.Join(dir, "model"), Device: "cpu",
		Targets: []convert.Target{{Text: "4.0", Bits: 4}}, HeadBits: 6, RopeScale: 1, RopeAlpha: 1,
		Data: convert.Data{File: tokens, Rows: 8, Length: 64, MeasureRows: 4, MeasureLength: 64},
	}, progress{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%.1f bits\n", r.Outputs[0].DecoderBPW)

	e, err := infer.Open(r.Outputs[0].Path, infer.Options{Devices: "cpu", Positions: 16})
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close()
	fmt.Println(e.Vocab(), "tokens")

	// Output:
	// read the source
	// measure
	// sensitivities
	// trace gradients
	// quantize 4.0
	// 4.0 bits
	// 128 tokens
}

// rows makes JSON lines of token ids below 128.
func rows(n, length int) []byte {
	var text []byte
	for row := range n {
		text = append(text, `{"input_ids": [`...)
		for i := range length {
			if i > 0 {
				text = append(text, ", "...)
			}
			text = fmt.Append(text, (row*row*7+i*i*13+i*row)%128)
		}
		text = append(text, "]}\n"...)
	}
	return text
}
