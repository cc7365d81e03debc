package infer

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestReadSettings(t *testing.T) {
	for name, c := range map[string]struct {
		config, generation string
		end                []int32
		sampler            Sampler
		err                string
	}{
		"no files":              {sampler: Sampler{Temperature: 1}},
		"one end":               {config: `{"eos_token_id": 2}`, end: []int32{2}, sampler: Sampler{Temperature: 1}},
		"several ends":          {config: `{"eos_token_id": 2}`, generation: `{"eos_token_id": [7, 8]}`, end: []int32{2, 7, 8}, sampler: Sampler{Temperature: 1}},
		"of the language model": {config: `{"text_config": {"eos_token_id": [3, 4]}}`, end: []int32{3, 4}, sampler: Sampler{Temperature: 1}},
		"of what thinks":        {config: `{"thinker_config": {"text_config": {"eos_token_id": 4}}}`, end: []int32{4}, sampler: Sampler{Temperature: 1}},
		"of the whole model":    {config: `{"eos_token_id": 2, "text_config": {"eos_token_id": 3}}`, end: []int32{2}, sampler: Sampler{Temperature: 1}},
		"none":                  {config: `{"eos_token_id": null}`, sampler: Sampler{Temperature: 1}},
		"greedy":                {generation: `{"temperature": 0}`},
		"all that is sampled": {generation: `{"do_sample": false, "temperature": 0.6, "top_k": 20, "top_p": 0.95, "min_p": 0.1, "typical_p": 0.9, "repetition_penalty": 1.05}`,
			sampler: Sampler{Temperature: 0.6, TopK: 20, TopP: 0.95, MinP: 0.1, Typical: 0.9, Repetition: 1.05}},
		"of config.json only the end": {config: `{"temperature": 0.5}`, sampler: Sampler{Temperature: 1}},
		"no JSON":                     {generation: `{`, err: "generation_config.json: unexpected end"},
		"no ids":                      {config: `{"eos_token_id": "</s>"}`, err: `config.json: eos_token_id: "</s>", want a token id or a list of them`},
		"an id that is null":          {generation: `{"eos_token_id": [2, null]}`, err: `generation_config.json: eos_token_id: [2, null], want a token id`},
		"a text for a number":         {generation: `{"temperature": "0.6"}`, err: "generation_config.json: temperature: have a JSON string, want a number"},
		"an infinite number":          {generation: `{"temperature": Infinity}`, err: "generation_config.json: temperature: have Infinity, want a number"},
		"no number":                   {generation: `{"top_k": NaN}`, err: "generation_config.json: top_k: have NaN, want a whole number in range (int)"},
		"an infinite end":             {config: `{"text_config": {"eos_token_id": -Infinity}}`, err: "config.json: text_config.eos_token_id: -Infinity, want a token id or a list of them"},
		"names in other case":         {config: `{"EOS_token_id": 2}`, generation: `{"Temperature": 0.001, "TOP_K": "x"}`, sampler: Sampler{Temperature: 1}},
		"a fraction":                  {generation: `{"top_k": 0.5}`, err: "top_k: have a JSON number 0.5, want a whole number"},
		"no object":                   {generation: `[]`, err: "generation_config.json: have a JSON array, want an object"},
		"others' fields":              {config: `{"top_k": [2, 4], "temperature": "high"}`, sampler: Sampler{Temperature: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range map[string]string{"config.json": c.config, "generation_config.json": c.generation} {
				if text == "" {
					continue
				}
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			s, err := ReadSettings(dir)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("error %v, want %q in it", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(s.End, c.end) || s.Sampler != c.sampler {
				t.Errorf("ends %v, sampler %+v, want %v and %+v", s.End, s.Sampler, c.end, c.sampler)
			}
		})
	}
}

// What a generation_config.json says of choosing tokens, and no Sampler does, is known by name.
func TestForeignSettings(t *testing.T) {
	for generation, want := range map[string]string{
		`{"suppress_tokens": [5], "num_beams": 4, "min_length": 3, "stop_strings": "x"}`:                                     "min_length num_beams stop_strings suppress_tokens",
		`{"suppress_tokens": [], "num_beams": 1, "min_length": 0, "stop_strings": null, "guidance_scale": 1.0}`:              "",
		`{"temperature": 0.6, "max_new_tokens": 9, "cache_implementation": "hybrid", "length_penalty": 2, "Num_Beams": 4}`:   "",
		`{"forced_eos_token_id": 0, "sequence_bias": {"[5]": -1}, "presence_penalty": 1.5, "encoder_repetition_penalty": 1}`: "forced_eos_token_id presence_penalty sequence_bias",
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "generation_config.json"), []byte(generation), 0o666); err != nil {
			t.Fatal(err)
		}
		s, err := ReadSettings(dir)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(s.Foreign, " "); got != want {
			t.Errorf("%s: %q, want %q", generation, got, want)
		}
	}
}
