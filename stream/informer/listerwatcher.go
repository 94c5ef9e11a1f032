package informer

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/internal/friend"
	"github.com/gvrwatch/gvrwatch/internal/host"
	"github.com/gvrwatch/gvrwatch/internal/invalid"
	"github.com/gvrwatch/gvrwatch/stream"
)

// attachWithin is how long the run of a List waits for the Watch that continues it.
const attachWithin = 30 * time.Second

// ListerWatcher is a Stream as a cache.ListerWatcher and a cache.ListerWatcherWithContext, for reflectors, informers
// and package watchtools. Its methods may be called from any goroutine. It has at most one run at a time.
type ListerWatcher struct {
	stream  *stream.Stream
	options stream.Options
	states  *states // of an informer, else nil

	mu          sync.Mutex
	current     *session    // may have ended
	waiting     *session    // current, if it is a List's run that waits for its Watch
	timer       *time.Timer // ends that run; nil for an informer, which ends it itself
	unversioned bool        // what exists has been delivered without a version, at which a Watch could continue
}

var (
	_ cache.ListerWatcher            = (*ListerWatcher)(nil)
	_ cache.ListerWatcherWithContext = (*ListerWatcher)(nil)
)

// NewListerWatcher returns a ListerWatcher of s. If s was not made with [stream.New], List and Watch return an
// [*stream.OptionsError].
//
// The object of an inferred DELETED has little more than a name. [NewSharedIndexInformer] has the last state instead.
func NewListerWatcher(s *stream.Stream) *ListerWatcher {
	o, _, _ := s.Watched(friend.Access{}) // List and Watch return its error
	return &ListerWatcher{stream: s, options: o}
}

// List is ListWithContext without an end. It may wait for as long as the server fails.
func (l *ListerWatcher) List(o metav1.ListOptions) (runtime.Object, error) {
	return l.ListWithContext(context.Background(), o)
}

// Watch is WatchWithContext without an end other than Stop.
func (l *ListerWatcher) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return l.WatchWithContext(context.Background(), o)
}

// ListWithContext begins a run and returns, at SYNCED, everything that exists, as an UnstructuredList. The run waits
// for a Watch at the version of the list, which continues it, for up to 30 s, until ctx ends, or until another List or
// Watch. It ends an earlier Watch that has not been stopped: client-go's reflector leaves one so if its store refuses
// the initial events. Limit, Continue and the version in the ListOptions have no effect.
//
// Errors: see the package's comment. A selector that is neither empty nor that of the Stream is a BadRequest.
func (l *ListerWatcher) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	s, err := l.start(ctx, o, &session{list: newList(l.stream.Resource(), l.states)}, nil)
	if err != nil {
		return nil, err
	}
	if err := s.await(ctx); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.current == s {
		l.waiting, l.timer = s, nil
		if l.states == nil {
			l.timer = time.AfterFunc(attachWithin, s.watcher.Stop)
		}
	}
	l.unversioned = s.list.version == ""
	items := s.list.items
	s.list.items = nil // the run must not keep the objects in memory
	return items, nil
}

// WatchWithContext returns a watch, once its first event has arrived, or the error that ends the run before that. What
// it delivers depends on the ListOptions:
//
//   - At the version of the List before it, the rest of that run.
//   - With SendInitialEvents, a new run: what exists, as ADDED, then a BOOKMARK that marks the end.
//   - At version "" or "0", a new run without that mark. But "" after a List or initial events that had no version, as
//     with several namespaces, is an Expired error if the run has ended: what was deleted since would be missed.
//   - At another version, a new run with the changes since then. A gap in it ends with an ERROR 410 Expired, because
//     deletions would be missed. So does, at once, a Stream of several namespaces, whose versions are no common point.
//
// Each SYNCED with a version, and each bookmark of the server, is a BOOKMARK, whatever AllowWatchBookmarks says. The
// timeout in the ListOptions has no effect. Errors are those of ListWithContext, and [stream.ErrBusy] if an earlier
// Watch has not been stopped.
func (l *ListerWatcher) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	initial := o.SendInitialEvents != nil && *o.SendInitialEvents
	var from *checkpoint.Position
	if !initial {
		s, err := l.attach(ctx, o)
		if s != nil || err != nil {
			return s, err
		}
		if rv := o.ResourceVersion; rv != "" && rv != "0" {
			from = &checkpoint.Position{Partial: true, ResourceVersions: map[string]string{l.options.Namespaces[0]: rv}}
		}
	}
	s, err := l.start(ctx, o, &session{marker: initial}, from)
	if err != nil {
		return nil, err
	}
	if err := s.await(ctx); err != nil {
		return nil, err
	}
	return s.watcher, nil
}

