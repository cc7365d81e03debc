package convert

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
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
	if begun, err := r.had(begunFile(syntheticTokens)); err != nil {
		return err
	} else if begun {
		return fmt.Errorf("%w: the job has some of the rows that the model writes: %s; go on when there are more", ErrRefused, reason)
	}
	r.without = reason
	if r.opts.LowMemory { // which the user has chosen
		r.progress.Note("no rows are sampled from the model: " + reason)
		return nil
	}
	r.progress.Warn(reason + ": quantizing goes on without rows that the model writes, which would lose less of it")
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

// calibrationRows returns how many rows there will be to quantize on.
func (r *run) calibrationRows() int { return len(r.tokens.quantize) + r.synthetic }

// calibration returns the rows that are quantized on: those of the data, and those
// of the source.
func (t tokens) calibration() [][]int32 {
	return append(t.quantize[:len(t.quantize):len(t.quantize)], t.synthetic...)
}
