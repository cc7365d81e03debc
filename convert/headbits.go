package convert

import (
	"encoding/json"
	"fmt"
	"strconv"

	"exl2/internal/exl2"
	"exl2/internal/model"
	"exl2/internal/sensitivity"
)

// HeadBits says how the head is stored: by one of the recipes that ExLlamaV2 knows
// by their widths, or by the one that serves the model best. Zero is AutoHead.
type HeadBits int

// AutoHead has the head compete for bits with the matrices of the decoder. Together
// they take what they would with a head of usualHead bits.
const AutoHead HeadBits = 0

// usualHead is ExLlamaV2's default.
const usualHead = 6

// headWidths are the widths of headRecipes.
var headWidths = []int{2, 3, 4, 5, 6, 8}

// headRecipes are what -hb means, as in ExLlamaV2 (docs/format.md, "Recipes").
var headRecipes = map[int]exl2.Recipe{
	2: exl2.MustRecipe("0.3:4b_32g/0.7:2b_32g"),
	3: exl2.MustRecipe("0.15:4b_32g/0.85:3b_32g"),
	4: exl2.MustRecipe("0.15:6b_32g/0.85:4b_32g"),
	5: exl2.MustRecipe("0.15:6b_128g/0.85:5b_128g"),
	6: exl2.MustRecipe("0.15:8b_128g/0.85:6b_128g"),
	8: exl2.MustRecipe("1:8b_128g"),
}

// headCandidates are the recipes that the head can have where it competes for bits:
// those that widths stand for, and as many others as any matrix can have, as far as
// they are no larger.
func headCandidates(head model.LinearSpec) (named, more []exl2.Recipe) {
	known, most := map[string]bool{}, 0
	for _, w := range headWidths {
		r := headRecipes[w]
		named, known[r.String()] = append(named, r), true
		most = max(most, r.Size(head.In, head.Out))
	}
	for _, r := range sensitivity.Recipes(head.Role) {
		if !known[r.String()] && r.Size(head.In, head.Out) <= most {
			more = append(more, r)
		}
	}
	return named, more
}

func (b HeadBits) check() error {
	if b != AutoHead && headRecipes[int(b)] == nil {
		return fmt.Errorf("head bits: %d, want auto or one of %v", b, headWidths)
	}
	return nil
}

// String returns the number, or auto.
func (b HeadBits) String() string {
	if b == AutoHead {
		return "auto"
	}
	return strconv.Itoa(int(b))
}

// MarshalText writes what UnmarshalText reads.
func (b HeadBits) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// UnmarshalText reads a number or auto.
func (b *HeadBits) UnmarshalText(text []byte) error {
	if string(text) == "auto" {
		*b = AutoHead
		return nil
	}
	n, err := strconv.Atoi(string(text))
	if err != nil || n == int(AutoHead) {
		return fmt.Errorf("%q is neither auto nor one of %v", text, headWidths)
	}
	*b = HeadBits(n)
	return nil
}

// MarshalJSON writes a number, or "auto".
func (b HeadBits) MarshalJSON() ([]byte, error) {
	if b == AutoHead {
		return json.Marshal("auto")
	}
	return json.Marshal(int(b))
}

// UnmarshalJSON reads a number, or "auto".
func (b *HeadBits) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		return b.UnmarshalText([]byte(text))
	}
	return json.Unmarshal(data, (*int)(b))
}
