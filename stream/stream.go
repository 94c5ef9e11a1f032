package stream

import (
	"context"
	"errors"
	"iter"
	"slices"
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
	"github.com/gvrwatch/gvrwatch/internal/host"
	"github.com/gvrwatch/gvrwatch/internal/invalid"
	"github.com/gvrwatch/gvrwatch/internal/pace"
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

	mu sync.Mutex
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
	holder  *host.Holder        // of events that the last run has delivered; nil if its loop has received all
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
	if c == nil {
		return nil, invalid.New("client", "", "must not be nil")
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
func (s *Stream) Resource() gvr.Resource {
	if s == nil {
		return gvr.Resource{}
	}
	return s.resource
}

// Events returns the sequence of the zero [Run]: each loop over it begins with everything that exists. [Stream.With]
// is for other Runs. Each loop is one run of the Stream, which has one at a time: another loop yields [ErrBusy].
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
//     [UntilClosed], also if the server ends the watch with an error.
//   - A [*GapError], with [Run].FailOnGap.
//   - A [*GaveUpError], after [Requests].GiveUpAfter.
//   - An [*OptionsError], if the Run is invalid.
//   - With a Checkpoint: a [*checkpoint.MismatchError], an error if another sequence uses the Key, or an error of the
//     Store such as a [*checkpoint.CorruptError].
//
// The Stream retries all other failures, after a wait of 0.1 to 0.2 s at first and at most 30 s, or an hour if the
// server asks for it with Retry-After. (Clients other than those of [NewClient] wait for Retry-After themselves, until
// the Stream's timeout: 30 s for a watch, 2 minutes for a list page.)
//
// [Stream.Stop], [UntilSynced] and [UntilClosed] end a run without an error, except that with UntilClosed the run
// yields the error, if any, with which the server ended the watch.
func (s *Stream) Events(ctx context.Context) iter.Seq2[Event, error] {
	return s.With(Run{}).Events(ctx)
}

var errLeft = errors.New("the loop was left")

// runOnce runs once and returns the error to yield last, or nil.
func (s *Stream) runOnce(ctx context.Context, r Run, h host.Run, yield func(Event, error) bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	synced := false // SYNCED has been delivered
	emit := func(ev Event) error {
		if s.options.Transform != nil && ev.Object != nil {
			s.options.Transform(ev.Object)
			if h.Memory != nil {
				*h.Memory = 0
			}
		}
		synced = synced || ev.Type == Synced
		if !yield(ev, nil) {
			return errLeft
		}
		return nil
	}
	if !s.begin(cancel) {
		return ErrBusy
	}
	defer s.end()
	active := &activeRun{Stream: s, run: r, hosted: h, emit: emit}
	if err := active.findOrigin(ctx); err != nil {
		return err
	}
	defer active.session.End()
	var release func()
	active.pace, release = client.PaceOf(s.dynamic)
	defer release()
	now, returned := active.from.kind == startNow, false
	defer func() {
		// A function of the Options may have panicked before an event was delivered, or it is not known what existed.
		if !returned || now && !synced {
			s.Hold(host.Nobody)
		}
	}()
	err := active.runWorkers(ctx)
	returned = true
	if err == errLeft || errors.Is(err, errStopped) {
		return nil
	}
	return err
}

// activeRun is what the workers of a run share.
type activeRun struct {
	*Stream
	run     Run
	hosted  host.Run
	emit    func(Event) error // an error ends the run
	pace    *pace.Client      // bounds the requests of all Streams of the client
	session *acks.Session     // nil without a checkpoint
	from    origin
}

func (r *activeRun) runWorkers(ctx context.Context) error {
	namespaces := r.options.Namespaces
	if r.hosted.Namespaces != nil {
		namespaces = r.hosted.Namespaces.Get()
	}
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	if len(namespaces) == 1 && (r.hosted.Namespaces == nil || namespaces[0] == "") {
		w := r.newWorker(namespaces[0], r.emit)
		first := w.begin(r.from) // before publish, which lets Position see w
		r.publish([]*worker{w}, checkpoint.Position{ResourceVersions: r.from.position.ResourceVersions})
		return w.loop(ctx, first)
	}
	r.publish(nil, checkpoint.Position{})
	f := &fanIn{activeRun: r, members: map[string]*member{}, turns: make(chan turn), ends: make(chan *member)}
	f.enter()
	return f.loop(ctx, namespaces)
}

// Stop ends the current run, if there is one: the loop ends as soon as its body returns. Stop does not wait for that,
// so the body may call it. Stop has no effect on a run that has not begun: if another goroutine starts the run, cancel
// its context instead.
func (s *Stream) Stop() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancel != nil {
		s.cancel(errStopped)
	}
}

// begin reports whether a run may begin: there is no other.
func (s *Stream) begin(cancel context.CancelCauseFunc) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancel != nil {
		return false
	}
	s.cancel = cancel
	return true
}

// Hold records who holds events that the last run has delivered, for packages of this module.
func (s *Stream) Hold(by *host.Holder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holder = by
}

// publish lets Status and Position see the workers of a new run.
func (s *Stream) publish(workers []*worker, rest checkpoint.Position) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.workers, s.parked, s.rest, s.holder = workers, nil, rest, nil
}

func (s *Stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancel = nil
}

// Host is Events with what package host describes, for packages of this module.
func (s *Stream) Host(ctx context.Context, h host.Run) iter.Seq2[Event, error] {
	return s.With(Run{}).Host(ctx, h)
}

// Watched returns what [Sequence.Watched] does for the zero Run.
func (s *Stream) Watched(friend.Access) (Options, Run, error) {
	return s.With(Run{}).Watched(friend.Access{})
}

// Key returns the name of the Stream in a Mux: the resource and its group ("deployments.apps"), then the namespaces
// ("deployments.apps in a,b") and the selectors ("pods where app=web"), if there are any.
func (s *Stream) Key() string {
	if s == nil {
		return ""
	}
	key := s.resource.GroupResource().String()
	if in := strings.Join(s.options.Namespaces, ","); in != "" {
		key += " in " + in
	}
	where := []string{s.options.LabelSelector, s.options.FieldSelector}
	if where = slices.DeleteFunc(where, func(s string) bool { return s == "" }); len(where) > 0 {
		key += " where " + strings.Join(where, " and ")
	}
	return key
}
