package convert

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"exl2/internal/distill"
	"exl2/internal/machine"
	"exl2/internal/sampled"
)

// trains reports whether codes are trained.
func (o *Options) trains() bool { return o.Quality == Best }

// A schooling is what training is on a kind of device: a step takes batch rows of up to
// length tokens. There are as many tokens as a budget of operations allows, least at
// least and no more than most, in rows that are seen some times each, or more often where
// that would be more than so many rows.
type schooling struct {
	batch, length       int
	budget, least, most float64
	times, rows         int
}

// On the CPU, where there are few tokens, more steps with fewer and shorter rows make
// more of them.
var (
	gpuSchooling = schooling{batch: 16, length: 512, budget: 3e17, least: 4e6, most: 65.6e6, times: 3, rows: 16000}
	cpuSchooling = schooling{batch: 2, length: 512, budget: 5e13, least: 1e5, most: 1e6, times: 2, rows: 8000}
)

// schooling returns that of the device.
func (r *run) schooling() schooling {
	s := cpuSchooling
	if r.ownMemory() {
		s = gpuSchooling
	}
	s.length = min(s.length, r.opts.Data.Length)
	return s
}

// heldOutRows is how many rows judge, beside those that are trained on.
const heldOutRows = 16

// trainingOperations is what training takes for each weight and token: the source's
// pass, the quantized model's two, gradients of inputs and of weights.
const trainingOperations = 10

// trainedTokens returns how many tokens codes are trained on.
func (r *run) trainedTokens() float64 {
	if n := r.opts.on().trained; n > 0 {
		return n
	}
	s := r.schooling()
	return min(max(s.budget/(trainingOperations*float64(r.trainedWeights())), s.least), s.most)
}

// trainedWeights returns how many weights have codes.
func (r *run) trainedWeights() int {
	return r.src.weights() + r.src.loader.Spec.Hidden*r.src.loader.Spec.Vocab
}

// addTraining adds what training takes: memory of the host, if the device has none of
// its own; rows, trained matrices beside the others, latents and moments on disk.
func (r *run) addTraining(e *Estimate) {
	if !r.opts.trains() {
		return
	}
	if r.ownMemory() {
		e.Memory += len(r.devices) * r.memory.trainHost
	} else {
		e.Memory = max(e.Memory, r.memory.Train)
	}
	e.Work += 4*int(r.trainedTokens()) + distill.LatentBytes*r.trainedWeights()
	for _, t := range r.unfinished() {
		e.Work += r.src.quantizedBytes(t.Bits)
	}
}

// shape is the plan of training as far as memory goes.
func (r *run) shape() distill.Plan {
	s := r.schooling()
	return distill.Plan{Batch: s.batch, Length: s.length, Fit: r.memory.fit}
}

// planTraining finds what training keeps where, for so much free memory of the device, or
// of the machine, and refuses what does not fit. Of a machine's memory activations take a
// third at most.
func (r *run) planTraining(free int, own bool) error {
	if !r.opts.trains() || len(r.unfinished()) == 0 {
		return nil
	}
	m, host := r.memory, math.MaxInt
	if machine, known := r.opts.on().freeMemory(); known && own {
		host = machine / 20 * 19 / len(r.devices)
	} else if known {
		free = machine
	} else if !own {
		free = 0
	}
	if room := r.opts.on().trainingRoom; room > 0 {
		free = room
	}
	fits := false
	m.fit.Recall = r.trainingRowsWanted() - heldOutRows
	m.fit, m.Train, m.trainHost, fits = distill.Choose(r.dev, r.src.loader, r.shape(), free/20*19, host)
	for _, less := range []distill.Fit{{Keep: true}, {}} {
		if !own && m.fit.Keep && m.Train > free/3 {
			m.fit = less
			m.Train, _ = distill.Bytes(r.dev, r.src.loader, r.shape())
		}
	}
	m.Away = m.fit.Away
	if !own {
		return nil // what a machine has is compared with all that the job takes
	}
	written, err := r.had(trainingTokens)
	if err != nil {
		return err
	}
	if reason := r.noRoomToSample(1, r.trainingRowsWanted(), r.schooling().length, free); reason != "" && !written {
		return fmt.Errorf("%w: training the codes: %s; --quality normal does without", ErrRefused, reason)
	}
	if fits {
		return nil
	}
	return fmt.Errorf("%w: training the codes takes about %s of the device's memory, of which %s are free, and %s of the machine's; --quality normal does without",
		ErrRefused, machine.Size(m.Train), machine.Size(free), machine.Size(m.trainHost))
}

