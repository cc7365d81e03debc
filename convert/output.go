package convert

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"exl2/internal/arch"
	"exl2/internal/atomicfile"
	"exl2/internal/exl2"
	"exl2/internal/model"
	"exl2/internal/ordered"
	"exl2/internal/regular"
	"exl2/internal/safetensors"
	"exl2/internal/tensor"
)

// formatVersion is the version of ExLlamaV2 whose files ours are like.
const formatVersion = "0.3.2"

// A writer writes one model's folder.
type writer struct {
	build   *build
	dir     string
	files   []string            // that are written
	modules []*safetensors.File // of the job
	source  sync.Mutex          // one tensor of it is read at a time
	headBPW float64
	bytes   int64
}

func (w *writer) close() {
	for _, f := range w.modules {
		f.Close()
	}
}

// path returns the absolute path of a file of the model, by which the job knows
// it.
func (w *writer) path(name string) string { return filepath.Join(absolute(w.dir), name) }

func (w *writer) write() error {
	tensors, err := w.tensors()
	if err != nil {
		return err
	}
	var infos []safetensors.Info
	for _, t := range tensors {
		infos = append(infos, t.info)
	}
	shards, err := w.plan(infos)
	if err != nil {
		return err
	}
	if err := w.claim(shards); err != nil {
		return err
	}
	at := 0
	for _, s := range shards {
		if err := w.shard(s, tensors[at:at+len(s.Tensors)]); err != nil {
			return err
		}
		at += len(s.Tensors)
	}
	for _, o := range w.build.run.src.others {
		if err := w.build.run.job.Write(w.path(o.name), func(to io.Writer) error { return w.build.run.src.copyOther(to, o.name) }); err != nil {
			return err
		}
	}
	return w.config()
}

// plan cuts tensors into files.
func (w *writer) plan(infos []safetensors.Info) ([]safetensors.Shard, error) {
	return safetensors.Plan("output", infos, int64(w.build.run.opts.ShardMB)*int64(w.build.run.opts.on().megabyte))
}

