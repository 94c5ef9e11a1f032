package stream

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"

	"k8s.io/client-go/dynamic"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/acks"
	"github.com/gvrwatch/gvrwatch/internal/client"
	"github.com/gvrwatch/gvrwatch/internal/friend"
	"github.com/gvrwatch/gvrwatch/internal/host"
	"github.com/gvrwatch/gvrwatch/internal/invalid"
	"github.com/gvrwatch/gvrwatch/internal/sequence"
)

// Stream watches one resource, across the cluster or in some namespaces. Its methods may be called from any goroutine.
type Stream struct {
	client   dynamic.Interface
	resource gvr.Resource
	options  Options
	target   *sequence.Target

	mu   sync.Mutex
	last lastRun
}

// lastRun is the run that is active, or else the last one.
type lastRun struct {
	cancel  context.CancelCauseFunc // nil if the run has ended
	workers []*sequence.Worker
	parked  []*sequence.Worker  // of namespaces that are known but not watched now
	rest    checkpoint.Position // where the run began, for namespaces without a worker
	session *acks.Session       // nil without a checkpoint
	holder  *host.Holder        // of events that the last run has delivered; nil if its loop has received all
}

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
	return &Stream{client: c, resource: r, options: o, target: newTarget(c, r, o)}, nil
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
//   - A [*RequestError], if before the first SYNCED the server refuses the list or the watch (400, 403, 404, 405, 422;
//     401 for the third time in a row) or returns an unusable list (not a list, no resourceVersion, or objects without
//     names), unless [Run].RetryRefused is set. With [UntilClosed], also if the server ends the watch with an error.
//   - A [*GapError], with [Run].FailOnGap.
//   - A [*GaveUpError], after [Requests].GiveUpAfter.
//   - An [*OptionsError], if the Run is invalid.
//   - With a Checkpoint: a [*checkpoint.MismatchError], an error if another sequence uses the Key, or an error of the
//     Store such as a [*checkpoint.CorruptError].
//
// A 401 is tried again twice, within 0.6 s, because client-go runs a credential plugin again only after one. A refusal
// (4xx) that is no Status of an API server is a gateway's and refuses nothing: it is retried as a 503 is. Only Go's
// plain "404 page not found" and a list of paths, with which API servers answer paths that they don't have, need none.
// A Status has the kind Status, the apiVersion v1 or none, and the code of the answer, or a reason and no code.
// (Clients other than those of [NewClient] compare no codes and know no list of paths.)
//
// The Stream retries all other failures, after a wait of 0.1 to 0.2 s at first and at most 30 s, or as long as the
// server asks with Retry-After, up to an hour. (Clients other than those of [NewClient] wait for Retry-After
// themselves, until the Stream's timeout: 30 s for a watch, 2 minutes for a list page.)
//
// [Stream.Stop], [UntilSynced] and [UntilClosed] end a run without an error, except that with UntilClosed the run
// yields the error, if any, with which the server ended the watch.
func (s *Stream) Events(ctx context.Context) iter.Seq2[Event, error] {
	return s.With(Run{}).Events(ctx)
}

// runOnce runs once and returns the error to yield last, or nil.
func (s *Stream) runOnce(ctx context.Context, r Run, h host.Run, yield func(Event, error) bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if !s.begin(cancel) {
		return ErrBusy
	}
	defer s.end()
	active := &activeRun{stream: s, run: r, hosted: h, yield: yield}
	from, session, err := active.begin(ctx)
	if err != nil {
		return err
	}
	defer session.End()
	pace, release := client.PaceOf(s.client)
	defer release()
	active.shared = &sequence.Run{
		Client: s.client, Pace: pace, Session: session, Lists: h.Lists,
		FailOnGap:   r.FailOnGap || h.FailOnLoss && loses(from),
		UntilClosed: r.Until == UntilClosed, UntilSynced: r.Until == UntilSynced,
		RetryRefused: r.RetryRefused,
		Bookmarks:    r.Bookmarks, EveryBookmark: h.Bookmarks, Workers: s.allWorkers,
	}
	returned := false
	defer func() {
		// A function of the Options may have panicked before an event was delivered, or it is not known what existed.
		if !returned || from.Now && !active.synced {
			s.Hold(friend.Access{}, host.Nobody)
		}
	}()
	err = active.runWorkers(ctx, from)
	returned = true
	if err == sequence.ErrLeft || errors.Is(err, sequence.ErrStopped) {
		return nil
	}
	return err
}

