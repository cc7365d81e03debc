package infer

import "time"

// Steps are begun in front of the host as far as they take this long, so that a host that
// others want, too, may be away for a while: what is behind the end of a text is computed
// for nothing. At first nothing is known of a step's time.
const (
	frontTime  = 12 * time.Millisecond
	firstFront = 4
	mostFront  = 48 // fewer than device.RingEntries
)

// front is decode steps of one kind under way: the host begins them in front of those
// whose tokens it has read. What they do beyond a token that ends a text is in the cache
// behind what the text holds, and in memory that is set when another one begins.
type front struct {
	engine *Engine
	kind   decode
	left   int // steps that may be begun
	unread int // entries of the ring that are begun and not read
	pace   *pace
	began  time.Time // when a token was read
	read   int       // tokens since then
	steady bool      // no step is begun in front of the token before it
}

// A pace is what is known of a kind of steps.
type pace struct{ step time.Duration }

// front returns steps of a kind, at most so many, behind unread choices.
func (e *Engine) front(k decode, unread, steps int) *front {
	p := e.paces[k]
	if p == nil {
		p = &pace{}
		e.paces[k] = p
	}
	return &front{engine: e, kind: k, left: steps, unread: unread, pace: p}
}

// more reports whether there are tokens to come.
func (f *front) more() bool { return f.left > 0 || f.unread > 0 }

// next waits for the tokens of the next step, in front of which others have been begun.
func (f *front) next() ([]int32, error) {
	e := f.engine
	for depth := f.depth(); f.left > 0 && f.unread < depth; {
		if err := e.decode(f.kind); err != nil {
			return nil, err
		}
		f.left, f.unread = f.left-1, f.unread+1
	}
	ids, err := e.choice.read(f.kind.rows)
	f.unread--
	f.measure()
	return ids, err
}

// depth is up to how many tokens are under way while the host waits for one.
func (f *front) depth() int {
	switch {
	case f.steady:
		return 1
	case f.engine.depth > 0:
		return f.engine.depth
	case !f.engine.choice.ring.Beside():
		return 1
	case f.pace.step == 0:
		return firstFront
	}
	return min(2+int(frontTime/f.pace.step), mostFront)
}

// measure takes the mean time of some steps: while the host is kept away, steps seem to
// take longer than they do, and fewer are begun, but never for less time than it is away.
func (f *front) measure() {
	const least, most = 3, 64
	if f.began.IsZero() || f.read == most {
		f.began, f.read = time.Now(), 0
		return
	}
	if f.read++; f.read >= least {
		f.pace.step = max(1, time.Since(f.began)/time.Duration(f.read))
	}
}
