package stream

import (
	"context"
	"errors"
	"iter"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/acks"
	"github.com/gvrwatch/gvrwatch/internal/client"
	"github.com/gvrwatch/gvrwatch/internal/friend"
	"github.com/gvrwatch/gvrwatch/internal/run"
	"github.com/gvrwatch/gvrwatch/internal/wait"
)

// Stream watches one resource, across the cluster or in some namespaces. Its
// methods may be called from any goroutine.
type Stream struct {
	dynamic  dynamic.Interface
	resource gvr.Resource
	options  Options
	fake     bool                                  // the client is client-go's dynamic fake
	matches  func(*unstructured.Unstructured) bool // the selectors, where the server does not heed them
	jitter   func(least, most time.Duration) time.Duration

	noStreamedLists atomic.Bool // the server has none

	mu   sync.Mutex
	next string // resourceVersion that the next range begins after, if any
	current
}

// current is the range that is running or ran last.
type current struct {
	cancel  context.CancelCauseFunc // nil if it has ended
	workers []*worker
	parked  []*worker           // of namespaces that it does not watch now, and knows of
	rest    checkpoint.Position // that it began at, but for those: of any other namespaces there may be
	session *acks.Session       // nil without a checkpoint
}

var errStopped = errors.New("stopped")

// New returns a Stream of r, as package discovery returns it (r.Verbs must hold
// list and watch). It asks the server nothing. It returns one of
// *NotWatchableError, *NotNamespacedError, *NamespaceError, *SelectorError and
// *OptionsError if r can't be watched like that. opts may be nil, and is copied.
//
// Make c with NewClient, or from a rest.Config without a Timeout: that would end
// every watch. The Stream would go on, at the cost of two requests each time; but
// a Timeout under two seconds looks like a server in trouble, and brings waits
// and GAPs.
func New(c dynamic.Interface, r gvr.Resource, opts *Options) (*Stream, error) {
	o, err := opts.check(r)
	if err != nil {
		return nil, err
	}
	s := &Stream{
		dynamic:  c,
		resource: r,
		options:  o,
		fake:     client.IsFake(c),
		jitter:   wait.Between,
	}
	if s.fake {
		s.matches = o.matcher()
	}
	return s, nil
}

// Resource returns what the Stream watches.
func (s *Stream) Resource() gvr.Resource { return s.resource }

// Events returns the sequence. Ranging over it does all the work, in the
// ranging goroutine: while the loop body runs, nothing is read (with a Checkpoint,
// not more than 200 events), and the server waits. (Where several namespaces are
// watched, each has a goroutine, which waits likewise.) Leaving the loop, by break,
// return or panic, ends the watch and waits for its goroutines. It may be ranged over again, from where Options.Start says,
// but only once at a time (ErrBusy).
//
// A yielded error is the last thing yielded, and final:
//
//   - the cause of ctx when ctx has ended,
//   - a *RequestError when before the first SYNCED the server refused the list or
//     the watch (400, 401, 403, 404, 405, 422) or answered with a list that can't
//     be used (no resourceVersion, objects without names), or with AtFirstClose
//     when it ended the watch with an error,
//   - a *GapError with FailOnGap: true,
//   - a *GaveUpError after GiveUpAfter,
//   - with a Checkpoint, a *checkpoint.MismatchError, an error if another Stream uses
//     the CheckpointKey, or one of the Store, a *checkpoint.CorruptError for example.
//
// Everything else is tried again, after waits of at most 30 s, or as the server
// asks, up to an hour. (A client that is not of NewClient waits by itself as a
// Retry-After header asks; after half a minute of that it is asked anew.) Stop, and the End
// that was asked for, end the sequence without an error.
func (s *Stream) Events(ctx context.Context) iter.Seq2[Event, error] {
	return s.eventsWith(ctx, run.Options{})
}

var errLeft = errors.New("the loop was left")

// run is one range. It returns what is to be yielded as its last.
func (s *Stream) run(ctx context.Context, o run.Options, yield func(Event, error) bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	emit := func(ev Event) error {
		if s.options.Transform != nil && ev.Object != nil {
			s.options.Transform(ev.Object)
		}
		if !yield(ev, nil) {
			return errLeft
		}
		return nil
	}
	from, ok := s.begin(cancel)
	if !ok {
		return ErrBusy
	}
	defer s.end()
	if o.Start != nil {
		from = Snapshot()
		if p := o.Start(); p != nil {
			from = From(*p)
		}
		if err := s.options.checkStart(from, o.Namespaces != nil); err != nil {
			return err
		}
	}
	session, from, err := s.checkpoint(ctx, from, o.Namespaces != nil)
	if err != nil {
		return err
	}
	defer session.End()
	from.position.ResourceVersions = maps.Clone(from.position.ResourceVersions)
	err = s.runWorkers(ctx, &activeRun{Stream: s, emit: emit, lists: o.Lists, session: session, from: from, namespaces: o.Namespaces})
	if err == errLeft || errors.Is(err, errStopped) {
		return nil
	}
	return err
}

