package main

import (
	"bytes"
	"strconv"
	"sync"
)

// library holds what has been rendered. Templates are made once and never changed.
type templateCache struct {
	mu   sync.Mutex
	sets map[size]*templateSet
}

// shelf has the templates of a size, by form.
type templateSet [4][]*template

// of returns n templates, or more, of each form; n is at most templates.
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

// find returns the templates that a request is answered with.
func (l *templateCache) forRequest(a podRequest, f form) []*template {
	if a.metadata {
		f += metaFrame - frameForm
	}
	return l.get(a.run.Size, min(a.run.Objects, templates))[f]
}

// appendObject appends the n-th object as it is in lists: at a version below those
// of the events.
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

// added makes ADDED of MODIFIED, at the beginning of a frame.
func added(frame []byte) []byte {
	return append([]byte(`{"type":"ADDED"`), bytes.TrimPrefix(frame, []byte(`{"type":"MODIFIED"`))...)
}