// loses reports whether the first GAP of a run that begins at o has HistoryLost.
func loses(o sequence.Origin) bool {
	return o.After != "" || o.Position != nil && (o.Position.Partial || o.Position.Unclean)
}

// activeRun is one run.
type activeRun struct {
	stream *Stream
	run    Run
	hosted host.Run
	yield  func(Event, error) bool
	synced bool          // SYNCED has been delivered
	shared *sequence.Run // by the workers
}

// emit delivers an event to the loop. An error ends the run.
func (r *activeRun) emit(ev *Event) error {
	if transform := r.stream.options.Transform; transform != nil && ev.Object != nil {
		transform(ev.Object)
		if r.hosted.Memory != nil {
			*r.hosted.Memory = 0
		}
	}
	r.synced = r.synced || ev.Type == Synced
	if !r.yield(*ev, nil) {
		return sequence.ErrLeft
	}
	return nil
}

// event returns the Event of one of a Worker.
func (r *activeRun) event(s *sequence.Event) Event {
	if r.hosted.Memory != nil && s.Object != nil {
		*r.hosted.Memory = s.Memory
	}
	return eventOf(s, r.stream.resource)
}

func (r *activeRun) runWorkers(ctx context.Context, from sequence.Origin) error {
	namespaces := r.stream.options.Namespaces
	if r.hosted.Namespaces != nil {
		namespaces = r.hosted.Namespaces.Get()
	}
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	if len(namespaces) > 1 || r.hosted.Namespaces != nil && namespaces[0] != "" {
		return newFanIn(r, from).loop(ctx, namespaces)
	}
	w := sequence.New(r.stream.target, r.shared, namespaces[0], sequence.Door{
		Emit: func(s *sequence.Event) error {
			ev := r.event(s)
			return r.emit(&ev)
		},
	})
	w.Begin(from) // before begun, which lets Position see w
	var rest checkpoint.Position
	if from.Position != nil {
		rest.ResourceVersions = from.Position.ResourceVersions
	}
	r.stream.begun([]*sequence.Worker{w}, rest, r.shared.Session)
	return w.Run(ctx)
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
	if s.last.cancel != nil {
		s.last.cancel(sequence.ErrStopped)
	}
}

// begin reports whether a run may begin: there is no other.
func (s *Stream) begin(cancel context.CancelCauseFunc) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last.cancel != nil {
		return false
	}
	s.last.cancel = cancel
	return true
}

// Hold records who holds events that the last run has delivered, for packages of this module.
func (s *Stream) Hold(_ friend.Access, by *host.Holder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last.holder = by
}

// heldBy returns what Hold has recorded.
func (s *Stream) heldBy() *host.Holder {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last.holder
}

// begun lets Status and Position see a new run.
func (s *Stream) begun(workers []*sequence.Worker, rest checkpoint.Position, session *acks.Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = lastRun{cancel: s.last.cancel, workers: workers, rest: rest, session: session}
}

// publish lets Status and Position see the workers of the run.
func (s *Stream) publish(workers, parked []*sequence.Worker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last.workers, s.last.parked = workers, parked
}

// allWorkers returns the workers of the run, and those that are parked.
func (s *Stream) allWorkers() []*sequence.Worker {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Concat(s.last.workers, s.last.parked)
}

func (s *Stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last.cancel = nil
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
