package acks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/wait"
)

// due schedules a commit: after the interval, or at once if enough events have been acked.
func (e *engine) due(events int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.schedule.acked += events
	e.schedule.waiting = true
	switch {
	case e.schedule.committing, e.last.err != nil: // the goroutine, or the retry, commits this too
	case e.schedule.acked >= e.options.Events:
		e.start()
	case e.schedule.timer == nil:
		e.after(e.options.Interval)
	}
}

// commitSoon commits at once what is due, unless the last commit failed: then the retry commits it.
func (e *engine) commitSoon() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.schedule.timer != nil && e.last.err == nil {
		e.start()
	}
}

// after starts a commit after d. e.mu is held.
func (e *engine) after(d time.Duration) {
	if e.closing.closed {
		return
	}
	e.schedule.timer = time.AfterFunc(d, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.start()
	})
}

func (e *engine) stopTimer() {
	if e.schedule.timer != nil {
		e.schedule.timer.Stop()
		e.schedule.timer = nil
	}
}

// start starts the goroutine that commits, unless it runs. e.mu is held.
func (e *engine) start() {
	e.stopTimer()
	if e.schedule.committing || e.closing.closed {
		return
	}
	e.schedule.committing = true
	e.schedule.running.Go(func() {
		for again := true; again; {
			select {
			case e.turn <- struct{}{}:
				_ = e.commit(context.Background()) // Status shows a failure
			case <-e.closing.done:
			}
			again = e.next()
		}
	})
}

// next reports whether the goroutine should commit again at once. If not, it schedules what is due later.
func (e *engine) next() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closing.closed && e.last.err == nil && e.schedule.acked >= e.options.Events {
		return true
	}
	e.schedule.committing = false
	switch {
	case e.final.Load() || e.closing.closed:
	case e.last.err != nil:
		e.after(time.Until(e.last.nextTry))
	case e.schedule.waiting:
		e.after(e.options.Interval)
	}
	return false
}

// batch is the contents of one commit.
type batch struct {
	acked    int // schedule.acked before it
	deltas   []checkpoint.Delta
	sessions []*Session // of the deltas
}

// commit commits what there is. The caller has acquired the turn, and commit releases it. If ctx ends first, commit
// returns the cause, and the commit continues in the background.
func (e *engine) commit(ctx context.Context) error {
	b := e.gather()
	if len(b.deltas) == 0 {
		defer e.release()
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.final.Load() {
			return e.last.err
		}
		e.last = outcome{success: e.last.success} // what failed to commit is not needed any more
		return nil
	}
	done := make(chan error, 1)
	go func() { done <- e.write(ctx, b) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// gather takes the changes of all sessions.
func (e *engine) gather() batch {
	var b batch
	if e.final.Load() {
		return b
	}
	e.mu.Lock()
	var sessions []*Session
	for key, s := range e.sessions {
		if s.isDone() {
			delete(e.sessions, key)
		} else {
			sessions = append(sessions, s)
		}
	}
	b.acked = e.schedule.acked
	e.schedule.acked, e.schedule.waiting = 0, false
	e.mu.Unlock()
	slices.SortFunc(sessions, func(a, b *Session) int { return cmp.Compare(a.key, b.key) })
	for _, s := range sessions {
		if d, ok := s.takeDelta(); ok {
			b.deltas, b.sessions = append(b.deltas, d), append(b.sessions, s)
		}
	}
	return b
}

// write calls the Store, and records the outcome.
func (e *engine) write(ctx context.Context, b batch) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.options.CommitTimeout)
	defer cancel()
	late := make(chan struct{}) // closed some time after ctx ends, so that the Store can return ctx's error
	defer context.AfterFunc(ctx, func() { time.AfterFunc(gracePeriod, func() { close(late) }) })()
	recorded := make(chan struct{}) // the next commit waits until the outcome of this one is recorded
	defer close(recorded)
	err := call(late, func() { <-recorded; e.release() }, func() error { return e.store.Commit(ctx, b.deltas) })
	for i, s := range b.sessions {
		s.committed(b.deltas[i], err)
	}
	failed := e.record(b.acked, err)
	if err != errNoAnswer {
		e.release()
	}
	return failed
}

// record records and logs the outcome of a commit, which had that many acked events.
func (e *engine) record(acked int, err error) error {
	log := e.options.Logger
	if err == nil {
		if e.recordSuccess() {
			log.Info("checkpoints are committed again")
		}
		return nil
	}
	last := e.recordFailure(acked, err)
	if last.nextTry.IsZero() {
		log.Error("checkpoint commits stopped permanently", "error", err)
	} else {
		log.Warn("checkpoints can't be committed, trying again",
			"error", err, "attempts", last.attempts, "after", time.Until(last.nextTry))
	}
	return last.err
}

// recordSuccess records that a commit has succeeded, and reports whether the one before it failed.
func (e *engine) recordSuccess() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	failing := e.last.err != nil
	e.last = outcome{success: time.Now()}
	e.stopTimer() // it may be a retry's
	if e.schedule.waiting && !e.schedule.committing {
		e.after(e.options.Interval)
	}
	return failing
}

func (e *engine) recordFailure(acked int, err error) outcome {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.schedule.acked += acked
	e.schedule.waiting = true
	e.last.err, e.last.nextTry = commitError(err), time.Time{}
	e.last.attempts++
	if isFinal(err) {
		e.final.Store(true)
		return e.last
	}
	bound := wait.Doubled(e.last.attempts+1, min(max(e.options.Interval, minBackoff), maxBackoff), maxBackoff)
	e.last.nextTry = time.Now().Add(wait.Between(bound/2, bound))
	if !e.schedule.committing {
		e.stopTimer() // a commit may be due after the interval, which can be hours
		e.after(time.Until(e.last.nextTry))
	}
	return e.last
}

// writeAhead commits what the next event of s waits for, together with everything else there is. A caller that waits
// while another caller commits may find its own changes committed by then. If ctx ends, writeAhead returns the cause.
func (e *engine) writeAhead(ctx context.Context, s *Session) error {
	if e.result().err != nil {
		return context.Cause(ctx)
	}
	bounded, cancel := context.WithTimeoutCause(ctx, e.options.CommitTimeout, errNoAnswer)
	defer cancel()
	switch err := e.acquire(bounded); {
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		e.record(0, errNoAnswer)
		return nil
	}
	if e.result().err != nil || !s.isUrgent() {
		e.release()
		return context.Cause(ctx)
	}
	_ = e.commit(ctx) // Status shows a failure
	return context.Cause(ctx)
}

// gracePeriod is how long a Store may take to return after its ctx has ended.
const gracePeriod = time.Second

var errNoAnswer = errors.New("the Store does not answer")

// call calls the Store through f. If f has not returned when late is closed, call returns errNoAnswer, and a
// goroutine calls returned() as soon as f has returned. A panic becomes an error.
func call(late <-chan struct{}, returned func(), f func() error) error {
	answers := make(chan error, 1)
	go func() {
		err := errors.New("the Store called runtime.Goexit")
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("the Store panicked: %v", p)
			}
			answers <- err
		}()
		err = f()
	}()
	select {
	case err := <-answers:
		return err
	case <-late:
		go func() {
			<-answers
			returned()
		}()
		return errNoAnswer
	}
}
