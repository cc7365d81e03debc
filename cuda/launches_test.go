package cuda

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"exl2/internal/model"
	"exl2/internal/synth/synthtest"
)

// What a decode step launches for a layer on Hopper, of one sequence and of eight, is what it takes most of its time for. Kernels are listed as a
// driver sees them that does nothing; those of the second layer, as the first has nothing that was left for it, or of the last where that is another one.
func TestLaunches(t *testing.T) {
	want := map[string][2]string{
		"llama_packed": {
			"qmatmul_one attend_left_64 qmatmul_one, qmatmul_one qmatmul_one",
			"qmatmul_batch_8 attend_meet_64_8 qmatmul_batch_8, qmatmul_batch_8 qmatmul_batch_8",
		},
		"granite_packed": {
			"qmatmul_one attend_left_64 qmatmul_one, qmatmul_one qmatmul_one",
			"qmatmul_batch_8 attend_meet_64_8 qmatmul_batch_8, qmatmul_batch_8 qmatmul_batch_8",
		},
		"gemma2_packed": {
			"qmatmul_one_joined attend_left_64 qmatmul_one_joined, qmatmul_one_joined qmatmul_one_joined",
			"qmatmul_batch_8 attend_meet_64_8 qmatmul_batch_8 sum_stream_f16, qmatmul_batch_8 qmatmul_batch_8 sum_stream_f16",
		},
		"gemma4_packed": {
			"qmatmul_one_joined attend_meet_64_8_more qmatmul_one_joined, qmatmul_one_joined qmatmul_one_joined",
			"qmatmul_batch_8 attend_meet_64_8_more qmatmul_batch_8 sum_stream_f16, qmatmul_batch_8 qmatmul_batch_8 sum_stream_f16",
		},
		"gemma4_moe_packed": {
			"qmatmul_one attend_meet_128_8_more qmatmul_one sum_stream_f16, qmatmul_placed qmatmul_one choose_apart_f16 mixture_gate_alike mixture_down sum_stream_two",
			"qmatmul_batch_8 attend_meet_128_8_more qmatmul_batch_8 sum_stream_f16, order_rows_rms_f32 qmatmul_batch_8 qmatmul_batch_8 choose_apart_f16 mixture_gate_alike mixture_down sum_stream_two",
		},
		"gemma4_e_packed": {
			"qmatmul_one attend_meet_64_8_more qmatmul_one sum_stream_f16, qmatmul_one qmatmul_one sum_stream_f16 gemv_gated_f16 gemv_f16_f16 sum_stream_f16",
			"qmatmul_batch_8 attend_meet_64_8_more qmatmul_batch_8 sum_stream_f16, qmatmul_batch_8 qmatmul_batch_8 sum_stream_f16 gemv_gated_f16 gemm_hopper_128_f16 sum_stream_f16",
		},
		"gemma4_lent_packed": {
			"qmatmul_one attend_meet_128_8 qmatmul_one sum_stream_f16, qmatmul_one qmatmul_one sum_stream_f16 gemv_gated_f16 gemv_f16_f16 sum_stream_f16",
			"qmatmul_batch_8 attend_meet_128_8 qmatmul_batch_8 sum_stream_f16, qmatmul_batch_8 qmatmul_batch_8 sum_stream_f16 gemv_gated_f16 gemm_hopper_128_f16 sum_stream_f16",
		},
		"glm4_packed": {
			"qmatmul_one_joined attend_left_64 qmatmul_one_joined, qmatmul_one_joined qmatmul_one_joined",
			"qmatmul_batch_8 attend_meet_64_8 qmatmul_batch_8 sum_stream_f16, qmatmul_batch_8 qmatmul_batch_8 sum_stream_f16",
		},
		"olmo2_packed": {
			"qmatmul_one_joined attend_meet_64_8_more qmatmul_one_joined, qmatmul_one_joined qmatmul_one_joined",
			"qmatmul_batch_8 attend_meet_64_8_more qmatmul_batch_8 sum_stream_f16, qmatmul_batch_8 qmatmul_batch_8 sum_stream_f16",
		},
		"hunyuan_packed": {
			"qmatmul_one attend_meet_64_8_more qmatmul_one, qmatmul_one qmatmul_one",
			"qmatmul_batch_8 attend_meet_64_8_more qmatmul_batch_8, qmatmul_batch_8 qmatmul_batch_8",
		},
		"stablelm_packed": {
			"qmatmul_placed qmatmul_placed qmatmul_one head_norm_layer_f16 attend_meet_64_8 qmatmul_placed",
			"order_rows_layer_f32 qmatmul_batch_8 qmatmul_batch_8 qmatmul_batch_8 head_norm_layer_f16 attend_meet_64_8 qmatmul_batch_8",
		},
		"cohere_packed": {
			"qmatmul_placed qmatmul_placed qmatmul_one attend_meet_64_8 qmatmul_placed",
			"order_rows_layer_f32 qmatmul_batch_8 qmatmul_batch_8 qmatmul_batch_8 attend_meet_64_8 qmatmul_batch_8",
		},
		"starcoder2_packed": {
			"qmatmul_placed attend_left_64 qmatmul_placed, qmatmul_placed qmatmul_one",
			"order_rows_layer_f32 qmatmul_batch_8 attend_meet_64_8 qmatmul_batch_8, order_rows_layer_f32 qmatmul_batch_8 qmatmul_batch_8",
		},
		"nemotron_packed": {
			"qmatmul_placed attend_left_64 qmatmul_placed, qmatmul_placed qmatmul_one",
			"order_rows_layer_f32 qmatmul_batch_8 attend_meet_64_8 qmatmul_batch_8, order_rows_layer_f32 qmatmul_batch_8 qmatmul_batch_8",
		},
		"gptj_packed": {
			"qmatmul_placed attend_meet_64_8 qmatmul_placed act_mul_gelu_tanh_f16 qmatmul_placed",
			"order_rows_layer_f32 qmatmul_batch_8 qmatmul_batch_8 qmatmul_batch_8 attend_spread_64 qmatmul_batch_8",
		},
		"falcon_h1_packed": {
			"norm_rms_f32_f16 qmatmul_placed qmatmul_placed attend_meet_64_8 gemv_f16_f32 cap_f32 delta_convolve_128 delta_plain_128 copy_f32_f16 clamp_mul_f16 qmatmul_placed qmatmul_placed add_scaled_f16 add_scaled_f16, qmatmul_placed clamp_mul_f16 qmatmul_placed sum_stream_f16",
			"norm_rms_f32_f16 order_rows_f16 qmatmul_batch_8 qmatmul_batch_8 attend_meet_64_8 gemm_hopper_128_f32 cap_f32 delta_convolve_128 delta_plain_128 copy_f32_f16 clamp_mul_f16 order_rows_f16 qmatmul_batch_8 order_rows_f16 qmatmul_batch_8 add_scaled_f16 add_scaled_f16, order_rows_rms_f32 qmatmul_batch_8 clamp_mul_f16 order_rows_f16 qmatmul_batch_8 sum_stream_f16",
		},
		"deepseek_v2_packed": {
			"qmatmul_one gemv_heads_keys attend_latent_rows_1 gemv_heads_values_1 qmatmul_one, qmatmul_one qmatmul_one",
			"qmatmul_batch_8 gemv_heads_keys attend_latent_rows_1 gemv_heads_values_1 qmatmul_batch_8, qmatmul_batch_8 qmatmul_batch_8",
		},
	}
	for _, dir := range slices.Concat(synthtest.Write(t, synthtest.Sums, 4), synthtest.Write(t, synthtest.Others, 4)) {
		name := filepath.Base(dir)
		for i, sequences := range []int{1, 8} {
			t.Run(name, func(t *testing.T) {
				if got := launchesOf(t, dir, sequences); got != want[name][i] {
					t.Errorf("%d sequences: %q, want %q", sequences, got, want[name][i])
				}
			})
		}
	}
}

// launchesOf returns the kernels of the modules of a model's second layer, in a step behind another one.
func launchesOf(t *testing.T, dir string, sequences int) string {
	f := newFake()
	f.own, f.attr[attributeSharedOptIn], f.attr[attributeSMs], f.attr[attributeMajor], f.attr[attributeMinor] = 1<<10, 227<<10, 132, 9, 0
	d := f.open(t)
	defer d.Close()
	modules, s := loadSteps(t, dir, d, sequences)
	var names []string
	f.launched(d, func(name string) { names = append(names, name) })
	var layer []string
	lists := 1
	if strings.Contains(dir, "lent") {
		lists = modules[len(modules)-2].Layer
	}
	for at := range stepsLoaded {
		beginStep(s, sequences, at)
		for _, m := range modules {
			names = nil
			m.Forward(s)
			if at == 1 && m.Layer == lists && m.Kind != model.Head {
				layer = append(layer, strings.Join(names, " "))
			}
		}
	}
	if d.err != nil {
		t.Fatal(d.err)
	}
	return strings.Join(layer, ", ")
}
