package measure_test

import (
	"errors"
	"fmt"
	"log"
	"path/filepath"

	"exl2/measure"
)

// A measurement that ExLlamaV2 made, and what a budget buys: of every module of the
// decoder the option with the smallest error, all together within 4 bits a weight.
func Example() {
	f, err := measure.ReadFile(filepath.Join("..", "testdata", "golden", "exl2", "small.measurement.json"))
	if err != nil {
		log.Fatal(err)
	}
	var classes [][]measure.Choice
	for _, h := range f.Sublayers {
		if len(h.Options) == 0 {
			continue // embedding, norm and head
		}
		var c []measure.Choice
		for _, o := range h.Options {
			c = append(c, measure.Choice{Bits: o.Bits, Cost: 1 - o.Accuracy})
		}
		classes = append(classes, c)
	}
	const weights = 8 * (384*(384+128+128+384) + 3*384*1024)
	pick, err := measure.Allocate(classes, 4*weights)
	if err != nil {
		log.Fatal(err)
	}
	bits := 0
	for i, p := range pick {
		bits += classes[i][p].Bits
	}
	fmt.Printf("%d modules, %.2f bits a weight\n", len(classes), float64(bits)/weights)
	recipe, _ := f.Sublayers[0].Options[pick[0]].Recipe("model.layers.0.self_attn.q_proj")
	fmt.Println(recipe)

	_, err = measure.Allocate(classes, 2*weights)
	var reach *measure.RangeError
	fmt.Println("too little:", errors.As(err, &reach))

	// Output:
	// 16 modules, 4.00 bits a weight
	// 0.1:5b_32g/0.9:4b_32g
	// too little: true
}
