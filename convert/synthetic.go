package convert

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"strconv"
	"strings"

	"exl2/infer/tokenizer"
	"exl2/internal/device"
	"exl2/internal/machine"
	"exl2/internal/model"
	"exl2/internal/sampled"
)

// SyntheticRows says how many calibration rows are sampled from the source model, and
// quantized on beside the others.
type SyntheticRows int

// AutoRows is as many rows as cost about as much as a small part of the conversion,
// on a GPU that has room for the model, and none elsewhere.
const AutoRows SyntheticRows = -1

// AutoRows are up to mostSynthetic; of large models as many as take about
// syntheticCost multiplications of weights, and none at all if that is fewer than
// leastSynthetic.
const (
	mostSynthetic  = 500
	leastSynthetic = 32
	syntheticCost  = 1.4e15
)

// String returns the number, or auto.
func (n SyntheticRows) String() string {
	if n == AutoRows {
		return "auto"
	}
	return strconv.Itoa(int(n))
}

// MarshalText writes what UnmarshalText reads.
func (n SyntheticRows) MarshalText() ([]byte, error) { return []byte(n.String()), nil }

// UnmarshalText reads a number or auto.
func (n *SyntheticRows) UnmarshalText(text []byte) error {
	if string(text) == AutoRows.String() {
		*n = AutoRows
		return nil
	}
	v, err := strconv.Atoi(string(text))
	if err != nil || v < 0 || v > 1<<20 {
		return fmt.Errorf("%q is neither auto nor 0 to %d", text, 1<<20)
	}
	*n = SyntheticRows(v)
	return nil
}

// MarshalJSON writes what UnmarshalJSON reads.
func (n SyntheticRows) MarshalJSON() ([]byte, error) { return json.Marshal(int(n)) }

// UnmarshalJSON reads a number.
func (n *SyntheticRows) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, (*int)(n)) }

// syntheticTokens is the job's file of the rows that are sampled; withoutName is there in
// its place if the model writes none that are of use, and none had to be.
const (
	syntheticTokens = "synthetic.safetensors"
	withoutName     = "synthetic.json"
)

// A without says why a job, which could have them, has no sampled rows.
type without struct {
	Reason string `json:"reason"`
}

// planSynthetic finds how many rows are sampled: those that an earlier run has, or as
// many as are asked for.
func (r *run) planSynthetic() error {
	if len(r.opts.Targets) == 0 || r.opts.SyntheticRows == 0 {
		return nil
	}
	if !r.fresh {
		kept, err := r.job.Has(syntheticTokens)
		if err != nil {
			return err
		}
		if kept {
			r.tokens.synthetic, err = r.keptRows(syntheticTokens)
			r.synthetic = len(r.tokens.synthetic)
			return errors.Join(err, r.canWeigh())
		}
		var none without
		if kept, err = r.job.ReadJSON(withoutName, &none); err != nil || kept {
			return err
		}
	}
	n := int(r.opts.SyntheticRows)
	if r.opts.SyntheticRows == AutoRows {
		n = r.autoRows()
	}
	reason := r.cannotSample(n)
	switch {
	case r.opts.SyntheticRows == AutoRows && reason == "":
		r.synthetic = n
	case r.opts.SyntheticRows == AutoRows && n > 0:
		return r.goWithout(reason)
	case r.opts.SyntheticRows == AutoRows:
	case reason != "":
		return fmt.Errorf("%w: --synthetic-rows: %s; --synthetic-rows 0 does without", ErrRefused, reason)
	default:
		r.synthetic = n
	}
	return nil
}

// goWithout has the job have no sampled rows, unless an earlier run has begun with them.
func (r *run) goWithout(reason string) error {
	if !r.fresh {
		begun, err := r.job.Has(begunFile(syntheticTokens))
		if err != nil {
			return err
		}
		if begun {
			return fmt.Errorf("%w: the job has some of the rows that the model writes: %s; go on when there are more", ErrRefused, reason)
		}
	}
	r.without = reason
	if r.opts.LowMemory { // which the user has chosen
		r.progress.Note("no rows are sampled from the model: " + reason)
		return nil
	}
	r.progress.Warn(reason + ": quantizing goes on without rows that the model writes, which would lose less of it")
	return nil
}

