package safetensors

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
)

const (
	extension = ".safetensors"
	wholeName = "model.safetensors"
	indexName = "model.safetensors.index.json"
)

// A Set is the tensors of a model folder. All methods but Close may be called
// concurrently.
type Set struct {
	dir   string
	files []*File
	owner map[string]*File // by tensor
	names []string
	bytes int64
}

// OpenDir opens the tensors of a model folder: those of model.safetensors, or else
// those that model.safetensors.index.json names, in the files that it names
// (transformers modeling_utils.py looks in this order), or else those of every
// *.safetensors file. If unindexed, which may be nil, is true of any tensor of the
// folder all files are taken: quantizers leave their source's index, which names
// files that are not there. A tensor that two files hold is an error. Hidden files,
// such as those that macOS leaves, are no files of the model.
func OpenDir(dir string, unindexed func(tensor string) bool) (*Set, error) {
	f, err := scanFolder(dir)
	if err != nil {
		return nil, err
	}
	s, err := f.choose(unindexed)
	if err != nil {
		f.closeExcept(nil)
		return nil, err
	}
	f.closeExcept(s.files)
	s.names = slices.Sorted(maps.Keys(s.owner))
	for name, file := range s.owner {
		e := file.entries[file.places[name]]
		s.bytes += e.end - e.begin
	}
	return s, nil
}

// add takes tensors of a file into the set.
func (s *Set) add(file *File, names []string) error {
	if !slices.Contains(s.files, file) {
		s.files = append(s.files, file)
	}
	for _, name := range names {
		if other, ok := s.owner[name]; ok {
			return fmt.Errorf("%s: tensor %s is also in %s; move the file away that is not the model's", file.path, quote(name), filepath.Base(other.path))
		}
		s.owner[name] = file
	}
	return nil
}

// Names returns the names of the tensors, sorted.
func (s *Set) Names() []string { return slices.Clone(s.names) }

// Has tells whether the folder has a tensor.
func (s *Set) Has(name string) bool { return s.owner[name] != nil }

// TotalBytes returns the length of the data of all tensors.
func (s *Set) TotalBytes() int64 { return s.bytes }

// Paths returns the files that the tensors are in.
func (s *Set) Paths() []string {
	paths := make([]string, len(s.files))
	for i, f := range s.files {
		paths[i] = f.path
	}
	return paths
}

// file returns the file of a tensor.
func (s *Set) file(name string) (*File, error) {
	if f, ok := s.owner[name]; ok {
		return f, nil
	}
	for _, f := range s.files {
		if _, ok := f.places[name]; ok {
			return nil, fmt.Errorf("%s: no tensor %s, which is in %s; %s", filepath.Join(s.dir, indexName), quote(name), filepath.Base(f.path), anotherIndex)
		}
	}
	return nil, fmt.Errorf("%s: no tensor %s%s", s.dir, quote(name), s.incomplete())
}

// shard is the name of a file that says how many there are of its kind.
var shard = regexp.MustCompile(`^(.*-)(\d{5})(-of-(\d{5})\.safetensors)$`)

// incomplete says which file is not there that the names of others speak of, and what to do,
// or "".
func (s *Set) incomplete() string {
	there := map[string]bool{}
	for _, f := range s.files {
		there[filepath.Base(f.path)] = true
	}
	for _, name := range slices.Sorted(maps.Keys(there)) {
		part := shard.FindStringSubmatch(name)
		if part == nil {
			continue
		}
		all, _ := strconv.Atoi(part[4])
		for i := 1; i <= all; i++ {
			if other := fmt.Sprintf("%s%05d%s", part[1], i, part[3]); !there[other] {
				return fmt.Sprintf("; %s is not there: download it", other)
			}
		}
	}
	return ""
}

// Info returns what the header says of a tensor.
func (s *Set) Info(name string) (Info, bool) {
	f, ok := s.owner[name]
	if !ok {
		return Info{}, false
	}
	return f.Info(name)
}

// Get returns a tensor whose Data is the mapped file; see [File.Get].
func (s *Set) Get(name string) (Tensor, error) {
	f, err := s.file(name)
	if err != nil {
		return Tensor{}, err
	}
	return f.Get(name)
}

// ReadInto copies the bytes of a tensor to dst; see [File.ReadInto].
func (s *Set) ReadInto(dst []byte, name string) error {
	f, err := s.file(name)
	if err != nil {
		return err
	}
	return f.ReadInto(dst, name)
}

// Close closes every file. No Data of them may be used afterwards.
func (s *Set) Close() error {
	var all []error
	for _, f := range s.files {
		all = append(all, f.Close())
	}
	return errors.Join(all...)
}
