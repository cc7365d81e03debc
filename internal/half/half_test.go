package half

import (
	"math"
	"testing"

	"github.com/x448/float16"
	"pgregory.net/rapid"
)

// Every F16 widens as x448/float16 says and narrows back to itself.
func TestEveryF16(t *testing.T) {
	for i := 0; i < 1<<16; i++ {
		h := F16(i)
		want := float16.Frombits(uint16(i)).Float32()
		got := h.Float32()
		if math.IsNaN(float64(want)) {
			if !math.IsNaN(float64(got)) {
				t.Fatalf("%#04x widens to %v, want NaN", i, got)
			}
			if back := ToF16(got).Float32(); !math.IsNaN(float64(back)) {
				t.Fatalf("NaN %#04x narrows to %v", i, back)
			}
			continue
		}
		if math.Float32bits(got) != math.Float32bits(want) {
			t.Fatalf("%#04x widens to %v, want %v", i, got, want)
		}
		if back := ToF16(got); back != h {
			t.Fatalf("%#04x comes back as %#04x", i, back)
		}
	}
}

func TestNarrowMatchesReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := math.Float32frombits(rapid.Uint32().Draw(t, "bits"))
		if math.IsNaN(float64(f)) {
			return
		}
		if got, want := ToF16(f), F16(float16.Fromfloat32(f).Bits()); got != want {
			t.Fatalf("ToF16(%v) = %#04x, want %#04x", f, got, want)
		}
	})
}

// Halfway cases between neighbours go to the even one, subnormals included.
func TestNarrowTies(t *testing.T) {
	for i := 0; i < 0x7bff; i++ {
		lo, hi := F16(i), F16(i+1)
		mid := (lo.Float32() + hi.Float32()) / 2
		want := lo
		if i&1 == 1 {
			want = hi
		}
		if got := ToF16(mid); got != want {
			t.Fatalf("between %#04x and %#04x: %#04x", lo, hi, got)
		}
	}
}

func TestBF16(t *testing.T) {
	for _, c := range []struct {
		f    float32
		want BF16
	}{
		{0, 0}, {1, 0x3f80}, {-2, 0xc000},
		{math.Float32frombits(0x3f808000), 0x3f80}, // tie to even, down
		{math.Float32frombits(0x3f818000), 0x3f82}, // tie to even, up
		{math.MaxFloat32, 0x7f80},
		{float32(math.Inf(-1)), 0xff80},
	} {
		if got := ToBF16(c.f); got != c.want {
			t.Errorf("ToBF16(%v) = %#04x, want %#04x", c.f, got, c.want)
		}
	}
	if f := ToBF16(float32(math.NaN())).Float32(); !math.IsNaN(float64(f)) {
		t.Errorf("NaN became %v", f)
	}
}

// Mul is one correctly rounded fp16 multiplication, also where it underflows.
func TestMul(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := F16(rapid.Uint16().Draw(t, "a")), F16(rapid.Uint16().Draw(t, "b"))
		exact := float64(a.Float32()) * float64(b.Float32())
		if math.IsNaN(exact) {
			return
		}
		got := float64(Mul(a, b).Float32())
		if math.IsInf(got, 0) {
			if math.Abs(exact) < 65520 {
				t.Fatalf("%v · %v overflows", a.Float32(), b.Float32())
			}
			return
		}
		ulp := math.Max(math.Ldexp(1, -24), math.Abs(got)*math.Ldexp(1, -10))
		if math.Abs(got-exact) > ulp/2 {
			t.Fatalf("%v · %v = %v, want about %v", a.Float32(), b.Float32(), got, exact)
		}
	})
}
