package apiserver

import (
	"slices"
	"time"
)

// agenda has the actions that are due later, by their time.
type agenda struct {
	pending []timed
	timer   *time.Timer
}

// timed is an action that is due at some time.
type timed struct {
	due    time.Time
	do     func()
	script bool // a script announced it; otherwise it follows from an earlier action
}

// add keeps the order of actions that are due at the same time.
func (a *agenda) add(t timed) {
	a.pending = append(a.pending, t)
	slices.SortStableFunc(a.pending, func(a, b timed) int { return a.due.Compare(b.due) })
}

// next takes an action that is due, or returns nil.
func (a *agenda) next() (do func()) {
	if len(a.pending) == 0 || a.pending[0].due.After(time.Now()) {
		return nil
	}
	do = a.pending[0].do
	a.pending = a.pending[1:]
	return do
}

// cancel takes back what scripts have announced.
func (a *agenda) cancel() {
	a.pending = slices.DeleteFunc(slices.Clone(a.pending), func(t timed) bool { return t.script })
}

// wait calls run when the next action is due.
func (a *agenda) wait(run func()) {
	if a.timer != nil {
		a.timer.Stop()
		a.timer = nil
	}
	if len(a.pending) > 0 {
		a.timer = time.AfterFunc(time.Until(a.pending[0].due), run)
	}
}

func (a *agenda) stop() {
	a.pending = nil
	a.wait(nil)
}
