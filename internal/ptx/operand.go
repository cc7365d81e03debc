package ptx

import (
	"fmt"
	"strconv"
	"strings"
)

// operand returns the register of an operand: a register, a number, or a variable's address in its own memory.
func (c *compiler) operand(text string) (int, error) {
	if r, ok := special[text]; ok {
		return r, nil
	}
	for i := len(c.names) - 1; i >= 0; i-- {
		if r, ok := c.names[i][text]; ok {
			return r, nil
		}
	}
	if v, ok := c.variables[text]; ok {
		if v.space == "dynamic" {
			r, ok := c.dynamic[text]
			if !ok {
				r = c.register(0)
				c.dynamic[text] = r
			}
			return r, nil
		}
		return c.constant(v.at), nil
	}
	v, err := number(text)
	return c.constant(v), err
}

// number reads an integer, or a float by its bits.
func number(text string) (uint64, error) {
	if strings.HasPrefix(text, "0f") || strings.HasPrefix(text, "0d") {
		return strconv.ParseUint(text[2:], 16, 64)
	}
	if n, err := strconv.ParseInt(text, 0, 64); err == nil {
		return uint64(n), nil
	}
	n, err := strconv.ParseUint(strings.TrimSuffix(text, "U"), 0, 64)
	if err != nil {
		return 0, fmt.Errorf("operand %q is not known", text)
	}
	return n, nil
}

// operands cuts a list; those in braces or brackets stay one.
func operands(text string) (list []string) {
	depth, first := 0, 0
	for i := range len(text) {
		switch text[i] {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case ',':
			if depth == 0 {
				list = append(list, strings.TrimSpace(text[first:i]))
				first = i + 1
			}
		}
	}
	if rest := strings.TrimSpace(text[first:]); rest != "" {
		list = append(list, rest)
	}
	return list
}

// vector returns the registers of one operand, or of those in braces.
func (c *compiler) vector(text string) (list []int, err error) {
	inside, ok := strings.CutPrefix(text, "{")
	if !ok {
		r, err := c.operand(text)
		return []int{r}, err
	}
	for _, name := range strings.Split(strings.TrimSuffix(inside, "}"), ",") {
		r, err := c.operand(strings.TrimSpace(name))
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, nil
}

// An address is a register and what is added to it.
type address struct {
	base int
	add  uint64
}

func (c *compiler) address(text string) (a address, err error) {
	text = strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")
	base, add, _ := strings.Cut(text, "+")
	if add != "" {
		if a.add, err = number(strings.TrimSpace(add)); err != nil {
			return a, err
		}
	}
	a.base, err = c.operand(strings.TrimSpace(base))
	return a, err
}
