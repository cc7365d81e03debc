package arch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"path/filepath"

	"exl2/internal/device"
	"exl2/internal/regular"
)

// Config reads a config.json. Like bufio.Scanner it keeps its first error, so
// that an entry of the architecture table is a plain list of fields.
type Config struct {
	file string         // for messages
	path string         // of this object in the file: "", "rope_scaling."
	raw  map[string]any // numbers are json.Number
	err  error
}

// maxConfig bounds the size of a config.json.
const maxConfig = 16 << 20

// ReadConfig reads the config.json of a model's folder.
func ReadConfig(dir string) (*Config, error) {
	name := filepath.Join(dir, "config.json")
	data, err := regular.Read(name, maxConfig)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", dir, err)
	}
	return ParseConfig(name, data)
}

// ParseConfig reads a config.json from memory; file names it in messages.
func ParseConfig(file string, data []byte) (*Config, error) {
	if len(data) > maxConfig {
		return nil, fmt.Errorf("%s: larger than %d MB", file, maxConfig>>20)
	}
	c := &Config{file: file}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&c.raw); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if c.raw == nil {
		return nil, fmt.Errorf("%s: null, want an object", file)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("%s: text after the object", file)
	}
	return c, nil
}

// Arch returns the architecture that the file names.
func (c *Config) Arch() string {
	list, _ := c.raw["architectures"].([]any)
	if len(list) != 1 {
		c.fail("architectures", "want a list of one name, have %v", c.raw["architectures"])
		return ""
	}
	name, ok := list[0].(string)
	if !ok {
		c.fail("architectures", "%v is not a name", list[0])
	}
	return name
}

// Has reports whether key is there and not null.
func (c *Config) Has(key string) bool { return c.raw[key] != nil }

// Int returns an integer field; without def the field must be there.
func (c *Config) Int(key string, def ...int) int {
	f, ok := c.number(key)
	if !ok {
		return fallback(c, key, def)
	}
	if f != math.Trunc(f) || math.Abs(f) > math.MaxInt32 {
		c.fail(key, "%v is not a 32-bit integer", c.raw[key])
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

// Bool returns a boolean field, or def.
func (c *Config) Bool(key string, def bool) bool {
	switch v := c.raw[key].(type) {
	case nil:
		return def
	case bool:
		return v
	default:
		c.fail(key, "%v is not true or false", v)
		return def
	}
}

// String returns a string field; without def the field must be there.
func (c *Config) String(key string, def ...string) string {
	switch v := c.raw[key].(type) {
	case nil:
		return fallback(c, key, def)
	case string:
		return v
	default:
		c.fail(key, "%v is not a string", v)
		return ""
	}
}

// Object returns a nested object, empty if it is absent.
func (c *Config) Object(key string) *Config {
	sub := &Config{file: c.file, path: c.path + key + ".", raw: map[string]any{}}
	switch v := c.raw[key].(type) {
	case nil:
	case map[string]any:
		sub.raw = v
	default:
		c.fail(key, "%v is not an object", v)
	}
	return sub
}

// adopt takes over the error of a nested object.
func (c *Config) adopt(sub *Config) {
	if c.err == nil {
		c.err = sub.err
	}
}

// number returns a numeric field, and whether it is there.
func (c *Config) number(key string) (float64, bool) {
	v := c.raw[key]
	if v == nil {
		return 0, false
	}
	n, ok := v.(json.Number)
	if !ok {
		c.fail(key, "%v is not a number", v)
		return 0, true
	}
	f, err := n.Float64()
	if err != nil {
		c.fail(key, "%v is out of range", v)
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
	if c.err == nil {
		c.err = fmt.Errorf("%s: %s%s: %s", c.file, c.path, key, fmt.Sprintf(format, args...))
	}
}

// refuse keeps an error about a value that this program does not know.
func (c *Config) refuse(key, value string) {
	if c.err == nil {
		c.err = fmt.Errorf("%s: %s%s: %w: %q", c.file, c.path, key, ErrUnsupported, value)
	}
}

// Act returns the activation function that a field names.
func (c *Config) Act(key string) device.Act {
	switch name := c.String(key, "silu"); name {
	case "silu", "swish":
		return device.SiLU
	case "gelu":
		return device.GELU
	case "gelu_pytorch_tanh", "gelu_new":
		return device.GELUTanh
	case "relu":
		return device.ReLU
	default:
		c.refuse(key, name)
		return 0
	}
}