// attach returns the run of the last List, if it waits at the version. It returns nil if the Watch needs another run.
func (l *ListerWatcher) attach(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	if err := l.check(ctx, o); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.waiting
	if s != nil && !s.stopped() && s.list.version == o.ResourceVersion && (l.timer == nil || l.timer.Stop()) {
		l.waiting = nil
		s.bind(ctx)
		return s.watcher, nil
	}
	// An informer lists again instead, so that its store is compared with everything that exists.
	isVersion := o.ResourceVersion != "" && o.ResourceVersion != "0"
	continues := o.ResourceVersion == "" && l.unversioned
	if l.states != nil || continues || isVersion && len(l.options.Namespaces) > 1 {
		return nil, apierrors.NewResourceExpired(fmt.Sprintf("cannot watch from resourceVersion %q: must list again",
			o.ResourceVersion))
	}
	return nil, nil
}

// check returns an error if the Stream cannot answer a request.
func (l *ListerWatcher) check(ctx context.Context, o metav1.ListOptions) error {
	if ctx == nil {
		return invalid.New("ctx", "", "must not be nil")
	}
	if _, _, err := l.stream.Watched(friend.Access{}); err != nil {
		return err
	}
	if given := o.LabelSelector; given != "" && given != l.options.LabelSelector {
		a, err := labels.Parse(given)
		if b, _ := labels.Parse(l.options.LabelSelector); err != nil || a.String() != b.String() {
			return otherSelector("label", given, l.options.LabelSelector)
		}
	}
	if given := o.FieldSelector; given != "" && given != l.options.FieldSelector {
		a, err := fields.ParseSelector(given)
		if b, _ := fields.ParseSelector(l.options.FieldSelector); err != nil || a.String() != b.String() {
			return otherSelector("field", given, l.options.FieldSelector)
		}
	}
	return nil
}

func otherSelector(kind, given, own string) error {
	return apierrors.NewBadRequest(fmt.Sprintf("invalid %s selector %q: must be empty or that of the Stream, %q",
		kind, given, own))
}

// start ends the run that waits or was stopped, and begins the run of s: from a position, or a snapshot if that is nil.
func (l *ListerWatcher) start(ctx context.Context, o metav1.ListOptions, s *session,
	from *checkpoint.Position) (*session, error) {
	if err := l.check(ctx, o); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if c := l.current; c != nil {
		if c != l.waiting && !c.stopped() && s.list == nil {
			return nil, stream.ErrBusy
		}
		l.endCurrent()
	}
	s.resource, s.namespaces, s.states = l.stream.Resource(), len(l.options.Namespaces), l.states
	s.caughtUp = from != nil
	l.unversioned = l.unversioned || s.marker && s.namespaces > 1
	s.begin(ctx, func(ctx context.Context) iter.Seq2[stream.Event, error] {
		return l.stream.Host(ctx, host.Run{
			Start: func() *checkpoint.Position { return from }, Bookmarks: true, FailOnLoss: true,
		})
	})
	s.bind(ctx)
	l.current = s
	return s, nil
}

// endCurrent ends the current run and waits for that.
func (l *ListerWatcher) endCurrent() {
	if l.current == nil {
		return
	}
	if l.timer != nil {
		l.timer.Stop()
	}
	l.current.watcher.Stop()
	<-l.current.watcher.done
	l.current, l.waiting = nil, nil
}

// end ends the run, if there is one.
func (l *ListerWatcher) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endCurrent()
}
