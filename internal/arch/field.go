package arch

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"exl2/internal/device"
)

// defaults sets what fields are when they are absent: pairs of name and value.
// Of two defaults for a field the first stays, so that an architecture that
// builds on another says its own first.
func (c *Config) defaults(pairs ...any) {
	for i := 0; i < len(pairs); i += 2 {
		key, value := pairs[i].(string), pairs[i+1]
		if n, ok := value.(int); ok {
			value = json.Number(strconv.Itoa(n))
		} else if f, ok := value.(float64); ok {
			value = json.Number(strconv.FormatFloat(f, 'g', -1, 64))
		}
		if _, there := c.other[key]; !there {
			c.other[key] = value
		}
	}
}

// rename says that the file may call fields otherwise: pairs of the name that is
// asked for, which goes first, and the other. Both with other numbers are refused:
// programs differ in which they read.
func (c *Config) rename(pairs ...string) {
	for i := 0; i < len(pairs); i += 2 {
		key, other := pairs[i], pairs[i+1]
		if _, there := c.raw[key]; !there && c.raw[other] != nil {
			c.alias[key] = other
		}
		a, isA := c.raw[key].(json.Number)
		b, isB := c.raw[other].(json.Number)
		if x, _ := a.Float64(); isA && isB {
			if y, _ := b.Float64(); x != y {
				c.fail(other, "%v, and %s, which means the same, is %v", b, key, a)
			}
		}
		c.ignore(other)
	}
}

// ignore marks fields as read: they mean nothing here.
func (c *Config) ignore(keys ...string) {
	for _, key := range keys {
		c.seen[key] = true
	}
}

// field returns a field's value, nil if it is absent or null, the name that the
// file has for it, and whether it is in the file.
func (c *Config) field(key string) (v any, name string, there bool) {
	name = key
	if other, ok := c.alias[key]; ok {
		c.seen[key], name = true, other
	}
	c.seen[name] = true
	if v, there = c.raw[name]; !there {
		v = c.other[key]
	}
	return v, name, there
}

// Any reports whether the object has any fields.
func (c *Config) Any() bool { return len(c.raw) > 0 }

// Fields returns the fields of the object.
func (c *Config) Fields() map[string]any { return c.raw }

// Default sets what a field is where the file leaves it out.
func (c *Config) Default(key string, value any) { c.defaults(key, value) }

// Has reports whether key is in the file and not null.
func (c *Config) Has(key string) bool {
	v, _, there := c.field(key)
	return there && v != nil
}

// Int returns an integer field; without def the field must be there.
func (c *Config) Int(key string, def ...int) int {
	f, ok := c.number(key)
	if !ok {
		return fallback(c, key, def)
	}
	if f != math.Trunc(f) || math.Abs(f) > math.MaxInt32 {
		v, name, _ := c.field(key)
		c.fail(name, "%s is not a 32-bit integer", inWords(v))
		return 0
	}
	return int(f)
}

// Float returns a number field; without def the field must be there.
func (c *Config) Float(key string, def ...float64) float64 {
	f, ok := c.number(key)
	if !ok {
		return fallback(c, key, def)
	}
	return f
}

// factor is Float of what is multiplied or divided by: 0 would leave nothing, and
// means 1 in a Spec.
func (c *Config) factor(key string, def float64) float64 {
	f := c.Float(key, def)
	if f == 0 {
		_, name, _ := c.field(key)
		c.fail(name, "0, want a positive number")
	}
	return f
}

// optional returns a number field that null turns off: 0 if it is null, def if
// it is absent.
func (c *Config) optional(key string, def float64) float64 {
	if v, _, there := c.field(key); there && v == nil {
		return 0
	}
	return c.Float(key, def)
}

// count is optional of a whole number that is not negative.
func (c *Config) count(key string, def int) int {
	f := c.optional(key, float64(def))
	if f != math.Trunc(f) || f < 0 || f > math.MaxInt32 {
		v, name, _ := c.field(key)
		c.fail(name, "%v, want a whole number, 0 or more", v)
		return 0
	}
	return int(f)
}

// Bool returns a boolean field, or def; null is false, as in Python.
func (c *Config) Bool(key string, def bool) bool {
	v, name, there := c.field(key)
	switch v := v.(type) {
	case nil:
		return def && !there
	case bool:
		return v
	default:
		c.fail(name, "%s is not true or false", inWords(v))
		return def
	}
}

