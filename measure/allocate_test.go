package measure

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func total(classes [][]Choice, pick []int) (bits int, cost float64) {
	for i, p := range pick {
		bits += classes[i][p].Bits
		cost += classes[i][p].Cost
	}
	return bits, cost
}

// exhaustive tries every combination.
func exhaustive(classes [][]Choice, budget int) float64 {
	if len(classes) == 0 {
		return 0
	}
	best := math.Inf(1)
	for _, c := range classes[0] {
		if c.Bits <= budget {
			best = min(best, c.Cost+exhaustive(classes[1:], budget-c.Bits))
		}
	}
	return best
}

var someClasses = rapid.SliceOfN(rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Choice {
	return Choice{rapid.IntRange(1, 20).Draw(t, "bits"), float64(rapid.IntRange(0, 30).Draw(t, "cost"))}
}), 1, 5), 1, 6)

func TestAllocateIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		classes := someClasses.Draw(t, "classes")
		budget := rapid.IntRange(0, 120).Draw(t, "budget")
		pick, err := Allocate(classes, budget)
		want := exhaustive(classes, budget)
		var refused *RangeError
		if math.IsInf(want, 1) {
			if !errors.As(err, &refused) || refused.Min <= budget {
				t.Fatalf("budget %d: error %v", budget, err)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		bits, cost := total(classes, pick)
		if bits > budget || math.Abs(cost-want) > 1e-9 {
			t.Fatalf("%d bits of %d at cost %v, want cost %v", bits, budget, cost, want)
		}
	})
}

func TestAllocateIsMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		classes := someClasses.Draw(t, "classes")
		last := math.Inf(1)
		for budget := range 130 {
			pick, err := Allocate(classes, budget)
			if err != nil {
				continue
			}
			if _, cost := total(classes, pick); cost > last+1e-9 {
				t.Fatalf("budget %d costs %v, %d costs %v", budget, cost, budget-1, last)
			} else {
				last = cost
			}
		}
	})
}

// modelLike makes classes as a model of many layers has them: errors that fall
// by about four with every bit, sensitivities that differ.
func modelLike(n int, same bool) [][]Choice {
	r := rand.New(rand.NewPCG(1, 2))
	var classes [][]Choice
	for range n {
		size, sensitivity := 1<<18, math.Exp(2*r.NormFloat64())
		if same {
			sensitivity = 1
		}
		var c []Choice
		for i := range 54 {
			bits := 2.1 + 6*float64(i)/53
			noise := 1 + 0.1*r.Float64()
			c = append(c, Choice{int(bits * float64(size)), sensitivity * noise * math.Pow(4, -bits)})
		}
		classes = append(classes, c)
	}
	return classes
}

// bound is what no solution can be cheaper than: for any price of a bit, the
// cheapest choices at that price, less the price of the budget.
func bound(classes [][]Choice, budget int) float64 {
	best := math.Inf(-1)
	for price := 1e-10; price < 1e-3; price *= 1.01 {
		sum := -price * float64(budget)
		for _, c := range classes {
			least := math.Inf(1)
			for _, o := range c {
				least = min(least, o.Cost+price*float64(o.Bits))
			}
			sum += least
		}
		best = max(best, sum)
	}
	return best
}

// Instances of the size of real models are solved, close to the bound.
func TestAllocateLarge(t *testing.T) {
	for _, c := range []struct {
		name string
		n    int
		same bool
	}{{"small model", 56, false}, {"7b", 224, false}, {"70b", 560, false}, {"equal matrices", 224, true}} {
		t.Run(c.name, func(t *testing.T) {
			classes := modelLike(c.n, c.same)
			for _, bpw := range []float64{2.5, 3, 4, 6} {
				budget := int(bpw * float64(c.n) * (1 << 18))
				start := time.Now()
				pick, err := Allocate(classes, budget)
				if err != nil {
					t.Fatal(err)
				}
				bits, cost := total(classes, pick)
				if least := bound(classes, budget); bits > budget || cost < least*(1-1e-9) || cost > least*1.005 {
					t.Errorf("%v bits: %d of %d, cost %v, bound %v", bpw, bits, budget, cost, least)
				}
				t.Logf("%v bits: %v", bpw, time.Since(start))
			}
		})
	}
}
