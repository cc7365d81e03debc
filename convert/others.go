package convert

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"exl2/internal/machine"
	"exl2/internal/regular"
)

// largestOther is the most bytes that a file beside the weights may have to be
// copied; tokenizers stay below a fifth of that.
const largestOther = 256 << 20

// notCopied are the endings of files that hold weights, say where they are or how
// others have quantized them, or are archives. They are compared without regard to case.
var notCopied = []string{
	".safetensors", ".bin", ".index.json", ".pt", ".pth", ".ckpt", ".gguf", ".ggml", ".h5", ".hdf5", ".msgpack", ".onnx", ".onnx_data", ".ot", ".npz", ".npy",
	".tflite", ".mlmodel", ".pkl", ".pickle", ".nemo", ".keras", ".params", ".distcp", ".engine", ".llamafile",
	"quantize_config.json", "quant_config.json",
	".zip", ".tar", ".tgz", ".gz", ".bz2", ".xz", ".zst", ".7z", ".rar",
}

// An other is a file of the source that the finished model needs, too.
type other struct {
	name string // below the source, with slashes
	size int64
}

// templates is the folder of chat templates beside the one that all models have; it is the
// only folder that belongs to a model (docs/chat.md).
const templates = "additional_chat_templates"

// listOthers finds the files to be copied, and tells of what is not copied.
func (s *source) listOthers(p Progress) error {
	folders, err := s.othersIn("", p, func(name string) bool { return name != configName && !isWeights(name) })
	if err != nil {
		return err
	}
	if i := slices.Index(folders, templates); i >= 0 {
		folders = slices.Delete(folders, i, i+1)
		if _, err := s.othersIn(templates, p, func(name string) bool { return strings.HasSuffix(name, ".jinja") }); err != nil {
			return err
		}
	}
	if len(folders) > 0 {
		p.Note("folders of the model are not copied: " + strings.Join(folders, ", "))
	}
	return s.mayFollow(configName)
}

// othersIn adds the files of a folder of the source that are to be copied, warns of those
// that are too large for that, and returns the folders in it. A link that leads out of the
// source is refused: what it leads to is not the model's.
func (s *source) othersIn(folder string, p Progress, wanted func(name string) bool) (folders []string, err error) {
	entries, err := os.ReadDir(filepath.Join(s.dir, folder))
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") || !wanted(e.Name()) {
			continue
		}
		name := path.Join(folder, e.Name())
		if e.Type()&fs.ModeSymlink != 0 {
			if err := s.mayFollow(name); err != nil {
				return nil, err
			}
		}
		info, err := os.Stat(filepath.Join(s.dir, name))
		if err != nil {
			return nil, err
		}
		switch {
		case info.IsDir():
			folders = append(folders, e.Name())
		case !info.Mode().IsRegular():
		case info.Size() > largestOther:
			p.Warn(fmt.Sprintf("%s is not copied: %s are more than the %s that a file beside the weights may have",
				filepath.Join(s.dir, name), machine.Size(info.Size()), machine.Size(largestOther)))
		default:
			s.others = append(s.others, other{name, info.Size()})
		}
	}
	return folders, nil
}

func isWeights(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc(notCopied, func(end string) bool { return strings.HasSuffix(name, end) })
}

// mayFollow refuses a link that leads to nothing, or to what is neither in the
// source nor among the blobs of the Hugging Face cache that the source is of.
func (s *source) mayFollow(name string) error {
	dir, err := filepath.EvalSymlinks(s.dir)
	if err != nil {
		return err
	}
	link := filepath.Join(s.dir, name)
	target, err := filepath.EvalSymlinks(link)
	if err != nil {
		return fmt.Errorf("%w: the link %s leads to nothing; remove it, or put the file in its place", ErrRefused, link)
	}
	for _, home := range []string{dir, blobsOf(dir)} {
		if rel, err := filepath.Rel(home, target); home != "" && err == nil && filepath.IsLocal(rel) {
			return nil
		}
	}
	return fmt.Errorf("%w: %s leads out of the model to %s; remove it, or put the file in its place", ErrRefused, link, target)
}

// blobsOf returns the folder that files of a Hugging Face cache are in, which may be on
// another disk, of a snapshot there or a folder in one; or "". The path is real.
func blobsOf(dir string) string {
	for parent := filepath.Dir(dir); parent != dir; dir, parent = parent, filepath.Dir(parent) {
		if filepath.Base(parent) == "snapshots" {
			return resolved(filepath.Join(filepath.Dir(parent), "blobs"))
		}
	}
	return ""
}

// copyOther copies a file of the source that the finished model needs.
func (s *source) copyOther(w io.Writer, name string) error {
	f, err := regular.Open(filepath.Join(s.dir, name))
	if err != nil {
		return err
	}
	defer f.Close()
	n, err := io.Copy(w, io.LimitReader(f, largestOther+1))
	if err == nil && n > largestOther {
		err = fmt.Errorf("%s grows while it is copied", name)
	}
	return err
}
