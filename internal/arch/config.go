package arch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"

	"exl2/internal/ordered"
	"exl2/internal/regular"
)

// Config reads a config.json. Like bufio.Scanner it keeps its first error, so
// that an entry of the architecture table is a plain list of fields.
type Config struct {
	file  string         // for messages
	path  string         // of this object in the file: "", "rope_scaling."
	raw   map[string]any // numbers are json.Number
	other map[string]any // what absent fields are, by the architecture's own defaults
	alias map[string]string
	seen  map[string]bool
	subs  map[string]*Config
	first *error // shared with nested objects
}

func newConfig(file, path string, first *error) *Config {
	return &Config{file: file, path: path, other: map[string]any{}, alias: map[string]string{}, seen: map[string]bool{}, subs: map[string]*Config{}, first: first}
}

// Err returns the first error.
func (c *Config) Err() error { return *c.first }

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
	c := newConfig(file, "", new(error))
	d := json.NewDecoder(bytes.NewReader(ordered.FromPython(bytes.TrimPrefix(data, []byte(regular.ByteOrderMark)), ordered.Tagged)))
	d.UseNumber()
	if err := d.Decode(&c.raw); err != nil {
		return nil, fmt.Errorf("%s: %w", file, regular.InWords(err))
	}
	if c.raw == nil {
		return nil, fmt.Errorf("%s: null, want an object", file)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("%s: text after the object", file)
	}
	return c, nil
}

// QuantizationKeys are the fields of a config.json that say how a model is quantized; the
// second is what the first versions of compressed-tensors wrote.
var QuantizationKeys = []string{"quantization_config", "compression_config"}
