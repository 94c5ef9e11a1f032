package stream

import (
	"math"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/gvrwatch/gvrwatch/internal/decode"
)

// With Options.Select the metadata of an object are looked at before it is built,
// in the frame. What is not wanted is not built, unless its end has to be told.

// picker says what is to be made of an event.
type picker func(*decode.Sight) choice

type choice int

const (
	buildWanted   choice = iota // the object
	buildUnwanted               // that too, to tell its end
	sketch                      // only what tells it apart from others
	passBy                      // nothing: all that there is to know of it has been noted
)

// sureAfter is how many events tell what a server does (decode.Decoder.Sight).
const sureAfter = 32

// pickEvent decodes the frame that data begins with, as picker says. It returns
// false if it has to be decoded in any case.
func (f *frames) pickEvent() (ev arrival, ok bool) {
	if f.picker == nil {
		return ev, false
	}
	sight, end := f.dec.Sight(f.data, f.lines >= sureAfter, f.ordered >= sureAfter)
	if sight == nil || end > biggestFrame {
		return ev, false
	}
	f.lines++
	switch usual, unusual := sight.Order(); {
	case unusual:
		f.ordered = math.MinInt // never any more
	case usual:
		f.ordered++
	}
	defer sight.Forget()
	picked := f.picker(sight)
	if sight.Broken() {
		return ev, false // so that what it has said is not to be trusted
	}
	ev.Type, ev.verdict = sight.Type(), fails
	switch picked {
	case buildWanted:
		ev.verdict = passes
		fallthrough
	case buildUnwanted:
		built, n, ok := decodeEvent(f.dec, f.data)
		if ok {
			ev.Event, f.data = built, f.data[n:]
		}
		return ev, ok
	case sketch:
		ev.Object = &unstructured.Unstructured{Object: sight.Sketch()}
	case passBy:
		f.passed = true
	}
	f.data = f.data[end:]
	return ev, true
}

// picker is that of the Stream's Select.
func (l *lane) picker() picker {
	if l.options.Select == nil {
		return nil
	}
	return func(s *decode.Sight) choice {
		selected := l.options.Select(s)
		switch {
		case selected:
			return buildWanted
		case s.Broken():
			return buildUnwanted
		case l.conn.passed.by(s, l.index):
			return passBy
		case l.conn.ahead || l.index.mayTell(s): // what came before is not in the index yet
			return buildUnwanted
		}
		return sketch
	}
}

// passed is how far a watch has got by events that have nothing to tell, and which
// the state has not heard of yet.
type passed struct {
	on      bool // nobody has to know of each of them
	version uint64
	events  int
}

// from begins to pass events by, after a version, or ends that.
func (p *passed) from(rv string, on bool) {
	if p.events > 0 {
		return
	}
	if p.on = on; on {
		p.version, p.on = packVersion(rv)
	}
}

// by passes an event by, if it changes nothing but the version of an object that is
// not told of.
func (p *passed) by(s *decode.Sight, x *index) bool {
	if !p.on || s.Type() == watch.Deleted {
		return false
	}
	namespace, name, uid, rv := s.Identity()
	version, ok := number(rv)
	if !ok || version <= p.version || !x.passHidden(namespace, name, uid, version) {
		return false
	}
	p.version = version
	p.events++
	return true
}

// take returns what the state is to hear of it, or nil, and how many events that
// stands for.
func (p *passed) take() (in input, events int) {
	if p.events == 0 {
		return nil, 0
	}
	events, p.events = p.events, 0
	return frame{passedFrame, strconv.FormatUint(p.version, 10)}, events
}

// number is packVersion for what is not a string.
func number(b []byte) (n uint64, ok bool) {
	if len(b) == 0 || len(b) > 19 || b[0] == '0' {
		return 0, false
	}
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	return n, true
}

// passHidden enters a newer version of an object that is known and hidden, and
// returns true, or false if there is more to say of it. A nil index knows nothing,
// so that there is never more to say.
func (x *index) passHidden(namespace, name, uid []byte, version uint64) bool {
	if x == nil {
		return true
	}
	if x.noted != nil || len(x.ghosts) > 0 || len(x.doubts) > 0 {
		return false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.table.passHidden(namespace, name, uid, version)
}

// mayTell says whether the end of an object that is not wanted may have to be told.
func (x *index) mayTell(s *decode.Sight) bool {
	if x == nil {
		return false
	}
	namespace, name, _, _ := s.Identity()
	n := types.NamespacedName{Namespace: string(namespace), Name: string(name)}
	was, ok := x.get(n)
	return ok && !was.hidden || len(x.ghosts[n]) > 0
}

func (t *table) passHidden(namespace, name, uid []byte, version uint64) bool {
	slot, ok := t.packed.findBytes(namespace, name)
	if !ok {
		return false
	}
	r := t.packed.at(slot)
	id, ok := packUID(uid)
	if !ok || r.space&flagHidden == 0 || r.uid != id || r.version >= version {
		return false
	}
	r.version, r.space = version, r.space|flagSeen
	return true
}
