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
	"github.com/gvrwatch/gvrwatch/internal/nils"
	"github.com/gvrwatch/gvrwatch/internal/pace"
	"github.com/gvrwatch/gvrwatch/internal/run"
	"github.com/gvrwatch/gvrwatch/internal/wait"
)

// Stream watches one resource, across the cluster or in some namespaces. Its methods may be called from any goroutine.
type Stream struct {
	dynamic dynamic.Interface
	target
	options Options
	fake    bool                                  // the client is client-go's dynamic fake
	matches func(*unstructured.Unstructured) bool // applies the selectors, which the fake ignores; else nil
	jitter  func(least, most time.Duration) time.Duration

	noInitialEvents atomic.Bool // the server does not support them

	mu   sync.Mutex
	next string // set by SetResourceVersion
	current
}

// target is what a Stream watches.
type target struct {
	resource gvr.Resource
	typeMeta typeMeta // of resource
}

// current is the run that is active, or else the last one.
type current struct {
	cancel  context.CancelCauseFunc // nil if the run has ended
	workers []*worker
	parked  []*worker           // of namespaces that are known but not watched now
	rest    checkpoint.Position // where the run began, for namespaces without a worker
	session *acks.Session       // nil without a checkpoint
}

var errStopped = errors.New("stopped")

// New returns a Stream of r, a resource that package discovery returned, or one that has at least a version and a
// plural. It makes no request. opts is copied and may be nil.
//
// Create c with [NewClient], or from a rest.Config without a Timeout. A Timeout would end every watch, and the Stream
// would need two requests each time to resume. A Timeout of less than two seconds looks like a failing server, and
// causes waits and GAPs.
//
// New returns a [*NotWatchableError] if r.Verbs lacks list or watch, and an [*OptionsError] if an argument or an option
// is invalid.
func New(c dynamic.Interface, r gvr.Resource, opts *Options) (*Stream, error) {
	if nils.Is(c) {
		return nil, &OptionsError{"client", "", "must not be nil"}
	}
	o, err := opts.check(r)
	if err != nil {
		return nil, err
	}
	s := &Stream{
		dynamic: c,
		target:  target{r, typeMetaOf(r)},
		options: o,
		fake:    client.IsFake(c),
		jitter:  wait.Between,
	}
	if s.fake {
		s.matches = o.matcher()
	}
	return s, nil
}

// Resource returns the watched resource.
func (s *Stream) Resource() gvr.Resource { return s.resource }

// Events returns the sequence. Each loop over it is one run, which begins at [Options.Start]. A Stream has one run at a
// time: another loop yields [ErrBusy].
//
// All work but reading ahead runs in the loop's goroutine. While more arrives than the loop takes, a client of
// [NewClient] reads the watch ahead, up to 256 KiB or one event; with another client and a Checkpoint the Stream reads
// up to 200 events ahead. After that the server waits. If several namespaces are watched, each has a goroutine, which
// waits in the same way. Leaving the loop, by break, return or panic, ends the watch and waits for all goroutines.
//
// An error is final and the last value that a run yields:
//
//   - The cause of ctx, if ctx has ended.
//   - A [*RequestError], if before the first SYNCED the server refuses the list or the watch (400, 401, 403, 404, 405,
//     422) or returns an unusable list (not a list, no resourceVersion, or objects without names). With
//     [Options.UntilClosed], also if the server ends the watch with an error.
//   - A [*GapError], with [Options.FailOnGap].
//   - A [*GaveUpError], after [Options.GiveUpAfter].
//   - With [Options.Checkpoint]: a [*checkpoint.MismatchError], an error if another Stream uses the CheckpointKey, or
//     an error of the Store such as a [*checkpoint.CorruptError].
//
// The Stream retries all other failures, after a wait of 0.1 to 0.2 s at first and at most 30 s, or an hour if the
// server asks for it with Retry-After. (Clients other than those of [NewClient] wait for Retry-After themselves, until
// the Stream's timeout: 30 s for a watch, 2 minutes for a list page.)
//
// [Stream.Stop], [Options.UntilSynced] and [Options.UntilClosed] end a run without an error, except that with
// UntilClosed the run yields the error, if any, with which the server ended the watch.
func (s *Stream) Events(ctx context.Context) iter.Seq2[Event, error] {
	return s.eventsWith(ctx, run.Options{})
}

var errLeft = errors.New("the loop was left")