// canWeigh refuses to go on with rows of the source where there is no room to weigh tokens,
// which no run has done.
func (r *run) canWeigh() error {
	d, gpu := r.dev.(device.MemoryInfo)
	if !gpu {
		return nil
	}
	if kept, err := r.job.Has(weightsName); kept || err != nil {
		return err
	}
	if reason := r.noRoomToWeigh(r.synthetic, r.freeOf(d)); reason != "" {
		return fmt.Errorf("%w: the job has rows that the model wrote, and weighs tokens by it: %s; go on when there are more", ErrRefused, reason)
	}
	return nil
}

// autoRows returns what AutoRows is for the model on the device.
func (r *run) autoRows() int {
	if !r.ownMemory() {
		return 0
	}
	n := int(min(mostSynthetic, syntheticCost/float64(r.src.weights())/float64(r.opts.Data.Length)))
	if n < leastSynthetic {
		return 0
	}
	return n
}

// cannotSample says why the device cannot sample so many rows from the model, and weigh
// tokens, "" if it can.
func (r *run) cannotSample(n int) string {
	d, gpu := r.dev.(device.MemoryInfo)
	if !gpu {
		return ""
	}
	if r.opts.LowMemory {
		return "--low-memory leaves no room for the model as a whole"
	}
	free := r.freeOf(d)
	if reason := r.noRoomToSample(leastSynthetic, n, r.opts.Data.Length, free); reason != "" {
		return reason
	}
	return r.noRoomToWeigh(n, free)
}

// freeOf is what the job may take of a device's memory.
func (r *run) freeOf(d device.MemoryInfo) int {
	free, _ := d.MemInfo()
	if limit := r.opts.GPUMemory; limit > 0 {
		free = min(free, limit)
	}
	return free
}

// noRoomToSample says what the source takes with rows that it writes, so many at once at
// least, if that is more than there is, and "" if it is not. How many it writes at once goes
// by the memory that the device has, or may take, not by what is free of it.
func (r *run) noRoomToSample(least, rows, length, free int) string {
	bytes, room := r.sourceBytes(), free/10*9
	taken := func(most int) int {
		cache := model.CacheBytes(r.dev, r.src.loader.Spec, model.CacheSize{Layers: r.src.loader.Spec.Layers, Sequences: 1, Positions: length})
		return max(bytes+least*cache, sampled.Memory(r.dev, r.src.loader, rows, length, bytes, most))
	}
	need, remedy := taken(r.opts.GPUMemory), ""
	if need <= room {
		return ""
	}
	if tenths := free / 1e8; tenths > 0 && taken(tenths*1e8) <= room {
		remedy = fmt.Sprintf("; with --gpu-memory %.1f it writes fewer at once", float64(tenths)/10)
	}
	return fmt.Sprintf("the whole model and the texts that it writes take about %s of the device's memory, %s are free%s", machine.Size(need), machine.Size(free), remedy)
}

// noRoomToWeigh says what weighing tokens takes with so many rows of the source, if that is
// more than there is, and "" if it is not.
func (r *run) noRoomToWeigh(synthetic, free int) string {
	if need := r.weighMemory(); r.weighs(synthetic) && need > free/10*9 {
		return fmt.Sprintf("the whole model and gradients of some rows take about %s of the device's memory, %s are free", machine.Size(need), machine.Size(free))
	}
	return ""
}

// sourceBytes is what all of the source takes on the device.
func (r *run) sourceBytes() (n int) {
	for _, m := range r.src.loader.Layout {
		n += r.weightBytes(m)
	}
	return n
}

// calibrationRows returns how many rows there will be to quantize on.
func (r *run) calibrationRows() int { return len(r.tokens.quantize) + r.synthetic }

// calibration returns the rows that are quantized on: those of the data, and those
// of the source.
func (t tokens) calibration() [][]int32 {
	return append(t.quantize[:len(t.quantize):len(t.quantize)], t.synthetic...)
}

// sample makes the rows that are sampled, unless an earlier run has or nothing is to
// be quantized. A job that begins without goes on without, whatever is free then.
func (r *run) sample() error {
	switch {
	case len(r.unfinished()) == 0:
		return nil
	case r.without != "":
		return r.job.WriteJSON(withoutName, without{r.without})
	case r.synthetic == 0:
		return nil
	}
	rows, err := r.written(syntheticTokens, r.synthetic, r.opts.Data.Length, calibrationSeed)
	switch short := errors.Is(err, sampled.ErrShort); {
	case short && r.opts.SyntheticRows == AutoRows:
		r.synthetic = 0
		r.progress.Warn(fmt.Sprintf("%v: quantizing goes on without such rows", err))
		return r.job.WriteJSON(withoutName, without{err.Error()})
	case short:
		return fmt.Errorf("%w; --synthetic-rows 0 with --restart, or in another --out-dir, does without", err)
	}
	r.tokens.synthetic = rows
	return err
}