// String returns a string field; without def the field must be there. Null is what
// the architecture has where it is absent.
func (c *Config) String(key string, def ...string) string {
	v, name, _ := c.field(key)
	if v == nil {
		v = c.other[key]
	}
	switch v := v.(type) {
	case nil:
		return fallback(c, key, def)
	case string:
		return v
	default:
		c.fail(name, "%s is not a string", inWords(v))
		return ""
	}
}

// Strings returns a list of strings, nil if it is absent.
func (c *Config) Strings(key string) []string {
	return list[string](c, key, "strings")
}

// Floats returns a list of numbers, nil if it is absent.
func (c *Config) Floats(key string) []float64 {
	var out []float64
	for _, n := range list[json.Number](c, key, "numbers") {
		f, err := n.Float64()
		if err != nil {
			c.fail(key, "%v is out of range", n)
		}
		out = append(out, f)
	}
	return out
}

func list[T any](c *Config, key, what string) []T {
	v, name, _ := c.field(key)
	if v == nil {
		return nil
	}
	values, ok := v.([]any)
	out := make([]T, len(values))
	for i, v := range values {
		t, is := v.(T)
		out[i], ok = t, ok && is
	}
	if !ok {
		c.fail(name, "want a list of %s", what)
		return nil
	}
	return out
}

// Object returns a nested object; one that is absent, null or empty, which is false in
// Python, is what the architecture has then, or empty.
func (c *Config) Object(key string) *Config {
	v, name, _ := c.field(key)
	if fields, ok := v.(map[string]any); v == nil || ok && len(fields) == 0 {
		v = c.other[key]
	}
	if sub := c.subs[name]; sub != nil {
		return sub
	}
	sub := newConfig(c.file, c.path+name+".", c.first)
	switch v := v.(type) {
	case nil:
	case map[string]any:
		sub.raw = v
	default:
		c.fail(name, "%s is not an object", inWords(v))
	}
	c.subs[name] = sub
	return sub
}

// number returns a numeric field, and whether it is there.
func (c *Config) number(key string) (float64, bool) {
	v, name, _ := c.field(key)
	if v == nil {
		return 0, false
	}
	if tagged, ok := v.(map[string]any); ok && tagged["__float__"] != nil { // as of ordered.Tagged
		v = tagged["__float__"]
	}
	n, ok := v.(json.Number)
	if !ok {
		c.fail(name, "%s is not a number", inWords(v))
		return 0, true
	}
	f, err := n.Float64()
	if err != nil {
		c.fail(name, "%v is out of range", v)
	}
	return f, true
}

func fallback[T any](c *Config, key string, def []T) (v T) {
	if len(def) == 0 {
		c.fail(key, "missing")
		return v
	}
	return def[0]
}

// fail keeps the first error.
func (c *Config) fail(key, format string, args ...any) {
	if *c.first == nil {
		*c.first = fmt.Errorf("%s: %s%s: %s", c.file, c.path, key, fmt.Sprintf(format, args...))
	}
}

// Refuse keeps an error about a field whose value this program does not know, or
// that does not fit, with what to do about it.
func (c *Config) Refuse(key, format string, args ...any) {
	if *c.first == nil {
		*c.first = fmt.Errorf("%s: %s%s: %w: %s", c.file, c.path, key, ErrUnsupported, fmt.Sprintf(format, args...))
	}
}

// refuse keeps an error about a value that this program does not know.
func (c *Config) refuse(key, value string) {
	if *c.first == nil {
		*c.first = fmt.Errorf("%s: %s%s: %w: %q", c.file, c.path, key, ErrUnsupported, value)
	}
}

// act returns the activation function that a field names, and whether its
// result is squared.
func (c *Config) act(key, def string) (a device.Act, squared bool) {
	switch name := c.String(key, def); name {
	case "silu", "swish":
		return device.SiLU, false
	case "gelu":
		return device.GELU, false
	case "gelu_pytorch_tanh", "gelu_new", "gelu_fast":
		return device.GELUTanh, false
	case "relu":
		return device.ReLU, false
	case "relu2":
		return device.ReLU, true
	default:
		c.refuse(key, name)
		return 0, false
	}
}

// replace sets a field to what another part of the file says of it.
func (c *Config) replace(key string, value any) {
	_, name, there := c.field(key)
	if there {
		delete(c.raw, name)
	}
	delete(c.other, key)
	c.defaults(key, value)
}

// inWords is a value for messages.
func inWords(v any) string {
	switch v.(type) {
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	}
	return fmt.Sprint(v)
}
