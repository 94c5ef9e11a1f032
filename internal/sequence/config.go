package sequence

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/acks"
	"github.com/gvrwatch/gvrwatch/internal/client"
	"github.com/gvrwatch/gvrwatch/internal/host"
	"github.com/gvrwatch/gvrwatch/internal/pace"
	"github.com/gvrwatch/gvrwatch/internal/protocol"
)

// Config is what a Stream watches, and how. Package stream has checked it, and set the defaults.
type Config struct {
	Fake          bool // the client is client-go's dynamic fake
	Resource      gvr.Resource
	LabelSelector string
	FieldSelector string
	Objects       client.Objects
	// Matches applies the selectors to a decoded object, because the fake ignores them. Else it is nil.
	Matches func(*unstructured.Unstructured) bool
	// Select is stream.Options.Select. It may be nil.
	Select   func(Meta) bool
	Requests Requests
	Hooks    Hooks
	Logger   *slog.Logger
	// Between returns a random duration.
	Between func(least, most time.Duration) time.Duration
	Errors  Errors
}

// Requests are those of package stream.
type Requests struct {
	PagedLists    bool
	PageSize      int
	WatchLifetime time.Duration
	IdleTimeout   time.Duration
	GiveUpAfter   time.Duration
}

// Hooks are the callbacks of stream.Trace. Each may be nil.
type Hooks struct {
	StatusChanged func(Status)
	RequestDone   func(Request)
	FrameReceived func(namespace string, kind watch.EventType, resourceVersion string)
	WatchClosed   func(Request)
}

// Request is that of package stream.
type Request struct {
	Verb            string
	Namespace       string
	ResourceVersion string
	Continued       bool
	InitialEvents   bool
	Duration        time.Duration
	Objects         int
	Err             error
}

// hook calls f unless it is nil.
func hook[T any](f func(T), with T) {
	if f != nil {
		f(with)
	}
}

// logger logs what happens to a Worker. It gives the attributes at each call, because a handler that embeds another one
// often has no WithAttrs of its own, and Logger.With would lose it.
type logger struct {
	to        *slog.Logger
	resource  string
	namespace string
}

func (l logger) log(ctx context.Context, level slog.Level, message string, args ...any) {
	if !l.to.Enabled(ctx, level) {
		return
	}
	var caller [1]uintptr
	runtime.Callers(2, caller[:])
	r := slog.NewRecord(time.Now(), level, message, caller[0])
	r.Add("resource", l.resource, "namespace", l.namespace)
	r.Add(args...)
	_ = l.to.Handler().Handle(ctx, r) // as slog does
}

// Errors make the errors that the caller of a Stream sees.
type Errors struct {
	Request func(verb, namespace string, cause error) error
	End     func(protocol.Stopped) error // may return nil
}

var (
	// ErrLeft ends a run whose loop was left. Like ErrStopped it is no error to the caller of the Stream.
	ErrLeft = errors.New("the loop was left")
	// ErrStopped ends a run of a Stream that was stopped.
	ErrStopped = errors.New("stopped")
)

// Target is what the Workers of a Stream watch, in all its runs.
type Target struct {
	Config          // embedded: a Target is a Config, and what was learned of the server
	typeMeta        typeMeta
	noInitialEvents atomic.Bool // the server does not support them
}

// NewTarget returns a Target.
func NewTarget(c Config) *Target { return &Target{Config: c, typeMeta: typeMetaOf(c.Resource)} }

// Run is what the Workers of one run share.
type Run struct {
	Client  dynamic.Interface
	Pace    *pace.Client  // bounds the requests of all Streams of the client
	Session *acks.Session // nil without a checkpoint
	Lists   *host.Lists   // may be nil
	// FailOnGap, UntilClosed, UntilSynced and RetryRefused are as in protocol.Rules.
	FailOnGap, UntilClosed, UntilSynced, RetryRefused bool
	// Bookmarks emits BOOKMARK, and EveryBookmark also those that do not advance the version.
	Bookmarks, EveryBookmark bool
	// Workers returns all Workers of the run, also those that do not run now. Only Worker.markRewound asks it: what one
	// of them finds out concerns all.
	Workers func() []*Worker
}

// Door is how the Events of a Worker leave it.
type Door struct {
	// Emit receives each Event, which is valid until it returns. An error ends the run.
	Emit func(*Event) error
	// Turn runs a function while no other Worker of the Stream is in its turn. Nil is for a Worker that is alone.
	Turn func(context.Context, func() error) error
}

// Origin is where a run begins. The zero Origin is a snapshot.
type Origin struct {
	Now      bool                 // a snapshot that is not delivered
	After    string               // this version
	Position *checkpoint.Position // where an earlier run ended
	Snapshot bool                 // read a snapshot even if the Position has a version
}

// Infers reports whether all that a namespace delivers before SYNCED comes from a comparison with what an earlier run
// delivered. After a GAP that is so, too.
func (o Origin) Infers(namespace string) bool {
	if o.Position == nil || !o.Snapshot {
		return false
	}
	rv, _ := o.Position.At(namespace)
	return rv != ""
}

// BeginsSynced reports whether the first Event is SYNCED. It may be for a Position, too.
func (o Origin) BeginsSynced() bool { return o.Now || o.After != "" }

// rules returns the rules of the protocol for a run that begins at o.
func (t *Target) rules(r *Run, o Origin) protocol.Rules {
	streamed := !t.Requests.PagedLists && !t.Fake
	rules := protocol.Rules{
		FailOnGap: r.FailOnGap, UntilClosed: r.UntilClosed, UntilSynced: r.UntilSynced,
		Quiet: o.Now, Partial: o.After != "", After: o.After != "",
		WantInitialEvents: streamed, InitialEvents: streamed && !t.noInitialEvents.Load(),
		NoProbe: t.Fake, RetryRefused: r.RetryRefused,
	}
	if o.Position != nil {
		rules.Partial, rules.Unclean = o.Position.Partial, o.Position.Unclean
	}
	return rules
}