// segment is one range, as its lanes share it.
type activeRun struct {
	*Stream
	emit       func(Event) error // an error ends the sequence
	lists      *run.Lists        // bounds the snapshots that are read at once; nil without a bound
	session    *acks.Session
	from       Start
	namespaces *run.Namespaces // that may change; nil for those of the options
}

func (s *Stream) runWorkers(ctx context.Context, r *activeRun) error {
	namespaces := s.options.Namespaces
	if r.namespaces != nil {
		namespaces = r.namespaces.Get()
	}
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	if len(namespaces) == 1 && (r.namespaces == nil || namespaces[0] == "") {
		w := r.newWorker(namespaces[0], r.emit)
		first := w.begin(r.from) // before a Position can be asked for
		s.publish([]*worker{w}, checkpoint.Position{ResourceVersions: r.from.position.ResourceVersions})
		return w.loop(ctx, first)
	}
	s.publish(nil, checkpoint.Position{})
	f := &fanIn{activeRun: r, members: map[string]*member{}, turns: make(chan turn), ends: make(chan *member)}
	f.enter()
	return f.loop(ctx, namespaces)
}

// Stop ends the range over Events that is running, if there is one, at once:
// the loop ends as soon as its body returns. It does not wait for that, so the
// body may call it. Before a range has begun there is nothing to stop: where one
// goroutine starts a range and another must be sure to end it, end its ctx.
func (s *Stream) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancel != nil {
		s.cancel(errStopped)
	}
}

// SetResourceVersion makes the next range over Events, and those after it, begin
// After a version, instead of where Options.Start says. An empty one undoes that.
// It returns an *OptionsError where Options would.
func (s *Stream) SetResourceVersion(rv string) error {
	if rv != "" {
		if s.options.Checkpoint != nil {
			return &OptionsError{"SetResourceVersion and Checkpoint", "",
				"a checkpoint says where the run continues: must not be combined"}
		}
		if err := s.options.checkStart(After(rv), false); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = rv
	return nil
}

func (s *Stream) begin(cancel context.CancelCauseFunc) (Start, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancel != nil {
		return Start{}, false
	}
	s.cancel = cancel
	if s.next != "" {
		return After(s.next), true
	}
	return s.options.Start, true
}

// publish lets Status and Position see the lanes of a range that begins.
func (s *Stream) publish(workers []*worker, rest checkpoint.Position) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.workers, s.parked, s.rest = workers, nil, rest
}

func (s *Stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancel = nil
}

// eventsWith is Events with options for one run, for package mux.
func (s *Stream) eventsWith(ctx context.Context, o run.Options) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if err := s.run(ctx, o, yield); err != nil {
			yield(Event{}, err)
		}
	}
}

func init() {
	// The method is promoted, so that this finds it in a type that embeds a *Stream, too.
	friend.StreamEvents = func(source any) func(context.Context, run.Options) iter.Seq2[Event, error] {
		if s, ok := source.(interface {
			eventsWith(context.Context, run.Options) iter.Seq2[Event, error]
		}); ok {
			return s.eventsWith
		}
		return nil
	}
}

// Key tells the Stream from others in a Mux: Options.CheckpointKey if there is
// one, else the resource and its group ("deployments.apps"), and if there are any
// the namespaces, "deployments.apps in a,b", and the selectors, "pods where
// app=web".
func (s *Stream) Key() string {
	if s.options.CheckpointKey != "" {
		return s.options.CheckpointKey
	}
	key := s.resource.GroupResource().String()
	if in := strings.Join(s.options.Namespaces, ","); in != "" {
		key += " in " + in
	}
	var where []string
	for _, selector := range []string{s.options.LabelSelector, s.options.FieldSelector} {
		if selector != "" {
			where = append(where, selector)
		}
	}
	if len(where) > 0 {
		key += " where " + strings.Join(where, " and ")
	}
	return key
}
