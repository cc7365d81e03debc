package convert

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"exl2/internal/atomicfile"
	"exl2/internal/exl2"
	"exl2/internal/half"
	"exl2/internal/model"
	"exl2/internal/ordered"
	"exl2/internal/safetensors"
	"exl2/internal/tensor"
)

// finished is what a target's done.json holds.
type finished struct {
	Output    Output  `json:"output"`
	Reference float64 `json:"reference_perplexity"`
}

// formatVersion is the version of ExLlamaV2 whose files ours are like.
const formatVersion = "0.3.2"

// megabyte is the unit of the shard size.
var megabyte = 1 << 20

// finish joins the quantized modules to a model's folder.
func (q *quantizer) finish() (*finished, error) {
	var head headReport
	if err := q.job.mustReadJSON(q.file("head.json"), &head); err != nil {
		return nil, err
	}
	if err := q.judge(head); err != nil {
		return nil, err
	}
	w := &writer{quantizer: q, dir: q.opts.folder(q.target)}
	err := w.write()
	w.close() // Windows deletes no open file
	if err != nil {
		return nil, err
	}
	out := &finished{Reference: head.Reference, Output: Output{
		Path: w.dir, Bits: q.target.Bits, HeadBits: q.opts.HeadBits, HeadBPW: w.headBPW, FileBytes: w.bytes,
		DecoderBPW: float64(q.plan.Bits) / float64(q.src.weights()), Perplexity: head.Perplexity,
	}}
	if err := q.job.writeJSON(q.file("done.json"), out); err != nil {
		return nil, err
	}
	return out, q.tidy()
}

