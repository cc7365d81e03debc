package infer

import (
	"encoding/json"
	"maps"
	"slices"
)

// neutral are the fields of transformers' GenerationConfig, and the penalties that other
// programs add to it, by which tokens are chosen and which no Sampler has, with the number
// that changes nothing.
var neutral = map[string]float64{
	"num_beams": 1, "num_beam_groups": 1, "penalty_alpha": 0, "dola_layers": 0, "guidance_scale": 1,
	"epsilon_cutoff": 0, "eta_cutoff": 0, "top_h": 0, "encoder_repetition_penalty": 1, "no_repeat_ngram_size": 0,
	"presence_penalty": 0, "frequency_penalty": 0,
	"bad_words_ids": 0, "force_words_ids": 0, "constraints": 0, "sequence_bias": 0, "watermarking_config": 0,
	"suppress_tokens": 0, "begin_suppress_tokens": 0, "forced_bos_token_id": -1, "forced_eos_token_id": -1,
	"exponential_decay_length_penalty": 0, "min_length": 0, "min_new_tokens": 0, "stop_strings": 0,
}

// foreign returns the names of such fields that turn something on.
func foreign(fields map[string]json.RawMessage) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		number, ok := neutral[name]
		if !ok {
			continue
		}
		var v any
		if json.Unmarshal(fields[name], &v) == nil && turnsOn(v, number) {
			names = append(names, name)
		}
	}
	return names
}

// turnsOn reports whether a value does something, if a number does nothing.
func turnsOn(v any, number float64) bool {
	switch v := v.(type) {
	case nil:
		return false
	case bool:
		return v
	case float64:
		return v != number
	case string:
		return v != ""
	case []any:
		return len(v) > 0
	case map[string]any:
		return len(v) > 0
	}
	return true
}
