package controller

import (
	"slices"
	"sync"

	"github.com/gvrwatch/gvrwatch/internal/acks"
	"github.com/gvrwatch/gvrwatch/internal/friend"
	"github.com/gvrwatch/gvrwatch/internal/wait"
	"github.com/gvrwatch/gvrwatch/stream"
)

// pending is what Run knows of the keys that are not done.
type pending struct {
	keysOnly bool
	changed  wait.Signal // is sent when there may be room, or nothing left

	mu      sync.Mutex
	entries map[Key]*entry
	held    int // entries that wait for a successful reconcile
	unacked int // events with a mark, counted for each of their keys
	running int
}

// entry is what is known of one key.
type entry struct {
	event stream.Event // the newest; zero with KeysOnly
	acks  []*ack       // of the events that the next reconcile handles
	held  bool         // not retained for RequeueAfter only
	newer bool         // event is newer than the one that is being reconciled
}

// ack acks an event when all of its keys have been reconciled. The mutex of pending guards it.
type ack struct {
	mark *acks.Mark
	left int // keys that are not reconciled
}

func newPending(keysOnly bool) *pending {
	return &pending{keysOnly: keysOnly, changed: wait.NewSignal(), entries: map[Key]*entry{}}
}

// hasRoom reports whether the event of these keys may be added.
func (p *pending) hasRoom(keys []Key, most int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.unacked/acksPerKey >= most {
		return false
	}
	isHeld := func(k Key) bool { e := p.entries[k]; return e != nil && e.held }
	return p.held < most || !slices.ContainsFunc(keys, func(k Key) bool { return !isHeld(k) })
}

// add adds an event that leads to keys. A key may be there twice.
func (p *pending) add(ev stream.Event, keys []Key) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var a *ack
	envelope := ev.Envelope(friend.Access{})
	if envelope.Mark != nil {
		a = &ack{envelope.Mark, len(keys)}
		p.unacked += len(keys)
	}
	envelope.Mark = nil // reconcile must not ack
	for _, k := range keys {
		e := p.entries[k]
		if e == nil {
			e = &entry{}
			p.entries[k] = e
		}
		if e.newer = true; !p.keysOnly {
			e.event = ev
		}
		if a != nil {
			e.acks = append(e.acks, a)
		}
		p.hold(e, true)
	}
}

func (p *pending) hold(e *entry, held bool) {
	switch {
	case held && !e.held:
		p.held++
	case !held && e.held:
		p.held--
	}
	e.held = held
}

// begin begins a reconcile of a key. It returns the newest event and what is acked if the reconcile succeeds, or false
// if the key is done: then a RequeueAfter has been replaced by a later reconcile.
func (p *pending) begin(k Key) (ev stream.Event, acks []*ack, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.entries[k]
	if e == nil {
		return ev, nil, false
	}
	p.running++
	acks, e.acks, e.newer = e.acks, nil, false
	return e.event, acks, true
}

// failed ends a reconcile that is to be retried.
func (p *pending) failed(k Key, acks []*ack) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running--
	e := p.entries[k]
	e.acks = append(acks, e.acks...)
	p.hold(e, true)
}

// succeeded ends a reconcile and returns the marks to ack. If retain is set, and no newer event has arrived, the event
// is retained for RequeueAfter.
func (p *pending) succeeded(k Key, acks []*ack, retain bool) (done []*acks.Mark) {
	defer p.changed.Send()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running--
	p.unacked -= len(acks)
	for _, a := range acks {
		if a.left--; a.left == 0 {
			done = append(done, a.mark)
		}
	}
	if e := p.entries[k]; !e.newer {
		if p.hold(e, false); !retain {
			delete(p.entries, k)
		}
	}
	return done
}

// isDone reports whether all that was added has been reconciled.
func (p *pending) isDone() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held == 0 && p.running == 0
}
