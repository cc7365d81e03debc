package convert

import (
	"errors"
	"fmt"
	"slices"

	"exl2/internal/half"
	"exl2/internal/model"
	"exl2/internal/parallel"
	"exl2/internal/quant"
	"exl2/internal/safetensors"
	"exl2/internal/tensor"
)

// columnsFile is the job's file with the moments of the columns of a module's
// matrices: F16 [outputs, span] by name, their mean on the diagonal 1.
func columnsFile(module string) string { return "trace/" + module + ".safetensors" }

// columns is the moments of the columns of a module's matrices, by name.
type columns map[string]*quant.Columns

// momentsAhead reads the moments of modules one ahead of those that are worked on.
type momentsAhead struct {
	run    *run
	name   string           // of the module that is being read
	coming chan columnsRead // what has become of it
}

// columnsRead is the moments of a module, or why there are none.
type columnsRead struct {
	columns columns
	err     error
}

// next returns the moments of a module, and begins to read those of the one after it.
func (m *momentsAhead) next(module string) (columns, error) {
	if m.name != module {
		m.begin(module)
	}
	read := <-m.coming
	m.name = ""
	layout := m.run.src.loader.Layout
	at := slices.IndexFunc(layout, func(s model.ModuleSpec) bool { return s.Name == module })
	if read.err == nil && at+1 < len(layout) {
		m.begin(layout[at+1].Name)
	}
	return read.columns, read.err
}

func (m *momentsAhead) begin(module string) {
	coming := make(chan columnsRead, 1)
	m.name, m.coming = module, coming
	go func() {
		c, err := m.run.columnsOf(module)
		coming <- columnsRead{c, err}
	}()
}

// close waits for what is being read.
func (m *momentsAhead) close() {
	if m.name != "" {
		<-m.coming
	}
}

// columnsOf reads the moments of a module.
func (r *run) columnsOf(module string) (columns, error) {
	f, err := r.job.OpenTensors(columnsFile(module))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names := f.Names()
	found, errs := make([]*quant.Columns, len(names)), make([]error, len(names))
	parallel.For(len(names), func(i int) { found[i], errs[i] = r.readColumns(f, module, names[i]) })
	list := columns{}
	for i, name := range names {
		list[name] = found[i]
	}
	return list, errors.Join(errs...)
}

// readColumns reads the moments of a matrix.
func (r *run) readColumns(f *safetensors.File, module, name string) (*quant.Columns, error) {
	info, _ := f.Info(name)
	if info.DType != safetensors.F16 || len(info.Shape) != 2 || info.Shape[1] < 1 || info.Shape[1] > quant.Span {
		return nil, r.job.Damaged(columnsFile(module), fmt.Errorf("%s is %s %v", name, info.DType, info.Shape))
	}
	c := &quant.Columns{Span: info.Shape[1], B: make([]half.F16, info.Shape[0]*info.Shape[1])}
	return c, f.ReadInto(tensor.BytesOf(c.B), name)
}
