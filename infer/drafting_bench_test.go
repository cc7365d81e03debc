package infer

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"exl2/internal/model"
	"exl2/internal/synth"
)

// What a draft takes of a random model that drafts for another one, which was right each time, and then the larger one's step.
func BenchmarkGPUDraftModel(b *testing.B) {
	const depth, large, small = 100, "llama2-70b@2.5", "tinyllama-1.1b@4.0"
	e := randomEngine(b, large, depth+64)
	defer e.Close()
	shape, bits, err := synth.Parse(small)
	if err != nil {
		b.Fatal(err)
	}
	m, err := synth.New(shape, 0, bits)
	if err != nil {
		b.Fatal(err)
	}
	d, err := fit(model.NewLoader(m.Spec, m), false, e.roomiest(), e.draftOptions(m.Spec))
	if err != nil {
		b.Skip(err)
	}
	e.draftBy(d)
	k := e.choice.set(slices.Repeat([]chooser{{}}, 1+MostDraft), e.Vocab())
	k.rows = 1
	if err := (&Session{Engine: e}).read(context.Background(), someIDs(depth, e.Vocab()), k.how); err != nil {
		b.Fatal(err)
	}
	if _, err := e.choice.read(1); err != nil {
		b.Fatal(err)
	}
	by := e.draft
	by.begin(Sampler{}, 0)
	by.add(someIDs(depth, e.Vocab())...)
	for _, n := range []int{2, 5, MostDraft} {
		for _, verifies := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s by %s/drafted=%d/verified=%v", large, small, n, verifies), func(b *testing.B) {
				step := func() {
					by.session.held = by.session.held[:min(depth-2, len(by.session.held))] // two tokens are new
					draft, err := by.draft(context.Background(), n)
					if err == nil && verifies {
						_, err = e.verify(depth, append([]int32{1}, draft...), k)
					}
					if err != nil {
						b.Fatal(err)
					}
				}
				step() // is recorded
				step()
				b.ResetTimer()
				for range b.N {
					step()
				}
			})
		}
	}
}

// randomEngine returns a random model on the first GPU, which is the caller's to close: another one has no kernels whose blocks wait for each other meanwhile.
func randomEngine(b *testing.B, name string, positions int) *Engine {
	b.Helper()
	load, err := Random(name)
	if err != nil {
		b.Fatal(err)
	}
	e, err := load(Options{Devices: "0", Positions: positions})
	if err != nil {
		b.Skip(err)
	}
	return e
}

// What a step takes that chooses tokens behind so many, of a random model behind some positions.
func BenchmarkGPUDrafts(b *testing.B) {
	for _, name := range []string{"llama3-8b@4.0", "qwen3-30b-a3b@4.0"} {
		e := randomEngine(b, name, 8192+64)
		k := e.choice.set(slices.Repeat([]chooser{{}}, 1+MostDraft), e.Vocab())
		k.rows = 1
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
						if _, err := e.verify(depth, ids, k); err != nil {
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
