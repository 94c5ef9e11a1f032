package condition

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gvrwatch/gvrwatch/internal/friend"
	"github.com/gvrwatch/gvrwatch/internal/host"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/stream"
)

// maxFailures is how many failures the error of a Wait names.
const maxFailures = 3

// lateError is the end of ctx while requests fail.
type lateError struct {
	err      error // the cause of ctx
	failures []string
}

func (e *lateError) Error() string {
	return fmt.Sprintf("%v (%s)", e.err, strings.Join(e.failures, "; "))
}

func (e *lateError) Unwrap() error { return e.err }

// later ends just after the ctx of a Wait, with its cause: between the two the failures of the source are read, because
// a sequence that has ended has only the cause of its end.
type later struct {
	context.Context
	ctx      context.Context
	cancel   context.CancelCauseFunc
	end      func()   // ends what newLater has started, and waits for it
	failures []string // when ctx ended; it is to be read after end
}

func newLater(ctx context.Context, source sequence) *later {
	l := &later{ctx: ctx}
	l.Context, l.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	if ctx.Err() != nil { // before the source makes a request
		l.cancel(context.Cause(ctx))
		l.end = func() {}
		return l
	}
	done := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(done)
		defer func() {
			_ = recover() // of the Status of a source that a program has made: the loop has to end all the same
			l.cancel(context.Cause(ctx))
		}()
		l.failures = failures(source)
	})
	l.end = sync.OnceFunc(func() {
		if !stop() {
			<-done
		}
		l.cancel(nil)
	})
	return l
}

// Deadline is that of ctx, for what does not begin if it cannot end in time.
func (l *later) Deadline() (time.Time, bool) { return l.ctx.Deadline() }

// explain adds the failures to the error of the sequence, if that is the end of ctx.
func (l *later) explain(err error) error {
	if l.end(); len(l.failures) == 0 || !errors.Is(err, context.Cause(l.ctx)) {
		return err
	}
	return &lateError{err, l.failures}
}

// failures returns why a source, or those of a Mux, cannot be watched now.
func failures(source sequence) (texts []string) {
	var all []mux.SourceStatus
	switch s := source.(type) {
	case interface{ Status() stream.Status }:
		status := s.Status()
		all = []mux.SourceStatus{{State: status.State, Stream: &status}}
	case interface { // a *mux.Mux or a *follow.Mux
		StatusOf(friend.Access, *host.Group) mux.Status
	}:
		all = s.StatusOf(friend.Access{}, nil).Sources
	}
	more := 0
	for _, one := range all {
		err := one.Err
		if err == nil && one.Stream != nil && fails(one.Stream.State) {
			err = one.Stream.Cause
		}
		switch {
		case err == nil || slices.Contains(texts, err.Error()):
		case len(texts) < maxFailures:
			texts = append(texts, err.Error())
		default:
			more++
		}
	}
	if more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return texts
}

// fails reports whether nothing arrives in a state.
func fails(s stream.State) bool {
	switch s {
	case stream.Backoff, stream.Stalled, stream.Gone, stream.Unauthorized, stream.Forbidden:
		return true
	}
	return false
}
