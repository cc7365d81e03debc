package infer

import (
	"context"
	"fmt"
	"slices"
	"testing"
)

// What a step takes that chooses tokens behind so many, of a random model behind some positions.
func BenchmarkGPUDrafts(b *testing.B) {
	for _, name := range []string{"llama3-8b@4.0", "qwen3-30b-a3b@4.0"} {
		load, err := Random(name)
		if err != nil {
			b.Fatal(err)
		}
		e, err := load(Options{Devices: "0", Positions: 8192 + 64})
		if err != nil {
			b.Skip(err)
		}
		k := e.choice.set(slices.Repeat([]chooser{{}}, 1+MostDraft), e.Vocab())
		for _, depth := range []int{100, 2000, 8192} {
			s := &Session{Engine: e}
			if err := s.read(context.Background(), someIDs(depth, e.Vocab()), k.how); err != nil {
				b.Fatal(err)
			}
			if _, err := e.choice.read(1); err != nil {
				b.Fatal(err)
			}
			for _, n := range []int{1, 2, 4, 8} {
				b.Run(fmt.Sprintf("%s/depth=%d/tokens=%d", name, depth, n), func(b *testing.B) {
					ids := someIDs(n, e.Vocab())
					step := func() {
						if _, err := e.verify(depth, ids, k.how); err != nil {
							b.Fatal(err)
						}
					}
					step() // is recorded
					b.ResetTimer()
					for range b.N {
						step()
					}
				})
			}
		}
		e.Close()
	}
}
