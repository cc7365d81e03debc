package convert

import (
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/zeebo/xxh3"

	"exl2/internal/job"
	"exl2/internal/regular"
)

// recordName is the file of the job that says what the source was.
const recordName = "source.json"

// A record says what the source was when the job began.
type record struct {
	Files   []recordedFile    `json:"files"`
	Tensors map[string]string `json:"tensors_xxh3"`
}

// A recordedFile is a file of the source, or another that the job reads. Weights have sums of their own, tensor
// by tensor.
type recordedFile struct {
	Name     string `json:"name"` // by job.Escape
	Bytes    int64  `json:"bytes"`
	Modified int64  `json:"modified"` // nanoseconds since 1970
	Sum      string `json:"xxh3,omitempty"`
}

// recorded describes the files that the source consists of: configuration, others,
// weights.
func (s *source) recorded() ([]recordedFile, error) {
	names := []string{configName}
	for _, o := range s.others {
		names = append(names, o.name)
	}
	small := len(names)
	for _, path := range s.files.Paths() {
		names = append(names, filepath.Base(path))
	}
	list := make([]recordedFile, len(names))
	for i, name := range names {
		var err error
		if list[i], err = recordFile(name, filepath.Join(s.dir, name), i < small); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// recordFile describes a file, under a name.
func recordFile(name, path string, sum bool) (f recordedFile, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return f, err
	}
	f = recordedFile{Name: job.Escape(name), Bytes: info.Size(), Modified: info.ModTime().UnixNano()}
	if sum {
		f.Sum, err = sumFile(path)
	}
	return f, err
}

func sumFile(path string) (string, error) {
	f, err := regular.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := xxh3.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	digest := h.Sum128().Bytes()
	return hex.EncodeToString(digest[:]), nil
}

// asItWas is what to do about a source that has changed, orElse what else there is to do.
const (
	asItWas = "give the model as it was, " + orElse
	orElse  = "another --out-dir, or --restart to begin again"
)

// unchanged refuses a source that is not what it was when the job began. Where
// times differ but sizes do not, sums decide: those of small files at once; of
// weights it says that they are to be compared.
func (s *source) unchanged(then record, now []recordedFile) (compare bool, err error) {
	there := map[string]recordedFile{}
	for _, f := range now {
		there[f.Name] = f
	}
	for _, old := range then.Files {
		f, ok := there[old.Name]
		path := filepath.Join(s.dir, job.Unescape(old.Name))
		switch {
		case !ok:
			return false, fmt.Errorf("%w: %s was there when the job began; %s", ErrRefused, path, asItWas)
		case f.Bytes != old.Bytes:
			return false, fmt.Errorf("%w: %s has %d bytes, and had %d when the job began; %s", ErrRefused, path, f.Bytes, old.Bytes, asItWas)
		case f.Sum != old.Sum:
			return false, fmt.Errorf("%w: %s is not what it was when the job began; %s", ErrRefused, path, asItWas)
		}
		compare = compare || f.Modified != old.Modified
	}
	for _, name := range s.files.Names() {
		if then.Tensors[name] == "" && !s.loader.Spec.Unused(name) {
			return false, fmt.Errorf("%w: %s: tensor %s was not there when the job began; %s", ErrRefused, s.dir, name, asItWas)
		}
	}
	return compare, nil
}
