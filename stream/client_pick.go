package stream

import (
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gvrwatch/gvrwatch/internal/decode"
)

// With Options.Select the metadata of an object are looked at before it is decoded, in
// the frame. What is not wanted is not decoded, unless its end may have to be reported.

// picker says what is to be made of an event.
type picker func(*decode.Sight) choice

type choice int

const (
	buildWanted   choice = iota // the object
	buildUnwanted               // that too, to report its end
	sketch                      // only what tells it apart from others
	passBy                      // nothing: nobody need hear of it
)

// picker is that of the Stream's Select.
func (l *lane) picker() picker {
	if l.options.Select == nil {
		return nil
	}
	return func(s *decode.Sight) choice {
		selected := l.options.Select(s)
		namespace, name, version := s.Identity()
		switch {
		case selected:
			return buildWanted
		// What came before it may not be in the index yet.
		case s.Broken(), l.conn.ahead, l.index.hasBytes(namespace, name):
			return buildUnwanted
		case l.conn.passed.by(version):
			return passBy
		}
		return sketch
	}
}

// pick decodes the event that data begins with, as the picker says, and returns how
// long it is. It returns false if it has to be decoded in any case.
func (f *frames) pick(data []byte) (ev arrival, n int, ok bool) {
	sight, n := f.dec.Sight(data)
	if sight == nil || n > biggestFrame {
		return ev, 0, false
	}
	defer sight.Forget()
	picked := f.picker(sight)
	if sight.Broken() {
		return ev, 0, false // what Select was shown was wrong
	}
	ev.Type, ev.verdict = sight.Type(), fails
	switch picked {
	case buildWanted, buildUnwanted:
		if picked == buildWanted {
			ev.verdict = passes
		}
		ev.Event, n, ok = decodeEvent(f.dec, data)
		return ev, n, ok
	case sketch:
		ev.Object = &unstructured.Unstructured{Object: sight.Sketch()}
	case passBy:
		f.passed = true
	}
	return ev, n, true
}

// passed is how far a watch has got by events that report nothing, and which the state
// has not heard of yet.
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

// by passes an event by, if it is newer than what came before.
func (p *passed) by(rv []byte) bool {
	if !p.on {
		return false
	}
	version, ok := packVersion(string(rv))
	if !ok || version <= p.version {
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
