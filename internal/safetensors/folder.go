package safetensors

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A folder is every safetensors file of a folder, readable or not.
type folder struct {
	dir     string
	names   []string // sorted
	files   map[string]*File
	damaged map[string]error // why a file could not be opened
}

// scanFolder opens every safetensors file of dir.
func scanFolder(dir string) (*folder, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	f := &folder{dir: dir, files: map[string]*File{}, damaged: map[string]error{}}
	var others []string
	for _, e := range entries {
		switch name := e.Name(); {
		case e.IsDir(), strings.HasPrefix(name, "."):
		case strings.HasSuffix(name, extension):
			f.names = append(f.names, name)
		default:
			others = append(others, name)
		}
	}
	if len(f.names) == 0 {
		return nil, fmt.Errorf("%s: no *.safetensors files%s", dir, instead(others))
	}
	for _, name := range f.names {
		if file, err := Open(filepath.Join(dir, name)); err != nil {
			f.damaged[name] = err
		} else {
			f.files[name] = file
		}
	}
	return f, nil
}

// instead says which of a folder's files hold weights of another kind, and what to do.
func instead(names []string) string {
	const original = "is not read, get the original model, as safetensors"
	const first = "convert the model to safetensors first"
	for _, known := range []struct{ pattern, remedy string }{
		{"pytorch_model*.bin", first}, {"*.gguf", "GGUF " + original}, {"*.bin", first}, {"*.pth", first}, {"*.pt", first}, {"*.ckpt", first},
		{"*.onnx", "ONNX " + original}, {"*.h5", first}, {"*.msgpack", first},
	} {
		for _, name := range names {
			if ok, _ := filepath.Match(known.pattern, name); ok {
				return fmt.Sprintf("; %s is there: %s", name, known.remedy)
			}
		}
	}
	return ""
}

// choose makes the set of the folder's model.
func (f *folder) choose(unindexed func(tensor string) bool) (*Set, error) {
	s := &Set{dir: f.dir, owner: map[string]*File{}}
	if unindexed != nil && f.any(unindexed) {
		return s, f.takeAll(s)
	}
	if slices.Contains(f.names, wholeName) {
		f.names = []string{wholeName}
		return s, f.takeAll(s)
	}
	index, err := readIndex(filepath.Join(f.dir, indexName))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return s, f.takeAll(s)
	case err != nil:
		return s, err
	}
	return s, f.takeIndex(s, index)
}

// any tells whether is holds of a tensor of any file.
func (f *folder) any(is func(tensor string) bool) bool {
	for _, file := range f.files {
		if slices.ContainsFunc(file.entries, func(e entry) bool { return is(e.Name) }) {
			return true
		}
	}
	return false
}

// takeAll adds all tensors of all files.
func (f *folder) takeAll(s *Set) error {
	for _, name := range f.names {
		if err := f.damaged[name]; err != nil {
			return err
		}
		if err := s.add(f.files[name], f.files[name].Names()); err != nil {
			return err
		}
	}
	return nil
}

// takeIndex adds the tensors that the index names. Files that it does not
// name, such as a second copy of the model, need not even be readable.
func (f *folder) takeIndex(s *Set, index []placement) error {
	for _, p := range index {
		file, ok := f.files[p.shard]
		if err := f.damaged[p.shard]; err != nil {
			return err
		}
		if !ok {
			return f.missing(p)
		}
		if _, ok := file.places[p.tensor]; !ok {
			return fmt.Errorf("%s: tensor %s is not in %s; %s", filepath.Join(f.dir, indexName), quote(p.tensor), p.shard, anotherIndex)
		}
		if err := s.add(file, []string{p.tensor}); err != nil {
			return err
		}
	}
	return nil
}

// anotherIndex is what to do about an index that is not that of the files.
const anotherIndex = "get the index that belongs to these files, or remove it, and all of them are read"

// missing says that a shard of the index is not there. If some other file is
// damaged, that is the likelier trouble: it would have shown that the index is stale.
func (f *folder) missing(p placement) error {
	for _, name := range f.names {
		if err := f.damaged[name]; err != nil {
			return err
		}
	}
	return fmt.Errorf("%s: tensor %s: shard %s is not there; download it, or %s", filepath.Join(f.dir, indexName), quote(p.tensor), p.shard, anotherIndex)
}

// closeExcept closes the files that are not used.
func (f *folder) closeExcept(used []*File) {
	for _, file := range f.files {
		if !slices.Contains(used, file) {
			file.Close()
		}
	}
}