// claim makes the folder ready: what is in the way is refused or, if it may be
// replaced, deleted, config.json first. Until that comes back, last of all, the
// folder does not load.
func (w *writer) claim(shards []safetensors.Shard) error {
	names := []string{configName}
	for _, s := range shards {
		names = append(names, s.Name)
	}
	for _, o := range w.build.run.src.others {
		names = append(names, o.name)
	}
	w.files = names
	if w.build.draft == nil {
		if err := atomicfile.Clean(w.dir); err != nil {
			return err
		}
	}
	if err := w.build.run.inTheWay(w.dir, names); err != nil {
		return err
	}
	for _, name := range names {
		if err := os.MkdirAll(filepath.Dir(w.path(name)), 0o777); err != nil {
			return err
		}
	}
	if err := os.Remove(w.path(configName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return w.removeOthersWeights(shards)
}

// removeOthersWeights deletes weights, which may be replaced, that loaders would
// take for a part of this model.
func (w *writer) removeOthersWeights(shards []safetensors.Shard) error {
	entries, err := os.ReadDir(w.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		mine := slices.ContainsFunc(shards, func(s safetensors.Shard) bool { return s.Name == e.Name() })
		if mine || !loadable(e.Name()) {
			continue
		}
		w.build.run.progress.Warn(fmt.Sprintf("%s: deleted, as loaders would take it for a part of the model", filepath.Join(w.dir, e.Name())))
		if err := os.Remove(w.path(e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// An outTensor is a tensor of the finished model and where its bytes are.
type outTensor struct {
	info safetensors.Info
	read func() ([]byte, error)
}

// tensors lists everything that goes into the model, sorted by name.
func (w *writer) tensors() ([]outTensor, error) {
	var list []outTensor
	trained, err := w.build.trained()
	if err != nil {
		return nil, err
	}
	end := trainedEnding
	if trained.Kept {
		end = ".safetensors"
	}
	if err := w.open(end); err != nil {
		return nil, err
	}
	for _, f := range w.modules {
		for _, name := range f.Names() {
			info, _ := f.Info(name)
			list = append(list, outTensor{info, func() ([]byte, error) { return bytesIn(f, info) }})
		}
	}
	if err := w.measureHead(); err != nil {
		return nil, err
	}
	for _, name := range w.build.run.src.kept() {
		list = append(list, w.kept(name))
	}
	slices.SortFunc(list, func(a, b outTensor) int { return strings.Compare(a.info.Name, b.info.Name) })
	return list, nil
}

// filesAtOnce is how many files of the job, or tensors, are read at once.
const filesAtOnce = 4

// open opens the files of all modules, with names that end so.
func (w *writer) open(end string) error {
	layout := w.build.run.src.loader.Layout[1:]
	files := make([]*safetensors.File, len(layout))
	var group errgroup.Group
	group.SetLimit(filesAtOnce)
	for i, m := range layout {
		group.Go(func() (err error) {
			files[i], err = w.build.run.job.OpenTensors(w.build.file(m.Name + end))
			return err
		})
	}
	err := group.Wait()
	w.modules = slices.DeleteFunc(files, func(f *safetensors.File) bool { return f == nil })
	return err
}

// bytesIn reads a tensor of a file.
func bytesIn(f *safetensors.File, info safetensors.Info) ([]byte, error) {
	n, err := info.Bytes()
	if err != nil {
		return nil, err
	}
	data := make([]byte, n)
	return data, f.ReadInto(data, info.Name)
}

// measureHead notes the size of the quantized head.
func (w *writer) measureHead() error {
	head := w.build.run.src.loader.Head().Linears[0]
	m, err := model.ReadMatrix(fileSet{w.modules[len(w.modules)-1]}, head.Name)
	if err != nil {
		return err
	}
	w.headBPW = m.BitsPerWeight(head.Out)
	return nil
}

// fileSet is one file as model.Files.
type fileSet struct{ *safetensors.File }

// Get reads a tensor.
func (f fileSet) Get(name string) (safetensors.Tensor, error) {
	info, ok := f.Info(name)
	if !ok {
		return f.File.Get(name) // which has the words for that
	}
	data, err := bytesIn(f.File, info)
	return safetensors.Tensor{Info: info, Data: data}, err
}

// Has reports whether the file has a tensor.
func (f fileSet) Has(name string) bool { _, ok := f.Info(name); return ok }

// kept returns a tensor of the source as the finished model holds it: floating
// point as F16, a quantized matrix's bias padded like the matrix.
func (w *writer) kept(name string) outTensor {
	src := w.build.run.src
	info, _ := src.loader.Files.Info(name)
	convert := !src.exact[name] && (info.DType == safetensors.BF16 || info.DType == safetensors.F32)
	pad := 0
	if key, ok := strings.CutSuffix(name, ".bias"); ok && src.quantized[key] && len(info.Shape) == 1 {
		pad = exl2.Pad(info.Shape[0]) - info.Shape[0]
		info.Shape = []int{info.Shape[0] + pad}
	}
	if convert {
		info.DType = safetensors.F16
	}
	return outTensor{info, func() ([]byte, error) {
		w.source.Lock()
		t, err := src.loader.Files.Get(name)
		w.source.Unlock()
		if err != nil {
			return nil, err
		}
		if src.loader.Fused(name) {
			t.Data = slices.Clone(t.Data) // others have parts of the same memory
		}
		if convert {
			t.Data = toF16(t)
		}
		return append(t.Data, make([]byte, 2*pad)...), nil
	}}
}

// toF16 rounds the numbers of a tensor, which holds none that do not fit, to
// fp16, in place.
func toF16(t safetensors.Tensor) []byte {
	kind := tensor.BF16
	if t.DType == safetensors.F32 {
		kind = tensor.F32
	}
	_, n := tensor.Narrow(t.Data, t.Data, kind)
	return t.Data[:n]
}

// shard writes one output file, or what its draft lacks.
func (w *writer) shard(s safetensors.Shard, tensors []outTensor) error {
	f, written := w.build.draft.file(s)
	if f == nil {
		var err error
		if f, err = w.build.run.job.CreateTensors(w.path(s.Name), s.Tensors); err != nil {
			return err
		}
	}
	defer f.Abort()
	var group errgroup.Group
	group.SetLimit(filesAtOnce)
	for _, t := range tensors {
		if written[t.info.Name] {
			continue
		}
		group.Go(func() error {
			data, err := t.read()
			if err != nil {
				return err
			}
			return f.Write(t.info.Name, data)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if err := f.Commit(); err != nil {
		return err
	}
	info, err := os.Stat(w.path(s.Name))
	if err != nil {
		return err
	}
	w.bytes += info.Size()
	return nil
}

// config writes the source's config.json with the quantization added. It is
// the last file, so a folder with a config.json is complete.
func (w *writer) config() error {
	data, err := regular.ReadOwn(filepath.Join(w.build.run.src.dir, configName))
	if err != nil {
		return err
	}
	c, err := ordered.Parse(ordered.FromPython(data, ordered.Tagged))
	if err != nil {
		return fmt.Errorf("config.json: %w", err)
	}
	dataset := "(default)"
	if w.build.run.opts.Data.File != "" {
		dataset = filepath.Base(w.build.run.opts.Data.File)
	}
	if src := w.build.run.src; src.tied && !src.loader.Spec.Tied {
		c.Set("tie_word_embeddings", false)
	}
	c = slices.DeleteFunc(c, func(f ordered.Field) bool { return slices.Contains(arch.QuantizationKeys, f.Name) })
	c.Set(arch.QuantizationKeys[0], ordered.Object{
		{Name: "quant_method", Value: "exl2"}, {Name: "version", Value: formatVersion},
		{Name: "bits", Value: w.build.target.Bits}, {Name: "head_bits", Value: w.build.plan.HeadBits},
		{Name: "calibration", Value: ordered.Object{
			{Name: "rows", Value: w.build.run.calibrationRows()}, {Name: "length", Value: w.build.run.opts.Data.Length}, {Name: "dataset", Value: dataset},
		}},
	})
	out, err := json.MarshalIndent(c, "", "    ")
	if err != nil {
		return fmt.Errorf("config.json: %w", err)
	}
	return w.build.run.job.Write(w.path(configName), func(to io.Writer) error {
		_, err := to.Write(append(ordered.Untagged(out), '\n'))
		return err
	})
}
