package exl2

import (
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"exl2/internal/half"
)

// recipes draws recipes that can be stored.
var recipes = rapid.Custom(func(t *rapid.T) Recipe {
	widths := rapid.SliceOfNDistinct(rapid.SampledFrom(Widths), 1, 4, rapid.ID[int]).Draw(t, "widths")
	slices.Sort(widths)
	slices.Reverse(widths)
	var r Recipe
	left := 16
	for i, bits := range widths {
		share := left
		if i < len(widths)-1 {
			share = rapid.IntRange(1, left-(len(widths)-1-i)).Draw(t, "share")
		}
		left -= share
		r = append(r, Part{Bits: bits, Group: rapid.SampledFrom([]int{32, 64, 96, 128}).Draw(t, "group"), Share: float64(share) / 16})
	}
	return r
})

// quantized draws codes and scales for a recipe.
var quantized = rapid.Custom(func(t *rapid.T) *Quantized {
	r := recipes.Draw(t, "recipe")
	q := &Quantized{In: 32 * rapid.IntRange(1, 20).Draw(t, "in"), Out: 32 * rapid.IntRange(1, 3).Draw(t, "out")}
	q.Groups = r.Groups(q.In)
	seed := rapid.Uint32().Draw(t, "seed")
	next := func() uint32 { seed = seed*1664525 + 1013904223; return seed >> 8 }
	for i, g := range q.Groups {
		for range g.Rows * q.Out {
			q.Codes = append(q.Codes, uint8(next()&(1<<g.Bits-1)))
		}
		for range q.Out {
			q.Scales = append(q.Scales, uint8(next()&15))
		}
		q.ScaleMax = append(q.ScaleMax, half.ToF16(float32(i+1)*0.37))
	}
	for i := range q.In {
		q.Perm = append(q.Perm, int32(i))
	}
	for i := range q.Perm {
		j := int(next()) % q.In
		q.Perm[i], q.Perm[j] = q.Perm[j], q.Perm[i]
	}
	return q
})

// What is packed can be read back, code by code, also through the file's
// tensors.
func TestPackRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := quantized.Draw(t, "matrix")
		packed := q.Pack()
		tensors := map[string]Tensor{}
		for _, x := range packed.Tensors() {
			tensors[x.Suffix] = x
		}
		m, err := Parse(func(suffix string) (Tensor, error) { return tensors[suffix], nil })
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(m.Groups, q.Groups) || !slices.Equal(m.Perm(), q.Perm) {
			t.Fatalf("groups %v, want %v", m.Groups, q.Groups)
		}
		row := make([]uint8, m.Out)
		for i, g := range m.Groups {
			for r := g.Row; r < g.Row+g.Rows; r++ {
				m.Codes(row, g, r, 0, m.Out)
				if !slices.Equal(row, q.Codes[r*m.Out:(r+1)*m.Out]) {
					t.Fatalf("row %d is %v, want %v", r, row, q.Codes[r*m.Out:(r+1)*m.Out])
				}
			}
			for c := range m.Out {
				if m.Scale(i, c) != int(q.Scales[i*m.Out+c]) {
					t.Fatalf("group %d, column %d: scale %d, want %d", i, c, m.Scale(i, c), q.Scales[i*m.Out+c])
				}
			}
		}
	})
}

// The size by formula is the size of the tensors.
func TestSize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := quantized.Draw(t, "matrix").Pack()
		bytes := 0
		for _, x := range m.Tensors() {
			bytes += len(x.Data)
		}
		if m.Bits() != 8*bytes {
			t.Fatalf("%d bits, the tensors have %d", m.Bits(), 8*bytes)
		}
	})
}

// A group of 32 rows of three bits, worked by hand: docs/format.md shows it.
func TestWorkedExample(t *testing.T) {
	const out = 32
	q := &Quantized{In: 32, Out: out, Groups: Uniform(3, 32).Groups(32), ScaleMax: []half.F16{half.ToF16(0.5)}}
	for r := range 32 {
		q.Perm = append(q.Perm, int32(r))
		for range out {
			q.Codes = append(q.Codes, uint8(r%8))
		}
	}
	q.Scales = slices.Repeat([]uint8{15}, out)
	m := q.Pack()
	want := []uint32{0x88fac688, 0xc688fac6, 0xfac688fa} // codes 0 to 7 are the 24 bits 0xfac688, four times
	for w := range want {
		if m.Words[w*out] != want[w] {
			t.Errorf("word %d is %#08x, want %#08x", w, m.Words[w*out], want[w])
		}
	}
	if m.Scales[0] != 0xffffffff {
		t.Errorf("scales %#08x, want all 15", m.Scales[0])
	}
	for code, want := range []float32{-2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5} {
		if got := m.Decode()[code*out].Float32(); got != want {
			t.Errorf("code %d is %v, want %v", code, got, want)
		}
	}
}

// The steps of fp16 arithmetic are the format's, down to subnormal scales.
func TestScaleTable(t *testing.T) {
	for _, largest := range []float32{0.5, 0.0123, 6.1e-5, 1e-6, 0} {
		table := ScaleTable(half.ToF16(largest))
		unit := half.ToF16(half.ToF16(largest).Float32() / 256)
		for i, s := range table {
			n := float32((i + 1) * (i + 1))
			if want := half.ToF16(n * unit.Float32()); s != want {
				t.Errorf("largest %v, s %d: %v, want %v", largest, i+1, s.Float32(), want.Float32())
			}
		}
	}
}

func TestRecipeText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := recipes.Draw(t, "recipe")
		back, err := ParseRecipe(r.String())
		if err != nil || !slices.Equal(back, r) {
			t.Fatalf("%v came back as %v, %v", r, back, err)
		}
	})
}

