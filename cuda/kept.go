package cuda

import (
	"slices"
	"sync"
	"sync/atomic"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// A keeper has decoded weights of shares, from the second time that they are multiplied: to
// allocate costs the first prompt more than one prompt is worth. Its memory is lent: whoever
// finds none on the GPU takes it all (takeBack).
type keeper struct {
	bytes atomic.Int64 // of all slabs

	mu     sync.Mutex // of what follows: other devices of the GPU take memory back
	shares map[share]*prepared
	slabs  []*slab
	limit  int  // of their bytes
	taken  bool // by others, since the queue of shares was looked at

	// issuing says that operations with places in slabs are being issued, by the
	// device's own goroutine, which has locked mu.
	issuing bool
}

// A slab is memory for shares that come one after the other.
type slab struct {
	mem    *memory
	filled int // bytes
	live   int // shares
}

// slabBytes is the size of slabs but the last; a larger share has one of its own.
const slabBytes = 32 << 20

// keepers are the devices that may keep weights.
var keepers struct {
	sync.Mutex
	all []*Device
}

var _ device.Keeper = (*Device)(nil)

// DecodedBytes returns what the decoded weights of a matrix take, which products of so many
// rows read, or 0 if they read none.
func (d *Device) DecodedBytes(rows, in, out int) int {
	if !d.hopper() || rows < tiledRows {
		return 0
	}
	return in * out * tensor.F16.Size()
}

// KeepDecoded has products keep decoded weights, up to so many bytes.
func (d *Device) KeepDecoded(limit int) {
	d.forbidWhileRecording("KeepDecoded")
	if limit <= 0 {
		d.stopKeeping()
		return
	}
	keepers.Lock()
	defer keepers.Unlock()
	if !slices.Contains(keepers.all, d) {
		keepers.all = append(keepers.all, d)
	}
	d.kept.limit = limit
}

// stopKeeping frees what is kept.
func (d *Device) stopKeeping() {
	keepers.Lock()
	defer keepers.Unlock()
	d.takeKept()
	keepers.all = slices.DeleteFunc(keepers.all, func(x *Device) bool { return x == d })
}

// Kept returns the bytes that this device and others keep on its GPU.
func (d *Device) Kept() (bytes int) {
	keepers.Lock()
	defer keepers.Unlock()
	for _, k := range keepers.all {
		if k.handle == d.handle && k.drv == d.drv {
			bytes += int(k.kept.bytes.Load())
		}
	}
	return bytes
}

// hold begins what issues operations with places in slabs, which nobody takes meanwhile.
func (k *keeper) hold() {
	k.mu.Lock()
	k.issuing = true
}

func (k *keeper) letGo() {
	k.issuing = false
	k.mu.Unlock()
}

// keep returns the weights of a share if they are kept, or if there is room to do so. The
// caller holds the keeper.
func (d *Device) keep(s share) *prepared {
	k := &d.kept
	if p := k.shares[s]; p != nil || k.limit == 0 || d.err != nil {
		return p
	}
	b, at := d.slabFor(aligned(s.bytes()))
	if b == nil {
		k.limit = int(k.bytes.Load())
		return nil
	}
	b.live++
	if k.shares == nil {
		k.shares = map[share]*prepared{}
	}
	w := tensor.New(tensor.F16, s.rows(), s.list[0].in, b.mem)
	w.Off = at
	p := d.prepared(s, w)
	p.slab = b
	k.shares[s] = p
	return p
}

// slabFor returns room for so many bytes, and where it is; nil if there is none.
func (d *Device) slabFor(bytes int) (b *slab, at int) {
	k := &d.kept
	if n := len(k.slabs); n > 0 && k.slabs[n-1].filled+bytes <= k.slabs[n-1].mem.size {
		b = k.slabs[n-1]
		b.filled += bytes
		return b, b.filled - bytes
	}
	rest := k.limit - int(k.bytes.Load())
	size := max(bytes, min(slabBytes, rest))
	if size > rest {
		return nil, 0
	}
	place, r := d.tryAllocate(uintptr(size))
	if r != success {
		return nil, 0
	}
	b = &slab{mem: &memory{owner: d, at: place, size: size}, filled: bytes}
	k.slabs = append(k.slabs, b)
	k.bytes.Add(int64(size))
	return b, 0
}

// forgetKept drops what is kept of a matrix that is freed, or in its order.
func (d *Device) forgetKept(m *matrix) {
	k := &d.kept
	k.mu.Lock()
	defer k.mu.Unlock()
	for s, p := range k.shares {
		if slices.Contains(s.list[:s.n], m) || !s.places.Nil() && s.places.Mem == m.places.Mem {
			delete(k.shares, s)
			p.slab.live--
		}
	}
	k.slabs = slices.DeleteFunc(k.slabs, func(b *slab) bool {
		if b.live == 0 {
			k.bytes.Add(-int64(b.mem.size))
			d.giveUp(b)
		}
		return b.live == 0
	})
}

// giveUp frees a slab once the operations issued so far are done with it, whoever asks: of
// the device it changes nothing.
func (d *Device) giveUp(b *slab) {
	if d.pool.handle != 0 {
		d.try(cuMemFreeAsync, uintptr(b.mem.at), d.stream)
	} else {
		d.try(cuStreamSynchronize, d.stream)
		d.try(cuMemFree, uintptr(b.mem.at))
	}
	b.mem.at = 0
}

// takeKept frees what is kept, for good. The caller has locked keepers.
func (d *Device) takeKept() (bytes int) {
	k := &d.kept
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, b := range k.slabs {
		d.giveUp(b)
	}
	if bytes = int(k.bytes.Swap(0)); bytes > 0 {
		d.try(cuStreamSynchronize, d.stream)
	}
	k.shares, k.slabs, k.limit, k.taken = nil, nil, 0, true
	return bytes
}

// takeBack frees all weights that are kept on the GPU, because memory has run out: nothing
// is kept any more. It reports whether there were any. Another device that is just issuing
// operations is waited for; this one, if it is, keeps what it may be using.
func (d *Device) takeBack() bool {
	if d.kept.issuing {
		return false
	}
	keepers.Lock()
	defer keepers.Unlock()
	bytes := 0
	for _, k := range keepers.all {
		if k.handle == d.handle && k.drv == d.drv {
			bytes += k.takeKept()
		}
	}
	if bytes > 0 && d.pool.handle != 0 {
		d.try(cuMemPoolTrimTo, d.pool.handle, 0) // for who does not take it from the pool
	}
	return bytes > 0
}
