package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"time"
)

// due says that something is to be committed: at the latest after the interval,
// and if so many events have been acked at once.
func (t *Tracker) due(events int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.acked += events
	t.waiting = true
	switch {
	case t.committing, t.err != nil: // it looks again when it is done, or tries again
	case t.acked >= t.options.Events:
		t.start()
	case t.timer == nil:
		t.after(t.options.Interval)
	}
}

// commitSoon commits what there is now, unless a failure has to be waited for.
func (t *Tracker) commitSoon() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.timer != nil && t.err == nil {
		t.start()
	}
}

// after starts a commit in a while. t.mu is held.
func (t *Tracker) after(d time.Duration) {
	if t.closed {
		return
	}
	t.timer = time.AfterFunc(d, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.start()
	})
}

func (t *Tracker) stopTimer() {
	if t.timer != nil {
		t.timer.Stop()
		t.timer = nil
	}
}

// start lets a goroutine commit, if none does. t.mu is held.
func (t *Tracker) start() {
	t.stopTimer()
	if t.committing || t.closed {
		return
	}
	t.committing = true
	t.running.Go(func() {
		for again := true; again; {
			select {
			case t.turn <- struct{}{}:
				_ = t.commit(context.Background()) // shown by Status, and tried again
			case <-t.closing:
			}
			again = t.next()
		}
	})
}

// next says whether the goroutine is to go on at once, and else sees to what is
// to be done later.
func (t *Tracker) next() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed && t.err == nil && t.acked >= t.options.Events {
		return true
	}
	t.committing = false
	switch {
	case t.final.Load() || t.closed:
	case t.err != nil:
		t.after(time.Until(t.err.NextTry))
	case t.waiting:
		t.after(t.options.Interval)
	}
	return false
}

// attempt is one to commit.
type attempt struct {
	acked    int // that t.acked was
	deltas   []Delta
	sessions []*Session
	events   []int // of each
	info     CommitInfo
}

// commit makes one attempt, in the caller's turn, which it ends. If ctx ends first
// it goes on.
func (t *Tracker) commit(ctx context.Context) error {
	a := t.gather()
	if len(a.deltas) == 0 {
		defer t.release()
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.final.Load() && t.err != nil {
			return t.err
		}
		t.err = nil // what could not be committed is not wanted any more
		return nil
	}
	done := make(chan error, 1)
	go func() { done <- t.carryOut(ctx, a) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// gather takes what is to be committed.
func (t *Tracker) gather() attempt {
	var a attempt
	if t.final.Load() {
		return a
	}
	t.mu.Lock()
	var sessions []*Session
	for key, s := range t.sessions {
		if s.isDone() {
			delete(t.sessions, key)
		} else {
			sessions = append(sessions, s)
		}
	}
	a.acked = t.acked
	t.acked, t.waiting = 0, false
	t.mu.Unlock()
	slices.SortFunc(sessions, func(a, b *Session) int { return cmp.Compare(a.key, b.key) })
	for _, s := range sessions {
		if d, events, ok := s.take(); ok {
			a.deltas, a.sessions, a.events = append(a.deltas, d), append(a.sessions, s), append(a.events, events)
			a.info.Objects += len(d.Put) + len(d.Gone)
			a.info.Events += events
		}
	}
	return a
}

// carryOut asks the Store, and keeps what comes of it.
func (t *Tracker) carryOut(ctx context.Context, a attempt) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.options.Timeout)
	defer cancel()
	began := time.Now()
	late := make(chan struct{}) // a Store that heeds ctx gets the time to say so
	defer context.AfterFunc(ctx, func() { time.AfterFunc(grace, func() { close(late) }) })()
	kept := make(chan struct{}) // nobody commits before what came of this is known
	defer close(kept)
	a.info.Err = ask(late, func() { <-kept; t.release() }, func() error { return t.store.Commit(ctx, a.deltas) })
	hangs := a.info.Err == errHangs
	a.info.Duration = time.Since(began)
	for i, s := range a.sessions {
		s.committed(a.deltas[i], a.events[i], a.info.Err)
	}
	err := t.record(a)
	t.options.Committed(a.info)
	if !hangs {
		t.release()
	}
	return err
}

// record keeps what came of an attempt.
func (t *Tracker) record(a attempt) error {
	log := t.options.Logger
	if a.info.Err == nil {
		if t.succeeded() {
			log.Info("checkpoints are committed again")
		}
		return nil
	}
	failed := t.failed(a)
	if failed.NextTry.IsZero() {
		log.Error("checkpoints are committed no more", "error", failed.Err)
	} else {
		log.Warn("checkpoints can't be committed, trying again", "error", failed.Err, "attempts", failed.Attempts, "after", time.Until(failed.NextTry))
	}
	return failed
}

// succeeded says whether it had been failing.
func (t *Tracker) succeeded() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	failing := t.err != nil
	t.last, t.err = time.Now(), nil
	t.stopTimer() // it may be that of a retry
	if t.waiting && !t.committing {
		t.after(t.options.Interval)
	}
	return failing
}

func (t *Tracker) failed(a attempt) *CommitError {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.acked, t.waiting = t.acked+a.acked, true
	failed := &CommitError{Err: a.info.Err, Attempts: 1}
	if t.err != nil {
		failed.Attempts += t.err.Attempts
	}
	t.err = failed
	if fenced := (*FencedError)(nil); errors.As(failed.Err, &fenced) || errors.Is(failed.Err, os.ErrClosed) {
		t.final.Store(true)
		return failed
	}
	wait := min(min(t.options.Interval, maxBackoff)<<min(failed.Attempts, 10), maxBackoff)
	failed.NextTry = time.Now().Add(wait/2 + rand.N(wait/2+1))
	if !t.committing && t.timer == nil {
		t.after(time.Until(failed.NextTry))
	}
	return failed
}

// writeAhead commits what the next event of s waits for, with all else there is. Who
// comes while another one does so finds it done. It returns the cause if ctx ends.
func (t *Tracker) writeAhead(ctx context.Context, s *Session) error {
	if _, err := t.state(); err != nil {
		return context.Cause(ctx)
	}
	bounded, cancel := context.WithTimeoutCause(ctx, t.options.Timeout, errHangs)
	defer cancel()
	switch err := t.take(bounded); {
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		t.record(attempt{info: CommitInfo{Err: errHangs}})
		return nil
	}
	if _, err := t.state(); err != nil || !s.waits() {
		t.release()
		return context.Cause(ctx)
	}
	_ = t.commit(ctx) // a failure is shown by Status, and tried again
	return context.Cause(ctx)
}

// grace is how long a Store whose ctx has ended may take to say so.
const grace = time.Second

var errHangs = errors.New("the Store does not answer")

// ask calls the Store. If it has not answered when late is closed, ask returns
// errHangs, and hung is called when it has. A panic is an error.
func ask(late <-chan struct{}, hung func(), call func() error) error {
	answers := make(chan error, 1)
	go func() {
		err := errors.New("the Store has ended its goroutine")
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("the Store panicked: %v", p)
			}
			answers <- err
		}()
		err = call()
	}()
	select {
	case err := <-answers:
		return err
	case <-late:
		go func() {
			<-answers
			hung()
		}()
		return errHangs
	}
}
