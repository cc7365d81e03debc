package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"exl2/convert"
	"exl2/internal/regular"
)

// checkModel refuses a folder without a config.json, and says what it seems to be instead. One
// with links to nothing is refused by every command, whichever of its files that reads.
func checkModel(dir string) error {
	if err := checkLinks(dir); err != nil {
		return err
	}
	_, err := os.Stat(filepath.Join(dir, "config.json"))
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, seems := range []func(string) string{
		seemsJob, seemsAdapter, seemsCache, seemsGGUF, seemsOther, seemsShelf,
	} {
		if what := seems(dir); what != "" {
			return fmt.Errorf("model %s: no config.json; %s", dir, what)
		}
	}
	return fmt.Errorf("model %s: no config.json; give the folder that holds it", dir)
}

// described are the endings of files that say what a model is, beside its weights.
var described = []string{".json", ".jinja", ".model", ".tiktoken"}

// checkLinks refuses links to nothing in the place of such files.
func checkLinks(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if e.Type()&fs.ModeSymlink == 0 || strings.HasPrefix(e.Name(), ".") || !slices.Contains(described, filepath.Ext(path)) { // an editor's locks begin so
			continue
		}
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			link, _ := os.Readlink(path)
			return fmt.Errorf("model %s: %s is a link to %s, which is not there; remove the link, or put the file in its place", dir, e.Name(), link)
		}
	}
	return nil
}

// seemsJob knows the folder of a conversion, whose models are elsewhere or not yet there.
func seemsJob(dir string) string {
	asked, err := convert.Resume(dir)
	if err != nil {
		return ""
	}
	switch n := len(asked.Targets); {
	case n == 0:
		return "it holds a job of exl2 measure, which makes no model"
	case n > 1:
		return fmt.Sprintf("it holds a job of exl2 convert, whose models are %s and the like", filepath.Join(cmp.Or(asked.Out, dir), asked.Targets[0].Text+"bpw"))
	case asked.Out != "":
		return fmt.Sprintf("it holds a job of exl2 convert, whose model is %s", asked.Out)
	}
	return fmt.Sprintf("it holds a job of exl2 convert that has not ended: exl2 convert -o %s goes on with it", dir)
}

// seemsAdapter knows the folder of an adapter.
func seemsAdapter(dir string) string {
	var adapter struct {
		Base string `json:"base_model_name_or_path"`
	}
	data, err := regular.Read(filepath.Join(dir, "adapter_config.json"), 1<<20)
	if err != nil || regular.Unmarshal(data, &adapter) != nil {
		return ""
	}
	if adapter.Base == "" {
		adapter.Base = "its model"
	}
	return fmt.Sprintf("it holds an adapter (LoRA) of %s: merge the two into a model first", adapter.Base)
}

// seemsCache knows a model's folder of the Hugging Face cache, and a folder of such.
func seemsCache(dir string) string {
	for _, at := range []string{"snapshots/*/config.json", "models--*/snapshots/*/config.json"} {
		if found := matches(dir, at); len(found) > 0 {
			return "it is a folder of the Hugging Face cache: give org/name, or " + filepath.Dir(found[0])
		}
	}
	return ""
}

// seemsGGUF knows files of llama.cpp.
func seemsGGUF(dir string) string {
	if found := matches(dir, "*.gguf"); len(found) > 0 {
		return fmt.Sprintf("it holds %s: GGUF is not read, give the original model, as safetensors", filepath.Base(found[0]))
	}
	return ""
}

// seemsOther knows the layouts in which some publish models beside that of Hugging Face.
func seemsOther(dir string) string {
	for _, known := range []struct{ file, is string }{
		{"params.json", "the layout of Meta's and Mistral's own programs: give the model in that of Hugging Face"},
		{"model_config.yaml", "the layout of NeMo: give the model in that of Hugging Face"},
		{"model_index.json", "a pipeline of diffusers, not a language model"},
	} {
		if len(matches(dir, known.file)) > 0 {
			return fmt.Sprintf("it holds %s, %s", known.file, known.is)
		}
	}
	return ""
}

// seemsShelf knows a folder whose folders are models.
func seemsShelf(dir string) string {
	const most = 5
	found := matches(dir, "*/config.json")
	if len(found) == 0 {
		return ""
	}
	var list []string
	for _, f := range found[:min(len(found), most)] {
		list = append(list, filepath.Dir(f))
	}
	if len(found) > most {
		list = append(list, "...")
	}
	return "folders in it have one: " + strings.Join(list, ", ")
}

// matches returns the files in a folder that a pattern names, with the folder in front.
func matches(dir, pattern string) []string {
	names, err := fs.Glob(os.DirFS(dir), pattern)
	if err != nil {
		return nil
	}
	for i, name := range names {
		names[i] = filepath.Join(dir, name)
	}
	return names
}
