package arch

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "rewrite what testdata/configs.txtar says is meant")

// What the configurations of published models mean. A file is the
// configuration, in its first line, and the summary of its Spec.
func TestPublishedConfigs(t *testing.T) {
	const path = "testdata/configs.txtar"
	list, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range list.Files {
		t.Run(f.Name, func(t *testing.T) {
			config, want, _ := strings.Cut(string(f.Data), "\n")
			c, err := ParseConfig("config.json", []byte(config))
			if err != nil {
				t.Fatal(err)
			}
			s, err := For(c)
			if err != nil {
				t.Fatal(err)
			}
			got := summary(s)
			if got != want {
				t.Errorf("have\n%s", got)
			}
			list.Files[i].Data = []byte(config + "\n" + got)
		})
	}
	if *update {
		if err := os.WriteFile(path, txtar.Format(list), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// summary says what differs from plain in a Spec.
func summary(s Spec) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	a, m := s.Attn, s.MoE
	line("%s: %d layers of %d, vocabulary %d, context %d, tied %v", s.Arch, s.Layers, s.Hidden, s.Vocab, s.MaxPositions, s.Tied)
	line("attention: %d/%d heads of %d, scale %.5g, cap %v, clip %v, biases %v %v", a.Heads, a.KVHeads, a.HeadDim, a.Scale, a.Softcap, a.Clip, a.BiasQKV, a.BiasO)
	if l := s.Latent; l.KVRank > 0 {
		line("latent: %+v", l)
	}
	_, states := s.Keeping(0, s.Layers)
	switch {
	case states == 0:
	case s.Short.Kernel > 0:
		line("convolutions: %+v, %d layers, the first %v", s.Short, states, s.Recurs(0))
	default:
		line("linear attention: %+v, %d layers, the first %v", s.Delta, states, s.Recurs(0))
	}
	if n := s.PerLayer.Size; n > 0 {
		line("inputs of layers: %d columns of %d rows", n, s.PerLayer.Rows)
	}
	for l := range s.Layers {
		if from := s.Lender(l); from != l {
			line("layer %d borrows keys and values of layer %d, layer %d of layer %d", l, from, s.Layers-1, s.Lender(s.Layers-1))
			break
		}
	}
	line("mlp: %d, act %d, bias %v; norm %+v", s.MLP.Width, s.MLP.Act, s.MLP.Bias, s.Norm)
	if m.Experts > 0 {
		line("experts: %d of %d, %d wide, %d shared, %+v", m.TopK, m.Experts, m.Width, m.Shared, m.Routing)
	}
	if s.EmbedScale != 0 || s.Residual != 0 || s.LogitScale != 0 || s.LogitCap != 0 {
		line("scales: embedding %.5g, residual %.5g, logits %.5g, cap %v", s.EmbedScale, s.Residual, s.LogitScale, s.LogitCap)
	}
	first := ""
	for l := range s.Layers {
		if now := layerSummary(s, l); now != first {
			line("layer %d: %s", l, now)
			if first != "" {
				break
			}
			first = now
		}
	}
	line("names: %s, %s, %s", s.Names.Embed, s.Names.Layer(0, s.Names.O), s.Names.Head)
	for _, f := range s.Features() {
		line("needs %s", f)
	}
	for _, w := range s.Warnings {
		line("warns of %s", w)
	}
	return b.String()
}

func layerSummary(s Spec, l int) string {
	window, rope, kind := 0, "none", "mlp"
	if s.Window != nil {
		window = s.Window(l)
	}
	if s.Rope != nil && s.Rope(l).Dims > 0 {
		r := s.Rope(l)
		rope = fmt.Sprintf("θ %.6g, %d dims, interleaved %v", r.Theta, r.Dims, r.Interleaved)
		if r.Turning > 0 {
			rope += fmt.Sprintf(", %d pairs turn", r.Turning)
		}
		if k := r.Scaling; k.Kind != Unscaled {
			_, scale := r.For(s.MaxPositions).Frequencies()
			rope += fmt.Sprintf(", scaling %d of %d by %v from %v to %v, scale %.5g", k.Kind, k.Original, k.Factor, k.Low, k.High, scale)
		}
	}
	switch {
	case s.Sparse(l):
		kind = "experts"
	case s.Widths != nil:
		kind = fmt.Sprintf("mlp of %d", s.MLPWidth(l))
	}
	if !s.Attends(l) {
		return kind + ", no attention"
	}
	if a := s.AttnOf(l); s.Attention != nil {
		kind += fmt.Sprintf(", %d/%d heads of %d, keys for values %v", a.Heads, a.KVHeads, a.HeadDim, a.KeyValues)
	}
	return fmt.Sprintf("%s, window %d, rope %s", kind, window, rope)
}

// Every field that transformers' own class for an architecture has is
// understood, or known to be harmless, and, left out, means what it means there.
func TestClasses(t *testing.T) {
	list, err := txtar.ParseFile("testdata/classes.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range list.Files {
		t.Run(f.Name, func(t *testing.T) {
			c, s := specOf(t, f.Data)
			if s.Warnings != nil {
				t.Errorf("not understood: %v", s.Warnings)
			}
			for key := range c.raw {
				if arithmetic[key] && !c.seen[key] {
					t.Errorf("%s is not read", key)
				}
			}
			_, sparse := specOf(t, withoutDefaults(t, f.Data))
			if have, want := summary(sparse), summary(s); have != want {
				t.Errorf("without fields that have defaults\n%s, want\n%s", have, want)
			}
		})
	}
}

func specOf(t *testing.T, data []byte) (*Config, Spec) {
	t.Helper()
	c, err := ParseConfig("config.json", data)
	if err != nil {
		t.Fatal(err)
	}
	s, err := For(c)
	if err != nil {
		t.Fatal(err)
	}
	return c, s
}

// withoutDefaults leaves only the fields that every configuration has.
func withoutDefaults(t *testing.T, data []byte) []byte {
	var all map[string]any
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	sizes := set(`architectures vocab_size hidden_size intermediate_size num_hidden_layers num_attention_heads num_experts
		num_experts_per_tok moe_intermediate_size shared_expert_intermediate_size num_local_experts n_routed_experts n_shared_experts
		n_embd n_layer n_head n_positions ffn_dim num_layers num_heads d_model n_heads n_layers attn_config ffn_config max_seq_len`)
	maps.DeleteFunc(all, func(key string, _ any) bool { return !sizes[key] })
	if all["architectures"].([]any)[0] == "Glm4MoeForCausalLM" {
		all["head_dim"] = 128
	}
	out, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
