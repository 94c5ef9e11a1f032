package stream

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/watchlist"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/gvr"
)

// Stream watches one resource, across the cluster or in some namespaces. Its
// methods may be called from any goroutine.
type Stream struct {
	dynamic  dynamic.Interface
	client   dynamic.NamespaceableResourceInterface
	resource gvr.Resource
	options  Options
	fake     bool                                  // the client is client-go's dynamic fake
	matches  func(*unstructured.Unstructured) bool // the selectors, where the server does not heed them
	between  func(least, most time.Duration) time.Duration

	mu       sync.Mutex
	cancel   context.CancelCauseFunc // of the range that is running, else nil
	lanes    []*lane                 // of the range that runs or ran last
	session  *checkpoint.Session     // of that range, if there is a checkpoint
	rest     *elsewhere              // that range knows of besides what its lanes do
	next     string                  // resourceVersion that the next range begins after, if any
	noStream bool                    // the server has no streaming lists
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
		client:   c.Resource(r.GroupVersionResource),
		resource: r,
		options:  o,
		fake:     watchlist.DoesClientNotSupportWatchListSemantics(c),
		between:  between,
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
// not more than 200 events), and the server waits. (Where several namespaces are watched, each has a goroutine, which waits
// likewise.) Leaving the loop, by break, return or panic, ends the watch and waits
// for its goroutines. It may be ranged over again, from where Options.Start says,
// but only once at a time (ErrBusy).
//
// A yielded error is the last thing yielded, and final:
//
//   - the cause of ctx when ctx has ended,
//   - a *RequestError when before the first SYNCED the server refused the list or
//     the watch (400, 401, 403, 404, 405, 422) or answered with a list that can't
//     be used (no resourceVersion, objects without names), or with AtFirstClose
//     when it ended the watch with an error,
//   - a *GapError with OnExpired: Fail,
//   - a *GaveUpError after GiveUpAfter,
//   - with a Checkpoint, what Tracker.Begin returns: a *checkpoint.MismatchError, an
//     *InUseError, or what the Store says, a *CorruptError for one.
//
// Everything else is tried again, after waits of at most 30 s, or as the server
// asks, up to an hour. (A client that is not of NewClient waits by itself as a
// Retry-After header asks; after half a minute of that it is asked anew.) Stop, and the End
// that was asked for, end the sequence without an error.
func (s *Stream) Events(ctx context.Context) iter.Seq2[Event, error] {
	return s.EventsWith(ctx, Range{})
}

var errLeft = errors.New("the loop was left")

// run is one range. It returns what is to be yielded as its last.
func (s *Stream) run(ctx context.Context, r Range, yield func(Event, error) bool) error {
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
	var lanes []*lane
	var all fanIn
	if len(s.options.Namespaces) == 1 {
		lanes = []*lane{s.newLane(s.options.Namespaces[0], emit)}
	} else {
		all, lanes = s.newFanIn(emit)
	}
	from, ok := s.begin(cancel, lanes)
	if !ok {
		return ErrBusy
	}
	defer s.end()
	if r.Start != nil {
		from = r.Start()
		if err := s.checkStartOf(from); err != nil {
			return err
		}
	}
	for _, l := range lanes {
		l.lists = r.Lists
	}
	session, from, err := s.checkpoint(ctx, lanes, from)
	if err != nil {
		return err
	}
	defer session.End()
	s.remember(from)
	if len(lanes) == 1 {
		err = lanes[0].loop(ctx, from)
	} else {
		err = all.loop(ctx, lanes, from)
	}
	if err == errLeft || errors.Is(err, errStopped) {
		return nil
	}
	return err
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
	o := s.options
	o.Start = Start{}
	if rv != "" {
		if o.Checkpoint != nil {
			return &OptionsError{"SetResourceVersion and Checkpoint", "the next range goes on where the checkpoint says: delete that from its Store to begin elsewhere"}
		}
		o.Start = After(rv)
	}
	if err := o.checkStart(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = rv
	return nil
}

// checkStartOf says what is wrong with the start of a range.
func (s *Stream) checkStartOf(start Start) error {
	o := s.options
	o.Start = start
	return o.checkStart()
}

func (s *Stream) begin(cancel context.CancelCauseFunc, lanes []*lane) (Start, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancel != nil {
		return Start{}, false
	}
	s.cancel, s.lanes = cancel, lanes
	if s.next != "" {
		return After(s.next), true
	}
	return s.options.Start, true
}

// remember keeps what is known of what is not watched.
func (s *Stream) remember(from Start) {
	var rest *elsewhere
	if s.options.Scope != nil && from.kind == startFrom {
		rest = elsewhereOf(from.position, s.options.Namespaces)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rest = rest
}

func (s *Stream) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancel = nil
}

func (s *Stream) noStreamedLists() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.noStream
}

func (s *Stream) forgetStreamedLists() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.noStream = true
}
