package quant_test

import (
	"fmt"
	"log"
	"math/rand/v2"

	"exl2/quant"
)

// A matrix of 64 outputs and 128 inputs at two sizes. Some inputs are far larger
// than others, as in language models; their weights are stored more exactly.
func Example() {
	r := rand.New(rand.NewPCG(1, 2))
	w := quant.Weight{Out: 64, In: 128}
	for range w.Out * w.In {
		w.Data = append(w.Data, float32(r.NormFloat64()))
	}
	var inputs []float32
	for range 512 {
		for i := range w.In {
			inputs = append(inputs, float32(r.NormFloat64()/float64(1+i%16)))
		}
	}
	for _, recipe := range []string{"1:4b_64g", "0.25:4b_32g/0.75:2b_32g"} {
		m, err := quant.Quantize(w, inputs, quant.Options{Recipe: recipe, Device: "cpu"})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: %.2f bits a weight, error below 2 %%: %v\n", recipe, float64(m.Bits)/float64(w.Out*w.In), m.Error < 0.02)
		for _, t := range m.Tensors {
			fmt.Printf("  %s %s %v\n", t.Suffix, t.DType, t.Shape)
		}
	}

	// Output:
	// 1:4b_64g: 4.57 bits a weight, error below 2 %: true
	//   q_invperm I32 [128]
	//   q_scale I32 [2 8]
	//   q_weight I32 [16 64]
	//   q_groups I16 [4]
	//   q_scale_max F16 [2]
	// 0.25:4b_32g/0.75:2b_32g: 3.15 bits a weight, error below 2 %: true
	//   q_invperm I32 [128]
	//   q_scale I32 [4 8]
	//   q_weight I32 [10 64]
	//   q_groups I16 [8]
	//   q_scale_max F16 [4]
}
