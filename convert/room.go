package convert

import (
	"fmt"

	"exl2/internal/device"
	"exl2/internal/machine"
	"exl2/internal/model"
	"exl2/internal/sampled"
)

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
		cache := model.CacheBytes(r.dev, r.src.loader.Spec, model.WholeCache(r.src.loader.Spec, 1, length))
		return max(bytes+least*cache, sampled.Memory(r.dev, r.src.loader, rows, length, bytes, most))
	}
	need, remedy := taken(r.opts.GPUMemory), ""
	if need <= room {
		return ""
	}
	if tenths := free / 1e8; tenths > 0 && taken(tenths*1e8) <= room {
		remedy = fmt.Sprintf("; with --gpu-memory %.1f it writes fewer at once", float64(tenths)/10)
	}
	return fmt.Sprintf("the whole model and the texts that it writes take about %s of the device's memory, more than nine tenths of the %s that are free%s", machine.Size(need), machine.Size(free), remedy)
}

// noRoomToWeigh says what weighing tokens takes with so many rows of the source, if that is
// more than there is, and "" if it is not.
func (r *run) noRoomToWeigh(synthetic, free int) string {
	if need := r.weighMemory(); r.weighs(synthetic) && need > free/10*9 {
		return fmt.Sprintf("the whole model and gradients of some rows take about %s of the device's memory, more than nine tenths of the %s that are free", machine.Size(need), machine.Size(free))
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
