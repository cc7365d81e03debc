package safetensors

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The element types that models and this program's own files use most. Files
// may hold any type of the format.
const (
	F32  = "F32"
	F16  = "F16"
	BF16 = "BF16"
	I32  = "I32"
	I16  = "I16"
)

// maxRank is the most dimensions a tensor has in NumPy and PyTorch.
const maxRank = 64

// elementBits has the size of one element of every type that the format has.
var elementBits = map[string]int{
	"BOOL": 8, "U8": 8, "I8": 8, "U16": 16, I16: 16, "U32": 32, I32: 32, "U64": 64, "I64": 64,
	F16: 16, BF16: 16, F32: 32, "F64": 64, "C64": 64,
	"F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
	"F6_E2M3": 6, "F6_E3M2": 6, "F4": 4,
}

// An Info is what a header says of a tensor, without the place of its bytes.
type Info struct {
	Name  string
	DType string // as in the file: F16, I32, ...
	Shape []int  // outermost first; empty for a scalar
}

// Bytes returns the length of the tensor's data, or an error that says which
// field cannot be: an unknown type, a negative size, or more bytes than fit.
func (i Info) Bytes() (int64, error) {
	width, ok := elementBits[i.DType]
	if !ok {
		return 0, fmt.Errorf("dtype %s is not known", quote(i.DType))
	}
	if len(i.Shape) > maxRank {
		return 0, fmt.Errorf("shape has %d sizes, more than %d", len(i.Shape), maxRank)
	}
	count := uint64(1)
	for _, n := range i.Shape {
		if n < 0 {
			return 0, fmt.Errorf("shape %v has a negative size", i.Shape)
		}
		high, low := bits.Mul64(count, uint64(n))
		if high != 0 {
			return 0, fmt.Errorf("shape %v is too large", i.Shape)
		}
		count = low
	}
	high, total := bits.Mul64(count, uint64(width))
	if high != 0 || total/8 > math.MaxInt64 {
		return 0, fmt.Errorf("shape %v is too large", i.Shape)
	}
	if total%8 != 0 {
		return 0, fmt.Errorf("shape %v of %s does not fill whole bytes", i.Shape, i.DType)
	}
	return int64(total / 8), nil
}

// metadataKey is the header's one key that is not a tensor.
const metadataKey = "__metadata__"

// checkName refuses names that no tensor can have or that would break a line
// of output.
func checkName(name string) error {
	switch {
	case name == "":
		return errors.New("a tensor has no name")
	case name == metadataKey:
		return fmt.Errorf("tensor %q: the name is reserved", name)
	case !utf8.ValidString(name):
		return fmt.Errorf("tensor %s: the name is not UTF-8", quote(name))
	case strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("tensor %s: the name has a control character", quote(name))
	}
	return nil
}

// quote is a text of a file for an error line: quoted, and not endless.
func quote(text string) string {
	const longest = 200
	if len(text) > longest {
		return strconv.Quote(text[:longest]) + "..."
	}
	return strconv.Quote(text)
}