// written returns rows that the source writes: those in a file of the job, or new ones, which it
// then has. While there are only some, begunFile has them.
func (r *run) written(name string, n, length int, seed uint64) ([][]int32, error) {
	rows, err := r.keptRows(name)
	if errors.Is(err, fs.ErrNotExist) {
		if rows, err = r.sampleRows(name, n, length, seed); err == nil {
			err = r.writeTokens(name, rows)
		}
	}
	if err != nil && !errors.Is(err, sampled.ErrShort) {
		return nil, err
	}
	if gone := r.job.Remove(begunFile(name)); gone != nil {
		return nil, gone
	}
	return rows, err
}

// begunFile is the job's file of the first of the rows that another file will have.
func begunFile(name string) string {
	return strings.TrimSuffix(name, ".safetensors") + ".begun.safetensors"
}

// begunRows returns the first of n rows, as far as an earlier run has sampled them.
func (r *run) begunRows(name string, n, length int) ([][]int32, error) {
	if begun, err := r.job.Has(begunFile(name)); err != nil || !begun {
		return nil, err
	}
	rows, err := r.keptRows(begunFile(name))
	if err == nil && (len(rows) >= n || len(rows[0]) != length) {
		err = r.job.Damaged(begunFile(name), fmt.Errorf("%d rows of %d tokens, want fewer than %d of %d", len(rows), len(rows[0]), n, length))
	}
	return rows, err
}

// calibrationSeed is the seed of the rows: "exl2" in ASCII.
const calibrationSeed = 0x65786c32

// sampleRows samples rows from the source for a file, but for those that an earlier run has,
// and keeps those that are done while others are not.
func (r *run) sampleRows(name string, n, length int, seed uint64) ([][]int32, error) {
	begun, err := r.begunRows(name, n, length)
	if err != nil {
		return nil, err
	}
	o := sampled.Options{Rows: n, Length: length, Seed: seed, Kept: begun}
	o.Keep = func(rows [][]int32) error { return r.writeTokens(begunFile(name), rows) }
	if err := r.textEnds(&o); err != nil {
		return nil, err
	}
	defer r.profile.Off("sample text")()
	s, err := sampled.New(r.dev, r.src.loader, r.shelf.load, r.opts.GPUMemory)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	const steps = 20
	r.progress.Start("sample text", steps)
	done, what := 0, fmt.Sprintf("%d rows of %d tokens", n, length)
	for ; done < steps*len(begun)/n; done++ {
		r.progress.Skip(what)
	}
	o.Progress = func(share float64) {
		for ; done < int(share*steps); done++ {
			r.progress.Step(what, "")
		}
	}
	return s.Rows(r.ctx, o)
}

// textEnds sets what texts of the source begin and end with. Without a token that
// begins texts it is the one that ends them, which then stands between them; without
// either, or a tokenizer, any token that is not special. Data that are token ids need no
// tokenizer, so that one that is not known is none.
func (r *run) textEnds(o *sampled.Options) error {
	t, err := tokenizer.Load(r.src.dir)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			r.progress.Warn(fmt.Sprintf("%v: texts that the model writes begin with any of its tokens, and do not end", err))
		}
		vocab := int32(r.src.loader.Spec.Vocab)
		o.Start, o.Special = func(x *rand.Rand) int32 { return x.Int32N(vocab) }, func(int32) bool { return false }
		return nil
	}
	known := int32(min(t.VocabSize(), r.src.loader.Spec.Vocab))
	if known == 0 {
		return fmt.Errorf("%s: the tokenizer has no tokens to begin a text with; give --synthetic-rows 0", r.src.dir)
	}
	o.Vocab, o.Special = int(known), t.Special
	o.Unused = func(id int32) bool { _, there := t.Token(id); return !there }
	first, ok := t.BOS()
	if !ok {
		first, ok = t.EOS()
	}
	o.Start = func(x *rand.Rand) int32 {
		if ok && int(first) < r.src.loader.Spec.Vocab {
			return first
		}
		for range 1000 {
			if id := x.Int32N(known); !o.Special(id) && !o.Unused(id) {
				return id
			}
		}
		return 0
	}
	return nil
}
