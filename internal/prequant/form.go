package prequant

import (
	"fmt"
	"strings"

	"exl2/internal/arch"
)

// A form is what a configuration of compressed-tensors says of the weights of a group of
// modules. What it leaves out, it does not say.
type form struct {
	at        string // in the configuration
	bits      int
	kind      string // "int", "float"
	strategy  string // what shares a scale
	group     int    // inputs that do; -1: all of an output, 0: unsaid
	block     [2]int // rows and columns that do
	symmetric *bool
}

// strategies and kinds are the values that are known; those that share a scale with others of
// their token or head are activations.
const (
	strategies = "tensor, channel, group, block, tensor_group, token, attn_head"
	kinds      = "int, float"
)

// readForm reads the arguments of a quantizer.
func readForm(c *arch.Config, at string) form {
	f := form{at: at, bits: c.Int("num_bits", 0), group: c.Int("group_size", 0)}
	f.kind, f.strategy = oneOf(c, "type", kinds), oneOf(c, "strategy", strategies)
	if c.Has("symmetric") {
		v := c.Bool("symmetric", true)
		f.symmetric = &v
	}
	if c.Has("group_size") && f.group < 1 && (f.group != -1 || strings.HasSuffix(f.strategy, "group")) {
		c.Refuse("group_size", "%d with strategy %q, want a positive number; use the model's original", f.group, f.strategy)
	}
	return f
}

// oneOf reads a field that has one of some values, in any case, or is absent.
func oneOf(c *arch.Config, key, known string) string {
	v := strings.ToLower(c.String(key, ""))
	for _, name := range strings.Split(known, ", ") {
		if v == name || v == "" {
			return v
		}
	}
	c.Refuse(key, "%q (known: %s); use the model's original", v, known)
	return ""
}

// A stored weight is what its tensors say.
type stored struct {
	name        string
	bits        int
	kind        string
	size, block [2]int // rows and columns: of all, and of what shares a scale
	zeros       zeros
}

// zeros says where the zeros of codes are.
type zeros int

const (
	unwritten zeros = iota // and so in the middle
	middle
	elsewhere
)

// fits refuses a weight that is none of the scheme's forms. Which of several is its module's,
// targets say, which are not looked at.
func (s *Scheme) fits(w stored) error {
	var first string
	for _, f := range s.forms {
		reason := f.misfit(w)
		if reason == "" {
			return nil
		}
		if first == "" {
			first = fmt.Sprintf("%s: %s says %s", w.name, f.at, reason)
		}
	}
	if first == "" {
		return nil
	}
	return fmt.Errorf("%s; correct one of them, or use the model's original", first)
}

// misfit returns what a form says that a weight is not, and what that is, or "".
func (f form) misfit(w stored) string {
	switch {
	case f.bits != 0 && f.bits != w.bits:
		return fmt.Sprintf("num_bits %d of what has %d", f.bits, w.bits)
	case f.kind != "" && f.kind != w.kind:
		return fmt.Sprintf("type %q of what is %q", f.kind, w.kind)
	case f.symmetric != nil && *f.symmetric && w.zeros == elsewhere:
		return "symmetric true of what has zeros elsewhere than in the middle"
	case f.symmetric != nil && !*f.symmetric && w.kind == "int" && w.zeros == unwritten:
		return "symmetric false of what has no zero points"
	case f.group > 0 && !w.shares([2]int{1, f.group}):
		return fmt.Sprintf("group_size %d of what has a scale for %dx%d weights", f.group, w.block[0], w.block[1])
	case !w.shares(f.shared(w.size)):
		return fmt.Sprintf("strategy %q of what has a scale for %dx%d weights", f.strategy, w.block[0], w.block[1])
	}
	return ""
}

// shared returns the rows and columns that share a scale by the strategy, zeros if that does not say.
func (f form) shared(size [2]int) [2]int {
	switch {
	case f.strategy == "tensor":
		return size
	case f.strategy == "channel", f.strategy == "" && f.group == -1:
		return [2]int{1, size[1]}
	case f.strategy == "block":
		return f.block
	}
	return [2]int{}
}

// shares reports whether scales are those of blocks of a size, if it is one.
func (w stored) shares(block [2]int) bool {
	for i, n := range block {
		if n > 0 && (w.size[i]+n-1)/n != (w.size[i]+w.block[i]-1)/w.block[i] {
			return false
		}
	}
	return true
}
