package checkpoint

import (
	"context"
	"reflect"
	"sync"
	"time"

	"github.com/gvrwatch/gvrwatch/internal/friend"
	"github.com/gvrwatch/gvrwatch/internal/invalid"
)

// Tracker keeps in a Store how far Streams have been acked. One Tracker serves any number of Streams of one cluster
// (stream.Run.Checkpoint). Its methods may be called from any goroutine.
type Tracker struct {
	store   Store
	options Options

	mu     sync.Mutex
	engine friend.Engine // nil until a Stream begins
	closed bool
}

// NewTracker returns a Tracker that keeps its checkpoints in store. Nothing else may use the store until the Tracker is
// closed. NewTracker copies opts, and returns a *stream.OptionsError if store is nil or an option is invalid.
func NewTracker(store Store, opts *Options) (*Tracker, error) {
	if v := reflect.ValueOf(store); store == nil || v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, invalid.New("Store", "", "must not be nil")
	}
	o, err := opts.check()
	if err != nil {
		return nil, err
	}
	return &Tracker{store: store, options: o}, nil
}

// Engine returns the engine of t, for packages of this module. The first call creates it with start. After Close, and
// for a zero Tracker, it returns nil if there is none.
func (t *Tracker) Engine(_ friend.Access, start func(Store, Options) friend.Engine) friend.Engine {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.engine == nil && !t.closed && t.store != nil {
		t.engine = start(t.store, t.options)
	}
	return t.engine
}

// Flush commits everything that has been acked. If the commit fails, Flush returns an error that wraps the Store's, and
// the Tracker tries again later, unless the error is final (see [Store]). If ctx ends first, Flush returns the cause,
// and the commit goes on.
func (t *Tracker) Flush(ctx context.Context) error {
	t.mu.Lock()
	engine := t.engine
	t.mu.Unlock()
	if engine == nil {
		return nil // nothing can have been acked
	}
	return engine.Flush(ctx)
}

// Close commits everything that has been acked. If that fails, Close returns an error that wraps the Store's, and the
// next run delivers the events again. After Close the Tracker commits nothing, and Streams that still run go on without
// a checkpoint, unless Options.WaitForCommits ends them. The first ack after Close is logged as a warning, with the
// number of events that come again: usually a defer is in the wrong order. Close does not close the Store.
func (t *Tracker) Close() error {
	t.mu.Lock()
	t.closed = true
	engine := t.engine
	t.mu.Unlock()
	if engine == nil {
		return nil
	}
	return engine.Close()
}

// Status is how far the acks and commits of a Stream are behind its events (stream.Status.Checkpoint).
type Status struct {
	// Key is empty if the Stream has no checkpoint.
	Key string
	// Unacked is the number of delivered events that are not acked, and of acked ones that wait for an earlier event.
	// Within a snapshot an event waits only for earlier events of the same object.
	Unacked int
	// OldestUnacked is how long ago the first of these was delivered.
	OldestUnacked time.Duration
	// Uncommitted means that a commit is due or under way.
	Uncommitted bool

	// LastCommit is when the Tracker last committed, for any key. It is zero before the first commit.
	LastCommit time.Time
	// Err is nil unless the Tracker's last commit failed. It wraps the Store's error, and that of MarkUnclean if the
	// Store could not be marked: then a kill may lose deletions silently (see [Store]).
	Err error
	// Attempts is the number of commits that have failed in a row.
	Attempts int
	// NextTry is when the Tracker tries again after a failure. It is zero if it does not: a *FencedError or
	// os.ErrClosed is final.
	NextTry time.Time
}
