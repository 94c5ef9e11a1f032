package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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
	turn    chan struct{} // held by who uses the store; of capacity one
	final   atomic.Bool   // nothing will be committed any more

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
}

// NewTracker returns one that keeps its checkpoints in a store, which nobody else
// may use meanwhile. It returns an *OptionsError if opts are none; they are
// copied.
func NewTracker(store Store, opts *Options) (*Tracker, error) {
	o, err := opts.check()
	if err != nil {
		return nil, err
	}
	return &Tracker{store: store, options: o, turn: make(chan struct{}, 1), sessions: map[string]*Session{}}, nil
}

// Begin begins a sequence under a key, where the last one was left. The Identity's
// Cluster is filled in. It returns a *KeyError, an *InUseError while another
// sequence under that key has not ended, a *MismatchError, or what the store says.
func (t *Tracker) Begin(ctx context.Context, key string, id Identity) (*Session, error) {
	if err := CheckKey(key); err != nil {
		return nil, err
	}
	id.Cluster = t.options.Cluster
	id.Namespaces = slices.Clone(id.Namespaces)
	if err := t.take(ctx); err != nil {
		return nil, err
	}
	defer t.release()
	t.mu.Lock()
	before := t.sessions[key]
	t.mu.Unlock()
	if before.runs() {
		return nil, &InUseError{key}
	}
	saved, err := t.store.Load(ctx, key)
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

// kick commits what there is now, unless a failure has to be waited for.
func (t *Tracker) kick() {
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

// start lets a goroutine commit, if none does. t.mu is held.
func (t *Tracker) start() {
	if t.timer != nil {
		t.timer.Stop()
		t.timer = nil
	}
	if t.committing || t.closed {
		return
	}
	t.committing = true
	t.running.Go(func() {
		for again := true; again; {
			if t.take(context.Background()) == nil {
				_ = t.commit(context.Background()) // shown by Status, and tried again
				t.release()
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

// take waits for a turn to use the store.
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
// fails. It is tried again all the same.
func (t *Tracker) Flush(ctx context.Context) error {
	if err := t.take(ctx); err != nil {
		return err
	}
	defer t.release()
	return t.commit(ctx)
}

// Close commits what has been acked, and nothing any more. It returns a
// *CommitError if that failed: the events come again in the next run. Streams may
// go on, for nobody. The Store is not closed.
func (t *Tracker) Close() error {
	t.mu.Lock()
	was := t.closed
	t.closed = true
	if t.timer != nil {
		t.timer.Stop()
		t.timer = nil
	}
	t.mu.Unlock()
	t.running.Wait()
	if was {
		return nil
	}
	err := t.Flush(context.Background())
	t.final.Store(true)
	if failed := (*CommitError)(nil); errors.As(err, &failed) {
		last := *failed
		last.NextTry = time.Time{}
		t.mu.Lock()
		t.err, err = &last, &last
		t.mu.Unlock()
	}
	return err
}

// commit makes one attempt. It is the caller's turn.
func (t *Tracker) commit(ctx context.Context) error {
	if t.final.Load() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.err != nil {
			return t.err
		}
		return nil
	}
	t.mu.Lock()
	sessions := make([]*Session, 0, len(t.sessions))
	for key, s := range t.sessions {
		if s.isDone() {
			delete(t.sessions, key)
		} else {
			sessions = append(sessions, s)
		}
	}
	var info CommitInfo
	acked := t.acked
	t.acked, t.waiting = 0, false
	t.mu.Unlock()
	slices.SortFunc(sessions, func(a, b *Session) int { return cmp.Compare(a.key, b.key) })
	var deltas []Delta
	var taken []*Session
	var counts []int
	for _, s := range sessions {
		if d, events, ok := s.take(); ok {
			deltas, taken, counts = append(deltas, d), append(taken, s), append(counts, events)
			info.Objects += len(d.Put) + len(d.Gone)
			info.Events += events
		}
	}
	if len(deltas) == 0 {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.err = nil // what could not be committed is not wanted any more
		return nil
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, t.options.Timeout)
	info.Err = t.store.Commit(ctx, deltas)
	cancel()
	info.Duration = time.Since(began)
	for i, s := range taken {
		if info.Err == nil {
			s.keep()
		} else {
			s.giveBack(deltas[i], counts[i])
		}
	}
	err := t.record(info, acked)
	t.options.Committed(info)
	return err
}

// record keeps what came of an attempt.
func (t *Tracker) record(info CommitInfo, acked int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if info.Err == nil {
		if t.err != nil {
			t.options.Logger.Info("checkpoints are committed again")
		}
		t.last, t.err = time.Now(), nil
		if t.timer != nil { // it may be that of a retry
			t.timer.Stop()
			t.timer = nil
		}
		if t.waiting && !t.committing {
			t.after(t.options.Interval)
		}
		return nil
	}
	t.acked, t.waiting = t.acked+acked, true
	failed := &CommitError{Err: info.Err, Attempts: 1}
	if t.err != nil {
		failed.Attempts += t.err.Attempts
	}
	if fenced := (*FencedError)(nil); errors.As(info.Err, &fenced) || errors.Is(info.Err, os.ErrClosed) {
		t.final.Store(true)
		t.options.Logger.Error("checkpoints are committed no more", "error", info.Err)
	} else {
		wait := min(min(t.options.Interval, maxBackoff)<<min(failed.Attempts, 10), maxBackoff)
		failed.NextTry = time.Now().Add(wait/2 + rand.N(wait/2+1))
		t.options.Logger.Warn("checkpoints can't be committed, trying again", "error", info.Err, "attempts", failed.Attempts)
	}
	t.err = failed
	if !t.committing && t.timer == nil && !t.final.Load() {
		t.after(time.Until(failed.NextTry))
	}
	return failed
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
