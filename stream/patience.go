package stream

import (
	"math"
	"time"
)

// noPage is no page that comes.
const noPage = math.MaxInt

// isWell says that what failed does not fail any more.
func (l *lane) isWell() { l.failingSince, l.failedPage = time.Time{}, 0 }

// failsAnew says whether a failure now is the first one in a row: a long list may have
// gone well in between.
func (l *lane) failsAnew() bool {
	return l.failingSince.IsZero() || time.Since(l.failedAt) > l.options.GiveUpAfter
}

// noteFailure notes what in came to. All is well once a list has got past the page that
// failed. That the first pages come again when it begins anew is no progress.
func (l *lane) noteFailure(s state, in input, next state) {
	list, listing := s.(listing)
	_, came := in.(page)
	_, failed := next.(waiting)
	if failed && l.failsAnew() {
		l.failedPage = 0
	}
	switch {
	case failed && (!listing || came):
		l.failedPage = noPage
	case failed:
		l.failedPage = max(l.failedPage, len(list.tokens))
	case listing && came && len(list.tokens) >= l.failedPage:
		l.isWell()
	}
}

// patience shortens the time for a request that begins now to what GiveUpAfter leaves.
func (l *lane) patience(timeout time.Duration) time.Duration {
	l.askedAt = time.Now()
	return l.left(timeout)
}

// left is patience for a request that nobody waits for yet.
func (l *lane) left(timeout time.Duration) time.Duration {
	if l.options.GiveUpAfter == 0 {
		return timeout
	}
	left := l.options.GiveUpAfter
	if !l.failingSince.IsZero() {
		left -= time.Since(l.failingSince)
	}
	return max(min(timeout, left), time.Second)
}