// run runs once and returns the error to yield last, or nil.
func (s *Stream) run(ctx context.Context, o run.Options, yield func(Event, error) bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	emit := func(ev Event) error {
		if s.options.Transform != nil && ev.Object != nil {
			s.options.Transform(ev.Object)
			if o.Memory != nil {
				*o.Memory = 0
			}
		}
		if !yield(ev, nil) {
			return errLeft
		}
		return nil
	}
	if s.dynamic == nil {
		return &OptionsError{"Stream", "", "must be made with New"}
	}
	from, ok := s.begin(cancel)
	if !ok {
		return ErrBusy
	}
	defer s.end()
	if o.Again && (from.kind == startNow || from.kind == startAfter && o.Start == nil) {
		from = Snapshot()
	}
	first := from
	if o.Start != nil {
		from = Snapshot()
		if p := o.Start(); p != nil {
			from = s.resume(*p)
		}
		if err := s.options.checkStart(from, o.Namespaces != nil); err != nil {
			return err
		}
	}
	session, from, err := s.checkpoint(ctx, from, first, o.Namespaces != nil)
	if err != nil {
		return err
	}
	defer session.End()
	from.position.ResourceVersions = maps.Clone(from.position.ResourceVersions)
	shared, release := client.PaceOf(s.dynamic)
	defer release()
	err = s.runWorkers(ctx, &activeRun{
		Stream: s, emit: emit, lists: o.Lists, pace: shared, session: session, from: from, namespaces: o.Namespaces,
		memory: o.Memory, everyBookmark: o.Bookmarks,
	})
	if err == errLeft || errors.Is(err, errStopped) {
		return nil
	}
	return err
}

// resume returns where a run begins that continues an earlier one. A run that ends at SYNCED reports the current state,
// which needs a snapshot. So does client-go's fake, which keeps no history.
func (s *Stream) resume(p checkpoint.Position) Start {
	from := From(p)
	from.snapshot = s.options.UntilSynced || s.fake
	return from
}

// activeRun is what the workers of a run share.
type activeRun struct {
	*Stream
	emit       func(Event) error // an error ends the run
	lists      *run.Lists        // bounds the number of snapshots read at once; nil means no bound
	pace       *pace.Client      // bounds the requests of all Streams of the client
	session    *acks.Session
	from       Start
	namespaces *run.Namespaces // they may change; nil means Options.Namespaces
	memory     *int64          // of run.Options; may be nil
	// everyBookmark delivers them whatever Options.Bookmarks says, also those of a version that was reached before.
	everyBookmark bool
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
		first := w.begin(r.from) // before publish, which lets Position see w
		s.publish([]*worker{w}, checkpoint.Position{ResourceVersions: r.from.position.ResourceVersions})
		return w.loop(ctx, first)
	}
	s.publish(nil, checkpoint.Position{})
	f := &fanIn{activeRun: r, members: map[string]*member{}, turns: make(chan turn), ends: make(chan *member)}
	f.enter()
	return f.loop(ctx, namespaces)
}

// Stop ends the current run, if there is one: the loop ends as soon as its body returns. Stop does not wait for that,
// so the body may call it. Stop has no effect on a run that has not begun: if another goroutine starts the run, cancel
// its context instead.
func (s *Stream) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancel != nil {
		s.cancel(errStopped)
	}
}

// SetResourceVersion makes later runs begin [After] rv instead of at [Options.Start]. An empty rv restores
// Options.Start. It returns an [*OptionsError] if the Options do not allow that start, or the Stream has a Checkpoint.
func (s *Stream) SetResourceVersion(rv string) error {
	if rv != "" {
		if s.options.Checkpoint != nil {
			return &OptionsError{"SetResourceVersion and Checkpoint", "",
				"the checkpoint decides where the run resumes: must not be combined"}
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

// publish lets Status and Position see the workers of a new run.
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
	// Asserting an interface instead of *Stream also finds the promoted method of a type that embeds a *Stream.
	friend.StreamEvents = func(source any) func(context.Context, run.Options) iter.Seq2[Event, error] {
		if s, ok := source.(interface {
			eventsWith(context.Context, run.Options) iter.Seq2[Event, error]
		}); ok {
			return s.eventsWith
		}
		return nil
	}
	friend.StreamOptions = func(s *Stream) Options { return s.options }
}

// Key returns the name of the Stream in a Mux. With [Options.Checkpoint] that is the key of the checkpoint. Otherwise
// it is the resource and its group ("deployments.apps"), then the namespaces ("deployments.apps in a,b") and the
// selectors ("pods where app=web"), if there are any.
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
