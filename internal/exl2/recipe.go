package exl2

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Align is what the format's readers step by: rows of each bit width, In and
// the padded Out of a matrix are multiples of it.
const Align = 32

// Widths are the bit widths that the format has.
var Widths = []int{2, 3, 4, 5, 6, 8}

// A Part is the share of a matrix's rows that is stored at one bit width.
type Part struct {
	Bits  int
	Group int     // rows a group
	Share float64 // of all rows, 0 to 1
}

// A Recipe says how the rows of a matrix, most important first, are divided
// among bit widths. Its text form is that of measurement files and `inspect`:
// "0.1:4b_128g/0.9:3b_128g".
type Recipe []Part

// Uniform is the recipe that stores every row at one width.
func Uniform(bits, group int) Recipe { return Recipe{{Bits: bits, Group: group, Share: 1}} }

// ParseRecipe reads the text form of a recipe.
func ParseRecipe(s string) (Recipe, error) {
	var r Recipe
	for _, text := range strings.Split(s, "/") {
		share, rest, ok1 := strings.Cut(text, ":")
		bits, group, ok2 := strings.Cut(rest, "b_")
		group, ok3 := strings.CutSuffix(group, "g")
		if !ok1 || !ok2 || !ok3 {
			return nil, fmt.Errorf("recipe %q: part %q is not like 0.1:4b_128g", s, text)
		}
		var p Part
		var err [3]error
		p.Share, err[0] = strconv.ParseFloat(share, 64)
		p.Bits, err[1] = strconv.Atoi(bits)
		p.Group, err[2] = strconv.Atoi(group)
		for _, e := range err {
			if e != nil {
				return nil, fmt.Errorf("recipe %q: part %q: %w", s, text, e)
			}
		}
		r = append(r, p)
	}
	if err := r.Check(); err != nil {
		return nil, err
	}
	return r, nil
}

// MustRecipe is ParseRecipe for recipes in source code.
func MustRecipe(s string) Recipe {
	r, err := ParseRecipe(s)
	if err != nil {
		panic("exl2: " + err.Error())
	}
	return r
}

// Check reports what makes r impossible to store.
func (r Recipe) Check() error {
	sum, last := 0.0, math.MaxInt
	for _, p := range r {
		switch {
		case !slices.Contains(Widths, p.Bits):
			return fmt.Errorf("recipe %v: %d bits, want one of %v", r, p.Bits, Widths)
		case p.Bits >= last:
			return fmt.Errorf("recipe %v: bit widths must fall from part to part", r)
		case p.Group < Align || p.Group%Align != 0 || p.Group > 1<<16:
			return fmt.Errorf("recipe %v: group of %d, want a multiple of %d", r, p.Group, Align)
		case !(p.Share > 0 && p.Share <= 1):
			return fmt.Errorf("recipe %v: share %v, want one in (0, 1]", r, p.Share)
		}
		sum, last = sum+p.Share, p.Bits
	}
	if math.Abs(sum-1) > 1e-6 {
		return fmt.Errorf("recipe %v: shares sum to %v, want 1", r, sum)
	}
	return nil
}

// String returns the text form of r.
func (r Recipe) String() string {
	parts := make([]string, len(r))
	for i, p := range r {
		parts[i] = fmt.Sprintf("%v:%db_%dg", p.Share, p.Bits, p.Group)
	}
	return strings.Join(parts, "/")
}

// A Group is a run of stored rows with one bit width and one row of scales.
type Group struct {
	Bits int
	Row  int // first stored row
	Rows int
	Word int // first row of the packed words
}

// Groups cuts in rows by r: each part takes whole groups, its share rounded up
// to them, while rows are left; the last group may be short.
func (r Recipe) Groups(in int) []Group {
	var groups []Group
	row, word := 0, 0
	for _, p := range r {
		left := float64(in - row)
		n := int(math.Ceil(min(float64(in)*p.Share, left) / float64(p.Group)))
		for range n {
			rows := min(p.Group, in-row)
			groups = append(groups, Group{Bits: p.Bits, Row: row, Rows: rows, Word: word})
			row += rows
			word += rows * p.Bits / 32
		}
	}
	if row != in {
		panic(fmt.Sprintf("exl2: recipe %v covers %d of %d rows", r, row, in))
	}
	return groups
}

// Size returns the bits that a matrix of in rows and out columns takes when it
// is cut by r: codes, scales, group table and permutation. Out is padded first.
func (r Recipe) Size(in, out int) int { return size(r.Groups(in), in, Pad(out)) }

func size(groups []Group, in, out int) int {
	bits := 32 * in
	for _, g := range groups {
		bits += g.Rows*out*g.Bits + 48 + 4*out
	}
	return bits
}

// Pad rounds the columns of a matrix up to what the format stores.
func Pad(out int) int { return (out + Align - 1) / Align * Align }
