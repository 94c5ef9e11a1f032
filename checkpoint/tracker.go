package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	maxKey     = 200
	maxBackoff = 30 * time.Second
)

// Tracker keeps in a Store how far sequences have been acked. One serves any
// number of streams of one cluster. Its methods may be called from any goroutine.
type Tracker struct {
	store   Store
	options Options
	// positionsOnly: the Store keeps no objects.
	positionsOnly bool
	turn          chan struct{} // held by who uses the store; of capacity one
	final         atomic.Bool   // nothing will be committed any more

	mu         sync.Mutex
	sessions   map[string]*Session // the last one under each key
	timer      *time.Timer         // until the next commit; nil if none is due
	committing bool                // a goroutine is about it
	running    sync.WaitGroup      // that goroutine
	acked      int                 // events since the last commit
	waiting    bool                // something is to be committed
	last       time.Time           // commit that went well
	err        *CommitError        // of the last one, if it failed
	closed     bool
	closing    chan struct{} // closed when closed is set
	close      sync.Once
	outcome    error // of Close
}

// NewTracker returns one that keeps its checkpoints in a store, which nobody else
// may use meanwhile. It returns an *OptionsError if opts are none; they are
// copied.
func NewTracker(store Store, opts *Options) (*Tracker, error) {
	o, err := opts.check()
	if err != nil {
		return nil, err
	}
	_, positionsOnly := store.(interface{ PositionsOnly() })
	o.NoWriteAhead = o.NoWriteAhead || positionsOnly
	return &Tracker{store: store, options: o, positionsOnly: positionsOnly, turn: make(chan struct{}, 1), sessions: map[string]*Session{},
		closing: make(chan struct{})}, nil
}

// Begin begins a sequence under a key, where the last one was left. The Identity's
// Cluster is filled in. It returns a *KeyError, an *InUseError while another
// sequence under that key has not ended, a *MismatchError, a *CommitError where nothing
// is committed any more, or what the Store says.
func (t *Tracker) Begin(ctx context.Context, key string, id Identity) (*Session, error) {
	if err := CheckKey(key); err != nil {
		return nil, err
	}
	id.Cluster = t.options.Cluster
	id.Namespaces = slices.Clone(id.Namespaces)
	if err := t.take(ctx); err != nil {
		return nil, err
	}
	t.mu.Lock()
	before, err := t.sessions[key], error(nil)
	switch {
	case before.runs():
		err = &InUseError{key}
	case t.final.Load() && !t.closed:
		err = t.err // what is acked would be forgotten
	}
	t.mu.Unlock()
	if err != nil {
		t.release()
		return nil, err
	}
	var saved *Checkpoint // the Store's, until it has answered
	err = ask(ctx.Done(), t.release, func() (err error) {
		saved, err = t.store.Load(ctx, key)
		return err
	})
	if err == errHangs {
		t.record(attempt{info: CommitInfo{Err: errHangs}}) // nobody else is to wait for it
		return nil, context.Cause(ctx)
	}
	defer t.release()
	if err != nil {
		return nil, err
	}
	var mismatch *MismatchError
	if known, ok := identityOf(before, saved); ok {
		if mismatch = id.differs(known); mismatch == nil {
			id.Cluster.UID = cmp.Or(id.Cluster.UID, known.Cluster.UID) // even if it can't be read now
		}
	}
	if mismatch != nil && !t.options.Reset {
		mismatch.Key = key
		return nil, mismatch
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, errClosed
	}
	uncommitted, events, ok := before.close()
	ok = ok && id.differs(uncommitted.Identity) == nil // acked since they were compared
	var s *Session
	if mismatch != nil {
		s = newSession(t, key, id, nil)
		s.reset = true
	} else {
		if ok {
			saved = uncommitted.onto(saved)
		}
		s = newSession(t, key, id, saved)
		if ok {
			s.giveBack(uncommitted, events)
		}
	}
	t.sessions[key] = s
	return s, nil
}

var errClosed = fmt.Errorf("checkpoint: the Tracker: %w", os.ErrClosed)

// CheckKey returns a *KeyError if there can be no checkpoint under a key.
func CheckKey(key string) error {
	for _, c := range []byte(key) {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !letter && c != '-' && c != '_' && c != '.' {
			return &KeyError{key}
		}
	}
	if len(key) == 0 || len(key) > maxKey || key == "." || key == ".." {
		return &KeyError{key}
	}
	return nil
}

// take waits for a turn to use the Store.
func (t *Tracker) take(ctx context.Context) error {
	select {
	case t.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (t *Tracker) release() { <-t.turn }

// Flush commits what has been acked, now, and returns a *CommitError if that
// fails: it is tried again all the same. If ctx ends first, the commit goes on.
func (t *Tracker) Flush(ctx context.Context) error {
	if err := t.take(ctx); err != nil {
		return err
	}
	return t.commit(ctx)
}

// Close commits what has been acked, and nothing any more. It returns a
// *CommitError if that failed: the events come again in the next run. Streams may
// go on, for nobody. The Store is not closed.
func (t *Tracker) Close() error {
	t.close.Do(func() { t.outcome = t.commitLast() })
	return t.outcome
}

func (t *Tracker) commitLast() error {
	t.mu.Lock()
	t.closed = true
	close(t.closing)
	t.stopTimer()
	t.mu.Unlock()
	t.running.Wait()
	ctx, cancel := context.WithTimeoutCause(context.Background(), t.options.Timeout, errHangs)
	defer cancel()
	err := t.take(ctx)
	if err == nil {
		err = t.commit(context.Background())
	}
	t.final.Store(true)
	if err == nil {
		return nil
	}
	last := CommitError{Err: err, Attempts: 1}
	if failed := (*CommitError)(nil); errors.As(err, &failed) {
		last = *failed
	}
	last.NextTry = time.Time{} // there is no other try
	t.mu.Lock()
	defer t.mu.Unlock()
	t.err = &last
	return t.err
}

// state is what Status shows.
func (t *Tracker) state() (last time.Time, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil {
		err = t.err
	}
	return t.last, err
}

// Status is how far acks and commits are behind.
type Status struct {
	// Key is empty if there is no checkpoint.
	Key string
	// Unacked events have been told and not been acked, or, but within a snapshot,
	// wait for one before them that has not. The oldest was told so long ago.
	Unacked       int
	OldestUnacked time.Duration
	// Uncommitted says that acks, or what was passed, are waiting for a commit to be
	// over.
	Uncommitted bool
	// LastCommit is that of the Tracker, of any key. It is zero before the first.
	LastCommit time.Time
	// Err is a *CommitError while commits fail, else nil.
	Err error
}

// Status returns how far this sequence is behind.
func (s *Session) Status() Status {
	st := Status{Key: s.key}
	s.mu.Lock()
	st.Uncommitted = s.dirty || s.taken
	var oldest time.Time
	for _, p := range s.progress {
		st.Unacked += p.unacked
		if p.first != nil && (oldest.IsZero() || p.first.delivered.Before(oldest)) {
			oldest = p.first.delivered
		}
	}
	s.mu.Unlock()
	if !oldest.IsZero() {
		st.OldestUnacked = time.Since(oldest)
	}
	st.LastCommit, st.Err = s.tracker.state()
	return st
}
