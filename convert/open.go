package convert

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"exl2/internal/atomicfile"
	"exl2/internal/device"
	"exl2/internal/job"
	"exl2/internal/profile"
	"exl2/internal/regular"
	"exl2/measure"
)

// open checks what is asked and starts or continues the job. Until all is
// checked nothing is written down, so that what was wrong can be given anew.
func open(ctx context.Context, list []device.Quantize, o *Options, p Progress) (*run, error) {
	p = &choir{Progress: p}
	if err := o.Check(); err != nil {
		return nil, err
	}
	src, err := openSource(o)
	if err != nil {
		return nil, err
	}
	for _, w := range src.loader.Warnings() {
		p.Warn(w)
	}
	if s := src.loader.Scheme; s.Lossy() {
		p.Warn(fmt.Sprintf("the source is quantized (%s): what that has lost stays lost, and its errors are added to; convert the original, if you can", s))
	}
	r := &run{ctx: ctx, devices: list, dev: list[0], opts: o, progress: p, src: src, done: map[Target]*finished{}}
	if o.Profile {
		r.profile = profile.New(r.dev)
	}
	if err := r.begin(); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

func (r *run) close() {
	if r.shelf != nil {
		r.shelf.free()
	}
	for _, w := range r.workers {
		w.shelf.free()
	}
	r.src.close()
	if r.text != nil {
		r.text.Close()
	}
	if r.job != nil {
		r.job.Close()
	}
}

func (r *run) begin() error {
	if err := r.src.separate(r.opts); err != nil {
		return err
	}
	if err := r.src.listOthers(r.progress); err != nil {
		return err
	}
	if r.opts.Measurement == "" {
		lo, hi := limits(r.src.unmeasured())
		if err := r.src.reachable(lo, hi, r.opts.Targets); err != nil {
			return err
		}
	}
	var err error
	if r.job, err = job.Open(r.opts.jobDir()); err != nil {
		return err
	}
	r.job.Overwrite, r.job.Warn = r.opts.Overwrite, r.progress.Warn
	r.fresh = r.opts.Restart || !r.job.Begun()
	want := settings(r.opts, r.dev.Name())
	if !r.fresh {
		if err := r.job.Compare(want); err != nil {
			return err
		}
	}
	if err := r.sweep(); err != nil {
		return err
	}
	if err := r.check(); err != nil {
		return unchanged{err}
	}
	return r.settle(want)
}

// sweep deletes what a run that was killed has left unfinished, in the job's folder and
// in the models', before it is found out how much room there is.
func (r *run) sweep() error {
	if err := r.job.Sweep(); err != nil || !r.job.Begun() {
		return err
	}
	for _, t := range r.opts.Targets {
		for _, dir := range []string{r.opts.folder(t), filepath.Join(r.opts.folder(t), templates)} {
			if err := atomicfile.Clean(dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// check does all that can be wrong before there is a job, and finds what an
// earlier run has done.
func (r *run) check() error {
	if err := r.checkInputs(); err != nil {
		return err
	}
	if err := r.findDone(); err != nil {
		return err
	}
	if err := r.calibrate(); err != nil {
		return err
	}
	r.noteGone()
	if r.opts.Measurement != "" {
		var err error
		if r.given, err = r.readMeasured(r.opts.Measurement); err != nil {
			return err
		}
		if err := r.checkFolds(); err != nil {
			return err
		}
	}
	if err := r.checkOutputs(); err != nil {
		return err
	}
	if err := r.planMemory(); err != nil {
		return err
	}
	r.shelf = r.newShelf()
	if len(r.unfinished()) > 0 || !r.measured {
		if err := r.announce(); err != nil {
			return err
		}
	}
	return r.checkSource()
}

// findDone finds what earlier runs have finished.
func (r *run) findDone() (err error) {
	r.measured = r.opts.Measurement != ""
	if r.fresh {
		return nil
	}
	if !r.measured {
		if r.measured, err = r.job.Has(measurementName); err != nil {
			return err
		}
	}
	for _, t := range r.opts.Targets {
		done := &finished{}
		found, err := r.job.ReadJSON(t.Text+"/done.json", done)
		if err != nil {
			return err
		}
		if found {
			if found, err = r.intact(t, done); err != nil {
				return err
			}
		}
		if found {
			r.done[t] = done
		}
	}
	return nil
}

// intact reports whether a finished model is there: one that is not is made
// again. One with weights that the job did not write is refused.
func (r *run) intact(t Target, done *finished) (bool, error) {
	for _, name := range done.Files {
		path := filepath.Join(absolute(r.opts.folder(t)), job.Unescape(name))
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		saved, err := r.savedThere(path) // as earlier versions did
		if err != nil || saved {
			return false, err
		}
		if !strings.HasSuffix(path, ".safetensors") {
			continue // may be edited
		}
		wrote, err := r.job.Wrote(path)
		if err != nil {
			return false, err
		}
		if !wrote && !r.opts.Overwrite {
			return false, r.job.InTheWay(path)
		}
		if !wrote {
			return false, nil
		}
	}
	return true, nil
}

// unfinished lists the targets whose models are to be made.
func (r *run) unfinished() []Target {
	var list []Target
	for _, t := range r.opts.Targets {
		if r.done[t] == nil {
			list = append(list, t)
		}
	}
	return list
}

// readMeasured reads a measurement and refuses targets that it cannot reach, for
// which the decoder alone counts.
func (r *run) readMeasured(path string) (*offers, error) {
	f, err := regular.Await(r.ctx, func() (*measure.File, error) { return measure.ReadFile(path) })
	if err != nil {
		return nil, err
	}
	m := &offers{folding: folding{f.Rotated, f.Folds}}
	if f.EvenOut() {
		r.progress.Warn(fmt.Sprintf("%s: quantizing any matrix changes nothing of what the model predicts for the calibration text, so it does not say which ones matter: bits go by the matrices' own errors; is the model whole, and the text its language?", path))
	}
	if m.decoder, err = r.src.classes(f); err == nil {
		m.head, m.headKnown, err = r.src.headClass(f)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: measurement %s: %w", ErrRefused, path, err)
	}
	if r.opts.HeadBits == AutoHead && !m.headKnown {
		r.progress.Note(fmt.Sprintf("%s says nothing of the head: it gets %d bits", path, usualHead))
	}
	lo, hi := limits(m.decoder)
	return m, r.src.reachable(lo, hi, r.opts.Targets)
}

// checkSource compares the source with what it was when the job began, and reads
// all of it if it is new or may be another.
func (r *run) checkSource() error {
	files, err := r.src.recorded()
	if err != nil {
		return err
	}
	r.src.read = true
	if !r.fresh {
		var then record
		if err := r.job.MustReadJSON(recordName, &then); err != nil {
			return err
		}
		if r.src.read, err = r.src.unchanged(then, files); err != nil {
			return err
		}
		r.src.witness.sums = then.Tensors
	}
	if r.src.read {
		if err := r.src.inspect(r.ctx, r.ownMemory(), r.looking(), r.progress); err != nil {
			return err
		}
	}
	r.src.record = record{files, r.src.witness.sums}
	return nil
}

// settle begins the job, or goes on with it.
func (r *run) settle(want job.Settings) error {
	if r.opts.Restart {
		if err := r.job.Restart(r.opts.replaces); err != nil {
			return err
		}
	}
	if r.src.read {
		if err := r.job.WriteJSON(recordName, r.src.record); err != nil {
			return err
		}
	}
	if err := r.job.Folder("measure"); err != nil {
		return err
	}
	if err := r.job.Settle(want); err != nil {
		return err
	}
	if err := r.remember(); err != nil {
		return err
	}
	if err := r.saveInputs(); err != nil {
		return err
	}
	for _, t := range r.unfinished() {
		if err := r.reopen(t); err != nil {
			return err
		}
	}
	return r.saveTokens()
}

// reopen makes a target that was finished, and whose model is gone, unfinished.
func (r *run) reopen(t Target) error {
	if err := r.job.Folder(t.Text); err != nil {
		return err
	}
	done, err := r.job.Has(t.Text + "/done.json")
	if err != nil || !done {
		return err
	}
	// Its quantized modules are gone, too, and so is what says that they are all
	// there; done.json goes last, so that this is done again if it is interrupted.
	for _, name := range []string{"/head.json", "/" + trainedName, "/done.json"} {
		if err := r.job.Remove(t.Text + name); err != nil {
			return err
		}
	}
	return nil
}
