package acks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/friend"
)

const minBackoff, maxBackoff = 100 * time.Millisecond, 30 * time.Second

// KeyRule completes the sentence "a key must be ...".
const KeyRule = "1 to 200 letters, digits, '-', '_' or '.', and neither '.' nor '..'"

// engine commits the acks of one Tracker's sessions.
type engine struct {
	store         checkpoint.Store
	options       checkpoint.Options
	positionsOnly bool          // the Store keeps no objects
	turn          chan struct{} // held while the Store is in use; capacity one
	final         atomic.Bool   // nothing more will be committed

	mu       sync.Mutex
	sessions map[string]*Session // the last one under each key
	schedule schedule
	last     outcome
	closing  closing
}

// schedule is the state of the next commit.
type schedule struct {
	timer      *time.Timer    // until the next commit; nil if none is due
	committing bool           // a goroutine commits
	running    sync.WaitGroup // that goroutine
	acked      int            // events since the last commit
	waiting    bool           // there are changes to commit
}

// outcome is how the last commits ended.
type outcome struct {
	success  time.Time // of the last commit that succeeded
	err      error     // of the last commit, if it failed
	attempts int       // that failed in a row
	nextTry  time.Time // zero if there will be none
}

type closing struct {
	closed bool
	done   chan struct{} // closed when closed is set
	once   func() error  // commitLast, the first time
}

func newEngine(store checkpoint.Store, options checkpoint.Options) friend.Engine {
	_, positionsOnly := store.(interface{ PositionsOnly() })
	options.NoWriteAhead = options.NoWriteAhead || positionsOnly
	e := &engine{
		store: store, options: options, positionsOnly: positionsOnly, turn: make(chan struct{}, 1),
		sessions: map[string]*Session{}, closing: closing{done: make(chan struct{})},
	}
	e.closing.once = sync.OnceValue(e.commitLast)
	return e
}

var errClosed = fmt.Errorf("checkpoint.Tracker is closed, or not from NewTracker: %w", os.ErrClosed)

var keys = regexp.MustCompile(`^[-_.a-zA-Z0-9]{1,200}$`)

// IsKey reports whether key can be the key of a checkpoint (see KeyRule).
func IsKey(key string) bool { return keys.MatchString(key) && key != "." && key != ".." }

// Begin starts a Session under a key, where the last one under that key stopped. It fills in the Identity's Cluster.
//
// Deferred is for a sequence that does not begin with a snapshot. If nothing was acked under the key yet, nothing is
// committed until its SYNCED is about to be delivered: if the program ends before, the next run begins as this one
// does.
//
// It returns a *checkpoint.MismatchError, an error of the Store, or an error if the key is invalid, a Session under the
// key has not ended, or the Tracker is closed (os.ErrClosed) or commits nothing more.
func Begin(
	ctx context.Context, t *checkpoint.Tracker, key string, id checkpoint.Identity, deferred bool,
) (*Session, error) {
	if !IsKey(key) {
		return nil, fmt.Errorf("invalid checkpoint key %q: must be %s", key, KeyRule)
	}
	e, ok := t.Engine(friend.Access{}, newEngine).(*engine)
	if !ok {
		return nil, errClosed
	}
	id.Cluster = e.options.Cluster
	id.Namespaces = slices.Clone(id.Namespaces)
	if err := e.acquire(ctx); err != nil {
		return nil, err
	}
	before, err := e.previous(key)
	if err != nil {
		e.release()
		return nil, err
	}
	var saved *checkpoint.Checkpoint // belongs to the Store until it has answered
	err = call(ctx.Done(), e.release, func() (err error) {
		saved, err = e.store.Load(ctx, key)
		return err
	})
	if err == errNoAnswer {
		e.record(0, errNoAnswer) // so that no session waits for the Store
		return nil, context.Cause(ctx)
	}
	defer e.release()
	if err != nil {
		return nil, err
	}
	var mismatch *checkpoint.MismatchError
	if known, ok := savedIdentity(before, saved); ok {
		if mismatch = differs(id, known); mismatch == nil {
			id.Cluster.UID = cmp.Or(id.Cluster.UID, known.Cluster.UID) // keep the UID if it can't be read any more
		}
	}
	if mismatch != nil && !e.options.Reset {
		mismatch.Key = key
		return nil, mismatch
	}
	s := newSession(e, key, id)
	s.next.deferred = deferred
	if err := e.replace(before, s, saved, mismatch != nil); err != nil {
		return nil, err
	}
	return s, nil
}

// previous returns the last session under a key, nil if there is none, and an error if another can't begin.
func (e *engine) previous(key string) (*Session, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	before := e.sessions[key]
	switch {
	case before.runs():
		return nil, fmt.Errorf("checkpoint %q is in use by another Stream: each needs its own Key", key)
	case e.final.Load() && !e.closing.closed:
		return nil, e.last.err // acks would be lost
	}
	return before, nil
}

// replace starts s after the session before it: from what is saved and what that session has not committed, or with
// reset from the beginning.
func (e *engine) replace(before, s *Session, saved *checkpoint.Checkpoint, reset bool) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closing.closed {
		return errClosed
	}
	uncommitted, ok := before.close()
	ok = ok && differs(s.identity, uncommitted.Identity) == nil // there may have been acks since Begin compared them
	switch {
	case reset:
		s.next.reset = true
	case ok:
		s.resume(merge(saved, uncommitted).Position)
		s.restore(uncommitted)
	case saved != nil:
		s.resume(saved.Position)
	}
	e.sessions[s.key] = s
	return nil
}

// merge returns c with a delta added. c may be nil.
func merge(c *checkpoint.Checkpoint, d checkpoint.Delta) *checkpoint.Checkpoint {
	var m checkpoint.Memory
	ctx := context.Background()
	if c != nil {
		_ = m.Commit(ctx, []checkpoint.Delta{{Key: d.Key, Put: c.Position.Objects}})
	}
	_ = m.Commit(ctx, []checkpoint.Delta{d})
	merged, _ := m.Load(ctx, d.Key)
	return merged
}

// acquire waits for a turn to use the Store. It returns the cause if ctx ends first.
func (e *engine) acquire(ctx context.Context) error {
	select {
	case e.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (e *engine) release() { <-e.turn }

// Flush is checkpoint.Tracker's.
func (e *engine) Flush(ctx context.Context) error {
	if err := e.acquire(ctx); err != nil {
		return err
	}
	return e.commit(ctx)
}

// Close is checkpoint.Tracker's.
func (e *engine) Close() error { return e.closing.once() }

func (e *engine) commitLast() error {
	e.mu.Lock()
	e.closing.closed = true
	close(e.closing.done)
	e.stopTimer()
	e.mu.Unlock()
	e.schedule.running.Wait()
	ctx, cancel := context.WithTimeoutCause(context.Background(), e.options.CommitTimeout, errNoAnswer)
	defer cancel()
	err := e.acquire(ctx)
	if err != nil {
		err = commitError(err)
	} else {
		err = e.commit(context.Background())
	}
	e.final.Store(true)
	if err == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last.err, e.last.attempts, e.last.nextTry = err, max(e.last.attempts, 1), time.Time{}
	return err
}

func commitError(err error) error { return fmt.Errorf("can't commit checkpoints: %w", err) }

// isFinal reports whether no later commit can succeed.
func isFinal(err error) bool {
	_, fenced := errors.AsType[*checkpoint.FencedError](err)
	return fenced || errors.Is(err, os.ErrClosed)
}

// result returns the outcome of the last commits.
func (e *engine) result() outcome {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.last
}
