package convert

import (
	"exl2/internal/device"
	"exl2/internal/exl2"
	"exl2/internal/model"
	"exl2/internal/profile"
	"exl2/internal/quant"
	"exl2/internal/sensitivity"
	"exl2/internal/stream"
	"exl2/internal/tensor"
)

// A sweep brings both streams through a module step by step: up to what the
// linears of a step read, whose moments it gathers, and, once those linears are
// quantized, on from there. Where activations can be held on the device, every
// product is computed once a row; otherwise each step begins at the module's
// beginning, and the streams go through it once more at the end.
type sweep struct {
	*quantizing
	source, work *model.Module
	coverage     []int                        // of the experts, if there are any
	held, heldR  map[model.Slot]tensor.Tensor // [rows·length, columns], of the step before
}

// cover counts what the experts of the module see.
func (s *sweep) cover() (err error) {
	s.coverage, err = s.pass.Coverage(s.run.ctx, s.work, s.x)
	return err
}

// seesAll reports whether the moments of an expert's site are those of all tokens.
func (s *sweep) seesAll(site model.Site) bool {
	return site.Routed && (s.run.opts.AllExperts || sensitivity.TooFew(s.coverage[site.Expert], site.Linears[0].In))
}

// together returns the end of the sites of step n, from lo on, whose moments are
// gathered in one pass.
func (s *sweep) together(n, lo int) int {
	sites := s.work.Steps[n].Sites
	return sensitivity.Together(len(sites), lo, s.run.memory.moments, func(i int) int { return 2 * sites[i].Linears[0].In }) // drift and residual, too
}

// to runs the streams to step n and returns the moments of its sites from lo to hi.
func (s *sweep) to(n, lo, hi int) ([]*quant.Hessian, error) {
	sites := s.work.Steps[n].Sites[lo:hi]
	hessians := make([]*quant.Hessian, len(sites))
	for i, site := range sites {
		hessians[i] = quant.NewHessian(s.run.dev, site.Linears[0].In)
	}
	last := n+1 == len(s.work.Steps) // which moves the streams behind the module
	hold, holdR := s.hold(n), s.hold(n)
	end := s.run.profile.On("quantize: forward and moments", s.cost(n))
	bring := (*stream.Lane).Load
	if s.chained() { // and so no step but the last changes the streams
		bring = (*stream.Lane).Borrow
	}
	work, source, done := s.joined(s.work, n), s.joined(s.source, n), 0
	err := s.pairs(bring, bring, func(wave []pair) error {
		err := eachPair(wave, func(p pair) error {
			s.advance(work, s.held, hold, n, p.x.State, p.row)
			if len(sites) > 0 { // both streams send the same rows to the same experts
				p.r.State.Follow(p.x.State)
			}
			s.advance(source, s.heldR, holdR, n, p.r.State, p.row)
			p.r.State.Follow(nil)
			return nil
		})
		for i, site := range sites {
			if err == nil && site.Packable() {
				err = s.gather(hessians[i], site, s.source.Steps[n].Sites[lo+i], wave)
			}
		}
		if done += len(wave); err == nil && done == s.passes() { // all is issued
			err = s.collect()
		}
		if err != nil || !last {
			return err
		}
		return eachPair(wave, func(p pair) error {
			if err := p.x.Keep(s.x, p.row); err != nil {
				return err
			}
			return p.r.Keep(s.r, p.row)
		})
	})
	work.free()
	source.free()
	end()
	s.drop()
	s.held, s.heldR = hold, holdR
	if err != nil {
		freeAll(hessians)
		return nil, err
	}
	return hessians, nil
}

// quantize quantizes the linears of step n, which are then in their places; a step
// without any is run.
func (s *sweep) quantize(n int, recipe func(*model.Linear) (exl2.Recipe, error)) error {
	sites := s.work.Steps[n].Sites
	for lo := 0; lo == 0 || lo < len(sites); {
		hi := s.together(n, lo)
		hessians, err := s.to(n, lo, hi)
		if err != nil {
			return err
		}
		for i, site := range sites[lo:hi] {
			if !site.Packable() {
				hessians[i].Free()
				continue
			}
			if err := s.site(hessians[i], site, recipe); err != nil {
				freeAll(hessians[i+1:])
				return err
			}
		}
		lo = max(hi, 1)
	}
	return nil
}

// gather adds what a site reads in both streams, in the order of rows.
func (s *sweep) gather(h *quant.Hessian, site, source model.Site, wave []pair) error {
	d, in, inRef := s.run.dev, site.In, source.In
	if s.seesAll(site) {
		in, inRef = site.All, source.All
	}
	xs, dxs := make([]tensor.Tensor, len(wave)), make([]tensor.Tensor, len(wave))
	err := eachPair(wave, func(p pair) error {
		x, i := in(p.x.State), p.x.Number
		xs[i], dxs[i] = x, s.dx.Of(p.x).Reshape(x.Rows, x.Cols)
		if x.Rows > 0 {
			d.Difference(dxs[i], x, inRef(p.r.State))
		}
		return nil
	})
	if err != nil {
		return err
	}
	of := s.ponder(site)
	if site.Adds {
		if dxs, err = s.short(source, wave, dxs); err != nil {
			return err
		}
	}
	of.scale(wave, dxs)
	xs, free := of.copies(wave, xs)
	defer free()
	moments := h.DriftMoments
	if site.Adds {
		moments = func(es, xs []tensor.Tensor) []device.Moment { return h.ShortMoments(xs, es) }
	}
	quant.AddMoments(d, append(h.Moments(xs), moments(dxs, xs)...))
	return nil
}

