package blas

import (
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/blas/blas32"

	"exl2/internal/device/cpu/simd"
)

// Sums of products have the bits that the products have one after the other, but for
// what is below the diagonal of upper ones.
func TestAddAll(t *testing.T) {
	if before, ok := blas32.Implementation().(implementation); ok {
		defer install(before)
	}
	for _, c := range available() {
		t.Run(c.name, func(t *testing.T) {
			install(c.implementation)
			r := rand.New(rand.NewPCG(8, 8))
			var got, want []Sum
			for _, s := range []struct {
				m, n  int
				upper bool
				ks    []int
			}{{130, 130, true, []int{300, 512, 7}}, {61, 200, false, []int{256, 0, 1}}, {1, 1, false, nil}, {0, 5, false, []int{5}}, {700, 900, false, []int{6000, 6000}}} {
				from := floats(r, s.m*s.n+1)
				a, b := Sum{Upper: s.upper}, Sum{}
				to, other := slices.Clone(from), slices.Clone(from)
				for _, k := range s.ks {
					p := simd.Product[float32]{M: s.m, N: s.n, K: k, Alpha: 1, Beta: 1, C: to, LDC: max(1, s.n),
						A: simd.Operand[float32]{Data: floats(r, k*s.m+1), Row: 1, Col: max(1, s.m)}, B: simd.Operand[float32]{Data: floats(r, k*s.n+1), Row: max(1, s.n), Col: 1}}
					a.Products = append(a.Products, p)
					p.C = other
					b.Products = append(b.Products, p)
				}
				got, want = append(got, a), append(want, b)
			}
			AddAll(got)
			for i, s := range want {
				for k := range s.Products {
					Multiply(&s.Products[k])
				}
				if len(s.Products) > 0 && !sameBits(got[i].Products[0].C, s.Products[0].C, s.Products[0].N, got[i].Upper) {
					t.Errorf("sum %d has other bits", i)
				}
			}
		})
	}
}

func sameBits(a, b []float32, n int, upper bool) bool {
	for i := range a {
		if a[i] != b[i] && !(upper && i/n > i%n) {
			return false
		}
	}
	return true
}