// tidy deletes what only an unfinished target needs.
func (q *quantizer) tidy() error {
	for _, m := range q.src.loader.Layout[1:] {
		if err := os.Remove(q.job.path(q.file(m.Name + ".safetensors"))); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return q.checkpoint.remove()
}

// A writer writes one model's folder.
type writer struct {
	*quantizer
	dir     string
	modules []*safetensors.File // of the job
	headBPW float64
	bytes   int64
}

func (w *writer) close() {
	for _, f := range w.modules {
		f.Close()
	}
}

func (w *writer) write() error {
	tensors, err := w.tensors()
	if err != nil {
		return err
	}
	var infos []safetensors.Info
	for _, t := range tensors {
		infos = append(infos, t.info)
	}
	shards, err := safetensors.Plan("output", infos, int64(w.opts.ShardMB)*int64(megabyte))
	if err != nil {
		return err
	}
	copies, err := w.copies()
	if err != nil {
		return err
	}
	if err := w.claim(shards, copies); err != nil {
		return err
	}
	at := 0
	for _, s := range shards {
		if err := w.shard(s, tensors[at:at+len(s.Tensors)]); err != nil {
			return err
		}
		at += len(s.Tensors)
	}
	for _, name := range copies {
		if err := copyFile(filepath.Join(w.dir, name), filepath.Join(w.src.dir, name)); err != nil {
			return err
		}
	}
	return w.config()
}

// claim makes the folder, refuses one that holds other weights, and notes what
// will be written to it before anything is.
func (w *writer) claim(shards []safetensors.Shard, copies []string) error {
	list := written{Folder: absolute(w.dir), Files: append([]string{"config.json"}, copies...)}
	for _, s := range shards {
		list.Files = append(list.Files, s.Name)
	}
	slices.Sort(list.Files)
	if err := os.MkdirAll(w.dir, 0o777); err != nil {
		return err
	}
	if err := atomicfile.Clean(w.dir); err != nil {
		return err
	}
	present, err := filepath.Glob(filepath.Join(w.dir, "*.safetensors"))
	if err != nil {
		return err
	}
	for _, p := range present {
		if name := filepath.Base(p); !slices.Contains(list.Files, name) {
			return fmt.Errorf("%w: %s holds %s, which loaders would take for a part of the model; move it away or give another folder", ErrRefused, w.dir, name)
		}
	}
	return w.job.writeJSON(w.file("files.json"), list)
}

// An outTensor is a tensor of the finished model and where its bytes are.
type outTensor struct {
	info safetensors.Info
	read func() ([]byte, error)
}

// tensors lists everything that goes into the model, sorted by name.
func (w *writer) tensors() ([]outTensor, error) {
	var list []outTensor
	replaced := map[string]bool{}
	for _, m := range w.src.loader.Layout[1:] {
		key := m.Name
		f, err := safetensors.Open(w.job.path(w.file(key + ".safetensors")))
		if err != nil {
			return nil, err
		}
		w.modules = append(w.modules, f)
		for _, s := range m.Linears {
			replaced[s.Name+".weight"] = true
		}
		for _, name := range f.Names() {
			info, _ := f.Info(name)
			list = append(list, outTensor{info, func() ([]byte, error) { return bytesIn(f, name) }})
		}
	}
	if err := w.measureHead(); err != nil {
		return nil, err
	}
	for _, name := range w.src.files.Names() {
		if !replaced[name] && !strings.HasSuffix(name, ".rotary_emb.inv_freq") {
			list = append(list, w.kept(name))
		}
	}
	slices.SortFunc(list, func(a, b outTensor) int { return strings.Compare(a.info.Name, b.info.Name) })
	return list, nil
}

func bytesIn(f *safetensors.File, name string) ([]byte, error) {
	t, err := f.Get(name)
	return t.Data, err
}

// measureHead notes the size of the quantized head.
func (w *writer) measureHead() error {
	m, err := model.ReadMatrix(fileSet{w.modules[len(w.modules)-1]}, w.src.loader.Spec.Names.Head)
	if err != nil {
		return err
	}
	w.headBPW = m.BitsPerWeight()
	return nil
}

// fileSet is one file as model.Files.
type fileSet struct{ *safetensors.File }

// Has reports whether the file has a tensor.
func (f fileSet) Has(name string) bool { _, ok := f.Info(name); return ok }

// kept returns a tensor of the source as the finished model holds it: floating
// point as F16, a quantized matrix's bias padded like the matrix.
func (w *writer) kept(name string) outTensor {
	info, _ := w.src.files.Info(name)
	convert := info.DType == safetensors.BF16 || info.DType == safetensors.F32
	pad := 0
	if key, ok := strings.CutSuffix(name, ".bias"); ok && w.plan.Recipes[key] != "" && len(info.Shape) == 1 {
		pad = exl2.Pad(info.Shape[0]) - info.Shape[0]
		info.Shape = []int{info.Shape[0] + pad}
	}
	if convert {
		info.DType = safetensors.F16
	}
	return outTensor{info, func() ([]byte, error) {
		t, err := w.src.files.Get(name)
		if err != nil {
			return nil, err
		}
		data := t.Data
		if convert {
			if data, err = toF16(t); err != nil {
				return nil, err
			}
		}
		return append(data[:len(data):len(data)], make([]byte, 2*pad)...), nil
	}}
}

// toF16 rounds a tensor to fp16 and refuses what does not fit.
func toF16(t safetensors.Tensor) ([]byte, error) {
	wide, err := model.Floats(t)
	if err != nil {
		return nil, err
	}
	out := make([]half.F16, len(wide))
	for i, v := range wide {
		if out[i] = half.ToF16(v); v < -half.MaxF16 || v > half.MaxF16 || v != v {
			return nil, fmt.Errorf("%s: element %d is %v, which fp16 cannot hold", t.Name, i, v)
		}
	}
	return tensor.BytesOf(out), nil
}

// shard writes one output file.
func (w *writer) shard(s safetensors.Shard, tensors []outTensor) error {
	path := filepath.Join(w.dir, s.Name)
	f, err := safetensors.Create(path, s.Tensors)
	if err != nil {
		return err
	}
	defer f.Abort()
	for _, t := range tensors {
		data, err := t.read()
		if err != nil {
			return err
		}
		if err := f.Write(t.info.Name, data); err != nil {
			return err
		}
	}
	if err := f.Commit(); err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	w.bytes += info.Size()
	return nil
}

// weightFiles are the endings of files that hold weights, or say where they are.
var weightFiles = []string{".safetensors", ".bin", ".index.json", ".pt", ".pth", ".gguf", ".ggml", ".h5", ".msgpack", ".onnx", ".ckpt"}

// copies lists the source's other files that the finished model needs.
func (w *writer) copies() ([]string, error) {
	entries, err := os.ReadDir(w.src.dir)
	if err != nil {
		return nil, err
	}
	var list []string
	for _, e := range entries {
		name := e.Name()
		info, err := os.Stat(filepath.Join(w.src.dir, name)) // follows links: the Hugging Face cache is made of them
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		weights := slices.ContainsFunc(weightFiles, func(end string) bool { return strings.HasSuffix(name, end) })
		if !weights && name != "config.json" && !strings.HasPrefix(name, ".") {
			list = append(list, name)
		}
	}
	return list, nil
}

// copyFile copies a small file.
func copyFile(to, from string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return atomicfile.Write(to, data)
}

// config writes the source's config.json with the quantization added. It is
// the last file, so a folder with a config.json is complete.
func (w *writer) config() error {
	data, err := os.ReadFile(filepath.Join(w.src.dir, "config.json"))
	if err != nil {
		return err
	}
	var c ordered.Object
	if err := json.Unmarshal(data, &c); err != nil {
		return fmt.Errorf("config.json: %w", err)
	}
	dataset := "(default)"
	if w.opts.Data.File != "" {
		dataset = filepath.Base(w.opts.Data.File)
	}
	c.Set("quantization_config", ordered.Object{
		{Name: "quant_method", Value: "exl2"}, {Name: "version", Value: formatVersion},
		{Name: "bits", Value: w.target.Bits}, {Name: "head_bits", Value: w.opts.HeadBits},
		{Name: "calibration", Value: ordered.Object{
			{Name: "rows", Value: len(w.tokens.quantize)}, {Name: "length", Value: w.opts.Data.Length}, {Name: "dataset", Value: dataset},
		}},
	})
	out, err := json.MarshalIndent(c, "", "    ")
	if err != nil {
		return fmt.Errorf("config.json: %w", err)
	}
	return atomicfile.Write(filepath.Join(w.dir, "config.json"), append(out, '\n'))
}
