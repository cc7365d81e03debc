package convert

import (
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"exl2/internal/safetensors"
)

// What early files of GPT-2 and GPT-NeoX have of masks, -1e9 in fp16 among it, follows from
// the configuration: nothing reads it, no converted model has it, and it is no damage.
func TestMasks(t *testing.T) {
	const minusInfinity = 0xfc00
	for name, attention := range map[string]string{"gpt2": "transformer.h.%d.attn", "gpt_bigcode": "transformer.h.%d.attn", "gpt_neox": "gpt_neox.layers.%d.attention"} {
		t.Run(name, func(t *testing.T) {
			plain, masked := sourceModel(t, name), sourceModel(t, name)
			if err := os.Rename(filepath.Join(masked, "model.safetensors"), filepath.Join(masked, "model-1.safetensors")); err != nil {
				t.Fatal(err)
			}
			var infos []safetensors.Info
			data := map[string][]byte{}
			for layer := range 2 {
				key := fmt.Sprintf(attention, layer)
				infos = append(infos, safetensors.Info{Name: key + ".bias", DType: "U8", Shape: []int{1, 1, 2, 2}}, safetensors.Info{Name: key + ".masked_bias", DType: safetensors.F16, Shape: []int{}})
				data[key+".bias"], data[key+".masked_bias"] = []byte{1, 0, 1, 1}, binary.LittleEndian.AppendUint16(nil, minusInfinity)
			}
			mustWriteTensors(t, filepath.Join(masked, "model-2.safetensors"), infos, data)
			want, got := convertedTensors(t, plain), convertedTensors(t, masked)
			if a, b := slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)); !slices.Equal(a, b) {
				t.Errorf("tensors %v, want %v", a, b)
			}
		})
	}
}

// mustWriteTensors writes a file of tensors.
func mustWriteTensors(t *testing.T, path string, infos []safetensors.Info, data map[string][]byte) {
	t.Helper()
	w, err := safetensors.Create(path, infos)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	for name, d := range data {
		if err := w.Write(name, d); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
}