// short returns what the stream will lack behind a linear whose output is added to it, of
// the rows dxs by which its inputs have drifted, where the linear will write.
func (s *sweep) short(site model.Site, wave []pair, dxs []tensor.Tensor) ([]tensor.Tensor, error) {
	d, w, es := s.run.dev, site.Linears[0].W.(model.Dense).Tensor, make([]tensor.Tensor, len(wave))
	return es, eachPair(wave, func(p pair) error {
		i, r := p.x.Number, p.x.State.At(model.Residual)
		es[i] = p.r.State.At(site.Writes[0])
		d.MatMul(es[i], dxs[i], w, tensor.Tensor{})
		behind := s.dx.Of(p.x).Reshape(r.Rows, r.Cols)
		d.Difference(behind, p.r.State.At(model.Residual), r)
		d.Difference(es[i], behind, es[i])
		return nil
	})
}

// A pair is rows of both streams, n from row on, in a lane each.
type pair struct {
	x, r   *stream.Lane
	row, n int
}

// bring brings rows of a stream to a lane.
type bring func(l *stream.Lane, src *stream.Store, row, n int) (*model.State, error)

// passes returns how many pairs there are.
func (q *quantizing) passes() int { return (q.x.Rows + q.pass.Most - 1) / q.pass.Most }

// pairs brings rows of both streams, as many as there are lanes at a time, and calls f.
func (q *quantizing) pairs(x, r bring, f func(wave []pair) error) error {
	most := q.pass.Most
	return q.pass.Beside(q.run.ctx, q.passR, q.passes(), func(lanes, beside []*stream.Lane, first int) error {
		wave := make([]pair, len(lanes))
		err := stream.Each(len(wave), func(i int) error {
			row := (first + i) * most
			p := pair{lanes[i], beside[i], row, min(most, q.x.Rows-row)}
			wave[i] = p
			if _, err := x(p.x, q.x, row, p.n); err != nil {
				return err
			}
			_, err := r(p.r, q.r, row, p.n)
			return err
		})
		if err != nil {
			return err
		}
		return f(wave)
	})
}

// eachPair calls f for the pairs of a wave, side by side.
func eachPair(wave []pair, f func(p pair) error) error {
	return stream.Each(len(wave), func(i int) error { return f(wave[i]) })
}

// A joined module has the weights of its first steps as one product takes them.
type joined struct {
	*model.Module
	weights []tensor.Tensor
	frees   []func()
}

// joined joins the weights of the steps that a sweep to step n multiplies.
func (s *sweep) joined(m *model.Module, n int) *joined {
	j := &joined{Module: m, weights: make([]tensor.Tensor, n)}
	for i := s.first(n); i < n; i++ {
		w, free := m.Steps[i].Join(s.run.dev)
		j.weights[i], j.frees = w, append(j.frees, free)
	}
	return j
}

func (j *joined) free() {
	for _, f := range j.frees {
		f()
	}
}

// first returns the first step that a sweep to step n multiplies: the one before, if what its
// linears read is held.
func (s *sweep) first(n int) int {
	if s.held != nil {
		return n - 1
	}
	return 0
}

// advance runs a module to where the linears of step n read, which is in hold then, if
// that is there.
func (s *sweep) advance(m *joined, held, hold map[model.Slot]tensor.Tensor, n int, st *model.State, row int) {
	if held != nil {
		s.lend(held, st, row)
	}
	ready := func(i int) func() {
		return func() {
			if i == n {
				s.lend(hold, st, row)
			}
		}
	}
	if held == nil {
		ready(0)()
		m.Steps[0].Run(st)
	}
	for i := s.first(n); i < n; i++ {
		m.Onward(st, i, m.weights[i], ready(i+1))
	}
}

func (s *sweep) close() { s.drop() }

// cost counts the operations of to(n): products of the step before, as far as
// nothing is computed twice, and moments, of which half of a symmetric one.
func (s *sweep) cost(n int) profile.Work {
	tokens, flops := float64(s.x.Rows*s.pass.Length), 0.0
	if n > 0 {
		for _, site := range s.work.Steps[n-1].Sites {
			for _, l := range site.Linears {
				flops += 2 * 2 * tokens * float64(l.In) * float64(l.Out)
			}
		}
	}
	for _, site := range s.work.Steps[n].Sites {
		k := float64(site.Linears[0].In)
		drift := k
		if site.Adds {
			drift = 2 * float64(site.Linears[0].Out)
		}
		flops += tokens * k * (k + 2*drift)
	}
	return profile.Work{Flops: flops}
}
