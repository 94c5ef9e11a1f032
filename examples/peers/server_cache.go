package main

import (
	"bytes"
	"strconv"
	"sync"
)

// templateCache renders templates on demand and keeps them. They never change.
type templateCache struct {
	mu   sync.Mutex
	sets map[size]*templateSet
}

// templateSet has the templates of a size, indexed by form.
type templateSet [4][]*template

// get returns at least n templates of each form; n must be at most [templates].
func (l *templateCache) get(s size, n int) templateSet {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sets == nil {
		l.sets = map[size]*templateSet{}
	}
	if l.sets[s] == nil {
		l.sets[s] = &templateSet{}
	}
	made := l.sets[s]
	for i := len(made[frameForm]); i < n; i++ {
		p := pod(s, i)
		for f := range made {
			made[f] = append(made[f], render(p, form(f)))
		}
	}
	return *made
}

// forRequest returns the templates of the answer to a request. f is the form without regard to metadata.
func (l *templateCache) forRequest(a podRequest, f form) []*template {
	if a.metadata {
		f += metaFrame - frameForm
	}
	return l.get(a.run.Size, min(a.run.Objects, templates))[f]
}

// appendObject appends the n-th object as lists have it, at a version below those of the events.
func appendObject(to []byte, of []*template, a podRequest, n int) []byte {
	t := of[n%templates]
	from := len(to)
	to = append(to, t.text...)
	text := to[from:]
	t.identify(text, identityOf(n))
	t.version.fill(text, strconv.AppendInt(nil, int64(firstVersion-a.run.Objects+n), 10))
	t.changed.fill(text, changeAt(0))
	t.sent.fill(text, zeroTime)
	return to
}

// added returns the frame of a MODIFIED event as one of an ADDED event.
func added(frame []byte) []byte {
	return append([]byte(`{"type":"ADDED"`), bytes.TrimPrefix(frame, []byte(`{"type":"MODIFIED"`))...)
}
