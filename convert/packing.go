package convert

import (
	"fmt"

	"exl2/internal/exl2"
	"exl2/internal/model"
	"exl2/internal/quant"
	"exl2/internal/safetensors"
)

// A packedMatrix is a quantized matrix and its name.
type packedMatrix struct {
	key    string
	matrix *exl2.Matrix
}

// packing is the packed matrices of some linears on their way to the host.
type packing struct {
	*quant.Packing
	linears []*model.Linear
}

// collect brings the matrices of a site, if there are any, to the host, beside what the
// device has to do meanwhile, if it can.
func (q *quantizing) collect() error {
	if q.packing == nil {
		return nil
	}
	list, linears := q.packing, q.packing.linears
	q.packing = nil
	matrices, err := list.Download(&q.stock)
	if err != nil {
		return fmt.Errorf("%s: %w", linears[0].Name, err)
	}
	for i, l := range linears {
		q.packed = append(q.packed, packedMatrix{l.Name, matrices[i]})
	}
	return nil
}

// start writes a module while the next one is worked on.
func (q *quantizing) start(e moduleError, packed []packedMatrix) {
	written := make(chan error, 1)
	q.writing = written
	go func() {
		err := q.write(e.Key, packed)
		if err == nil {
			err = q.run.job.WriteJSON(q.build.file(e.Key+".json"), e)
		}
		written <- err
	}()
}

// settle waits until the module that is being written is written.
func (q *quantizing) settle() error {
	if q.writing == nil {
		return nil
	}
	err := <-q.writing
	q.writing = nil
	return err
}

// write writes the quantized matrices of a module to the job, and to the model's draft, and
// has others use their memory.
func (q *quantizing) write(key string, list []packedMatrix) error {
	defer q.run.profile.Beside("quantize: write")()
	err := q.build.writeMatrices(key+".safetensors", list)
	if err == nil {
		err = q.build.draft.put(list)
	}
	done := make([]*exl2.Matrix, len(list))
	for i, p := range list {
		done[i] = p.matrix
	}
	q.stock.Keep(done)
	return err
}

// writeMatrices writes matrices to a file of the target.
func (b *build) writeMatrices(name string, list []packedMatrix) error {
	var infos []safetensors.Info
	data := map[string][]byte{}
	for _, p := range list {
		for _, t := range p.matrix.Tensors() {
			name := p.key + "." + t.Suffix
			infos = append(infos, safetensors.Info{Name: name, DType: t.DType, Shape: t.Shape})
			data[name] = t.Data
		}
	}
	w, err := b.run.job.CreateTensors(b.file(name), infos)
	if err != nil {
		return err
	}
	defer w.Abort()
	for _, i := range infos {
		if err := w.Write(i.Name, data[i.Name]); err != nil {
			return err
		}
	}
	return w.Commit()
}