// trainingTokens is the job's file of the rows that are trained on, and of those that
// judge, which come last. The source has written them.
const trainingTokens = "training.safetensors"

// trainingSeed is the seed of the rows: other ones than those that are quantized on.
const trainingSeed = calibrationSeed + 1

// trainingRowsWanted is how many rows are trained on and judge, if none are there.
func (r *run) trainingRowsWanted() int {
	s := r.schooling()
	return max(s.batch, min(int(r.trainedTokens())/(s.length*s.times), s.rows)) + heldOutRows
}

// trainingRows returns the rows that are trained on and those that judge: those that
// an earlier run has kept, or new ones.
func (r *run) trainingRows() (train, heldOut [][]int32, err error) {
	rows := r.tokens.training
	if rows == nil {
		rows, err = r.written(trainingTokens, r.trainingRowsWanted(), r.schooling().length, trainingSeed)
		if errors.Is(err, sampled.ErrShort) {
			return nil, nil, fmt.Errorf("training the codes: %w; --quality normal in another --out-dir, with --measurement %s, does without", err, cmp.Or(r.opts.Measurement, r.job.Path(measurementName)))
		}
		if err != nil {
			return nil, nil, err
		}
		r.tokens.training = rows
	}
	n := len(rows) - heldOutRows
	if n < 1 {
		return nil, nil, r.job.Damaged(trainingTokens, errors.New("too few rows"))
	}
	return rows[:n], rows[n:], nil
}

// trainingPlan says how the target's codes are trained.
func (b *build) trainingPlan() (*distill.Plan, error) {
	rows, heldOut, err := b.run.trainingRows()
	if err != nil {
		return nil, err
	}
	length, shape := len(rows[0]), b.run.shape()
	p := &distill.Plan{Batch: max(1, shape.Batch*shape.Length/length), Length: length, Fit: shape.Fit, Rows: rows, HeldOut: heldOut}
	p.Steps = max(1, int(b.run.trainedTokens())/(p.Batch*length))
	p.Rate, p.FromCodes = rate(float64(b.plan.Bits)/float64(b.run.src.weights()), p.Steps)
	return p, nil
}

// rates are learning rates by the mean width of the decoder, codes a step, for
// ratedSteps steps.
var rates = []struct{ bits, rate float64 }{{2.5, 0.0021}, {3.0, 0.0021}, {3.5, 0.0017}, {4.0, 0.0015}, {5.0, 0.0012}}

const ratedSteps = 1500

// From fromCodes bits on training begins at the codes, with another rate.
const (
	fromCodes     = 5.5
	fromCodesRate = 0.006
)

// rate returns the learning rate for a mean width and a number of steps, and whether
// training begins at the codes. The fewer steps there are, the larger they are, by the
// cube root.
func rate(bits float64, steps int) (rate float64, codes bool) {
	longer := math.Cbrt(ratedSteps / float64(steps))
	if bits >= fromCodes {
		return fromCodesRate * longer, true
	}
	for i, r := range rates {
		if bits > r.bits {
			continue
		}
		if i == 0 {
			return r.rate * longer, false
		}
		before := rates[i-1]
		share := (bits - before.bits) / (r.bits - before.bits)
		return longer * math.Exp((1-share)*math.Log(before.rate)+share*math.Log(r.rate)), false
	}
	return rates[len(rates)-1].rate * longer, false
}
