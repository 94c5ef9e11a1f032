package informer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/friend"
	"github.com/gvrwatch/gvrwatch/internal/host"
	"github.com/gvrwatch/gvrwatch/internal/invalid"
	"github.com/gvrwatch/gvrwatch/stream"
)

// Watcher is a run of a Stream as a watch.Interface, with the Done method of client-go's RetryWatcher. Its methods may
// be called from any goroutine.
type Watcher struct {
	results chan watch.Event
	done    chan struct{}
	cancel  context.CancelFunc
}

// Watch begins a run of s, a [*stream.Stream] or what its With method returns, and delivers its ADDED, MODIFIED and
// DELETED events, with decoded objects. The differences after a GAP are delivered like other events; SYNCED and GAP are
// not delivered, and BOOKMARK only with Run.Bookmarks. The object of an inferred DELETED has little more than a name
// (see stream.Event). The Stream waits until the receiver has taken an event.
//
// An error of the run is an ERROR event, the last one. So is a gap after which deletions could not be reported (a GAP
// with HistoryLost), and, with Run.FailOnGap, every gap: both have a Status with code 410 and reason Expired. If ctx or
// s is nil, or s has a Checkpoint, which nobody would ack, the ERROR is the only event. The end of ctx or of the run,
// and [Watcher.Stop], close the channel without an ERROR.
//
// The caller must call Stop, end ctx, or receive until the channel is closed.
func Watch(ctx context.Context, s sequence) *Watcher {
	given := ctx
	if ctx == nil {
		ctx = context.Background()
	}
	w, ctx := newWatcher(ctx, 0)
	go w.run(ctx, func() error {
		if given == nil {
			return invalid.New("ctx", "", "must not be nil")
		}
		if s == nil {
			s = (*stream.Stream)(nil)
		}
		switch _, run, err := s.Watched(friend.Access{}); {
		case err != nil:
			return err
		case run.Checkpoint != nil:
			return errCheckpoint
		}
		err := w.deliver(ctx, s.Resource(), s.Host(ctx, host.Run{FailOnLoss: true}))
		if ctx.Err() != nil {
			s.Hold(friend.Access{}, host.Nobody) // the receiver may not have taken the last event
		}
		return err
	})
	return w
}

// sequence is a *stream.Stream or a *stream.Sequence.
type sequence interface {
	Resource() gvr.Resource
	Watched(friend.Access) (stream.Options, stream.Run, error)
	Host(context.Context, host.Run) iter.Seq2[stream.Event, error]
	Hold(friend.Access, *host.Holder)
}

var errCheckpoint = invalid.New("Checkpoint", "", "a watch.Interface has no acks: must be nil")

// newWatcher returns a Watcher that holds up to buffer events for its receiver, and the context of its run.
func newWatcher(ctx context.Context, buffer int) (*Watcher, context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	return &Watcher{make(chan watch.Event, buffer), make(chan struct{}), cancel}, ctx
}

// ResultChan returns the channel of events. It is closed when the run has ended.
func (w *Watcher) ResultChan() <-chan watch.Event { return w.results }

// Stop ends the run, and does not wait for that. It may be called more than once. On the zero Watcher it does nothing.
func (w *Watcher) Stop() {
	if w.cancel != nil {
		w.cancel()
	}
}

// Done returns a channel that is closed when the run has ended and ResultChan is closed.
func (w *Watcher) Done() <-chan struct{} { return w.done }

// run calls produce, sends its error, and closes the Watcher. A panic of produce, as of Options.Select, ends the
// program, unless utilruntime.ReallyCrash is false.
func (w *Watcher) run(ctx context.Context, produce func() error) {
	defer close(w.done)
	defer close(w.results)
	defer w.cancel()
	defer utilruntime.HandleCrashWithContext(ctx)
	if err := produce(); err != nil && ctx.Err() == nil {
		_ = w.send(ctx, watch.Error, statusOf(err)) // the receiver may have stopped
	}
}

// send waits until the receiver takes an event or ctx ends.
func (w *Watcher) send(ctx context.Context, kind watch.EventType, o runtime.Object) error {
	select {
	case w.results <- watch.Event{Type: kind, Object: o}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// deliver sends the events of seq that a watch has.
func (w *Watcher) deliver(ctx context.Context, r gvr.Resource, seq iter.Seq2[stream.Event, error]) error {
	for ev, err := range seq {
		switch {
		case err != nil:
			return err
		case ev.HasObject():
			var o *unstructured.Unstructured
			if o, err = decoded(ev); err == nil {
				err = w.send(ctx, watch.EventType(ev.Type), o)
			}
		case ev.Type == stream.Bookmark:
			err = w.send(ctx, watch.Bookmark, bookmark(r, ev.ResourceVersion))
		case ev.Type == stream.Gap:
			err = lostHistory(ev)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// lostHistory returns an error if ev is a GAP after which deletions may not be reported.
func lostHistory(ev stream.Event) error {
	if ev.Gap == nil || !ev.Gap.HistoryLost {
		return nil
	}
	return &stream.GapError{Reason: ev.Gap.Reason, From: ev.Gap.From}
}

// decoded returns the object of an event. The error is that of client-go for a frame that cannot be decoded.
func decoded(ev stream.Event) (*unstructured.Unstructured, error) {
	o, err := ev.Decode()
	if err == nil {
		return o, nil
	}
	reporter := apierrors.NewClientErrorReporter(http.StatusInternalServerError, "watch", "ClientWatchDecoding")
	status := reporter.AsObject(fmt.Errorf("unable to decode an event from the watch stream: %w", err))
	return nil, apierrors.FromObject(status)
}

// bookmark returns the object of a BOOKMARK.
func bookmark(r gvr.Resource, rv string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetGroupVersionKind(r.GroupVersionKind())
	o.SetResourceVersion(rv)
	return o
}

// statusOf returns the Status of an ERROR event.
func statusOf(err error) *metav1.Status {
	if errors.As(err, new(*stream.GapError)) {
		return &apierrors.NewResourceExpired(err.Error()).ErrStatus
	}
	var answer apierrors.APIStatus
	if errors.As(err, &answer) {
		status := answer.Status()
		return &status
	}
	return &apierrors.NewInternalError(err).ErrStatus
}
