package tokenizer

import (
	"encoding/json"
	"fmt"

	"exl2/infer/tokenizer/internal/normalize"
)

// Limits that no real tokenizer comes near. Beyond them a small file could
// make encoding take all memory there is.
const (
	maxGrowth = 1 << 8 // how many times longer the normalizer, say, may make a text
	maxDepth  = 16     // Sequences within Sequences
)

// checkPipeline refuses components that are nested too deeply, or that
// together may make a text grow without measure.
func checkPipeline(path string, data json.RawMessage) error {
	var v any
	if data == nil {
		return nil
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	g, ok := growth(v, 0)
	if !ok {
		return fmt.Errorf("%s: nested deeper than %d: %w", path, maxDepth, ErrUnsupported)
	}
	if g > maxGrowth {
		return fmt.Errorf("%s: may make a text more than %d times as long: %w", path, maxGrowth, ErrUnsupported)
	}
	return nil
}

// growth estimates how many times longer the components within v make a text.
// It reports false if they are nested too deeply.
func growth(v any, depth int) (float64, bool) {
	if depth > maxDepth {
		return 0, false
	}
	all := 1.0
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			g, ok := growth(e, depth+1)
			if !ok {
				return 0, false
			}
			all *= g
		}
	case map[string]any:
		for _, key := range []string{"normalizers", "pretokenizers", "processors", "decoders"} {
			g, ok := growth(v[key], depth+1)
			if !ok {
				return 0, false
			}
			all *= g
		}
		all *= growthOf(v)
	}
	return all, true
}

// growthOf estimates how many times longer one component makes a text.
func growthOf(component map[string]any) float64 {
	switch component["type"] {
	case "ByteLevel", "BertNormalizer", "Metaspace":
		return 3
	case "Precompiled":
		return normalize.MaxReplacement
	case "Prepend":
		text, _ := component["prepend"].(string)
		return float64(len(text) + 1)
	case "Replace":
		content, _ := component["content"].(string)
		pattern, _ := component["pattern"].(map[string]any)
		if text, ok := pattern["String"].(string); ok && text != "" {
			return max(1, float64(len(content))/float64(len(text)))
		}
		return float64(len(content) + 1)
	}
	return 1
}