func TestRecipeRefusals(t *testing.T) {
	for text, want := range map[string]string{
		"":                           "not like",
		"1:4b":                       "not like",
		"1:7b_32g":                   "7 bits",
		"0.5:2b_32g/0.5:4b_32g":      "must fall",
		"1:4b_48g":                   "group of 48",
		"0.5:4b_32g":                 "sum to 0.5",
		"NaN:4b_32g":                 "share NaN",
		"2:4b_32g/-1:3b_32g":         "share 2",
		"1:4b_99999999999999999999g": "out of range",
	} {
		if _, err := ParseRecipe(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one about %q", text, err, want)
		}
	}
}

// Shares are rounded up to whole groups: 5 % of 128 rows in groups of 64 is 64
// rows (exl2-format.md).
func TestGroupsRoundUp(t *testing.T) {
	got := MustRecipe("0.05:3b_64g/0.95:2b_64g").Groups(128)
	want := []Group{{Bits: 3, Rows: 64}, {Bits: 2, Row: 64, Rows: 64, Word: 6}}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	last := MustRecipe("1:4b_128g").Groups(704)
	if n := len(last); n != 6 || last[5].Rows != 64 {
		t.Errorf("704 rows in groups of 128: %v", last)
	}
}

// damaged lists matrices that must be refused, by what is done to a good one.
var damaged = map[string]struct {
	spoil func(x map[string]*Tensor)
	want  string
}{
	"type of scales":       {func(x map[string]*Tensor) { x[SuffixScales].DType = "F32" }, "q_scale is F32"},
	"dimensions":           {func(x map[string]*Tensor) { x[SuffixWords].Shape = []int{4} }, "of 2 dimensions"},
	"words missing":        {func(x map[string]*Tensor) { x[SuffixWords].Data = x[SuffixWords].Data[:4] }, "packed words"},
	"scales missing":       {func(x map[string]*Tensor) { x[SuffixScales].Data = nil }, "words of scales"},
	"rows of scales":       {func(x map[string]*Tensor) { x[SuffixScales].Shape = []int{9, 4} }, "q_scale has 9 rows"},
	"scale maxima":         {func(x map[string]*Tensor) { x[SuffixScaleMax].Data = nil }, "largest scales"},
	"scale infinite":       {func(x map[string]*Tensor) { copy(x[SuffixScaleMax].Data[2:], []byte{0, 0x7c}) }, "the largest scale of group 1 is +Inf"},
	"scale no number":      {func(x map[string]*Tensor) { copy(x[SuffixScaleMax].Data, []byte{1, 0xfe}) }, "the largest scale of group 0 is NaN"},
	"no groups":            {func(x map[string]*Tensor) { x[SuffixGroups].Data = nil }, "want pairs"},
	"bits of a group":      {func(x map[string]*Tensor) { x[SuffixGroups].Data[0] = 7 }, "7 bits"},
	"order of groups":      {func(x map[string]*Tensor) { x[SuffixGroups].Data[6] = 0 }, "group"},
	"permutation repeated": {func(x map[string]*Tensor) { copy(x[SuffixInvPerm].Data, []byte{1, 0, 0, 0, 1, 0, 0, 0}) }, "permutation"},
	"permutation far":      {func(x map[string]*Tensor) { x[SuffixInvPerm].Data[3] = 0x7f }, "permutation"},
	"columns":              {func(x map[string]*Tensor) { x[SuffixWords].Shape[1] = 31 }, "31 columns"},
	"rows":                 {func(x map[string]*Tensor) { x[SuffixInvPerm].Shape[0] = 1 << 30 }, "rows"},
}

func sample() map[string]*Tensor {
	q := &Quantized{In: 128, Out: 32, Groups: MustRecipe("0.5:4b_32g/0.5:3b_64g").Groups(128)}
	q.Codes, q.Scales, q.ScaleMax = make([]uint8, 128*32), make([]uint8, 3*32), make([]half.F16, 3)
	for i := range 128 {
		q.Perm = append(q.Perm, int32(i))
	}
	x := map[string]*Tensor{}
	for _, t := range q.Pack().Tensors() {
		t.Data, t.Shape = slices.Clone(t.Data), slices.Clone(t.Shape)
		x[t.Suffix] = &t
	}
	return x
}

func parse(x map[string]*Tensor) (*Matrix, error) {
	return Parse(func(suffix string) (Tensor, error) { return *x[suffix], nil })
}

func TestDamagedMatrices(t *testing.T) {
	if _, err := parse(sample()); err != nil {
		t.Fatal(err)
	}
	for name, c := range damaged {
		t.Run(name, func(t *testing.T) {
			x := sample()
			c.spoil(x)
			if _, err := parse(x); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one about %q", err, c.want)
			}
		})
	}
}

// Whatever the bytes of the tensors, parsing returns an error or a matrix that
// can be decoded.
func FuzzParse(f *testing.F) {
	s := sample()
	f.Add(s[SuffixGroups].Data, s[SuffixInvPerm].Data, 32, 3)
	f.Fuzz(func(t *testing.T, groups, perm []byte, out, rows int) {
		x := sample()
		x[SuffixGroups].Data, x[SuffixInvPerm].Data = groups, perm
		x[SuffixInvPerm].Shape = []int{len(perm) / 4}
		x[SuffixWords].Shape[1], x[SuffixScales].Shape[0] = out, rows
		m, err := parse(x)
		if err != nil {
			return
		}
		if w := m.Decode(); len(w) != m.In*m.Out {
			t.Fatalf("%d weights of %d x %d", len(w), m.In, m.Out)
		}
		if bpw := m.BitsPerWeight(m.Out); math.IsNaN(bpw) || bpw < 2 {
			t.Fatalf("%v bits per weight", bpw)
		}
	})
}
