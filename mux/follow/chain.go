package follow

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/acks"
	"github.com/gvrwatch/gvrwatch/internal/host"
	"github.com/gvrwatch/gvrwatch/internal/invalid"
	"github.com/gvrwatch/gvrwatch/internal/wait"
	"github.com/gvrwatch/gvrwatch/stream"
)

// chain is the runs of Streams of a followed resource, one after the other, in the goroutine of its source. A new run
// begins when the resource is served again or in another version, when its watch moves between the cluster and single
// namespaces, and after a failure. Each run resumes where the one before it ended.
type chain struct {
	followed *followed
	cursor   *cursor
}

// cursor is where the next streamRun begins.
type cursor struct {
	position  *checkpoint.Position // where the last run ended; nil for none
	delivered bool                 // an event, so that a position is worth keeping
	synced    bool                 // SYNCED was delivered, and no GAP since
	failures  int                  // runs that failed in a row
}

// run delivers the events.
func (c *chain) run(ctx context.Context, yield func(stream.Event, error) bool) {
	s := c.followed
	if !s.begin() {
		*c.cursor = cursor{}
	}
	failed := true // also if the Stream panics
	defer func() { s.end(failed) }()
	for {
		resource, namespaces, err := c.await(ctx)
		if err == nil {
			var ok bool
			if ok, err = c.watch(ctx, resource, namespaces, yield); !ok {
				failed = false
				return
			}
		}
		if ctx.Err() != nil {
			err, failed = context.Cause(ctx), false
		}
		if err != nil {
			yield(stream.Event{}, err)
			return
		}
	}
}

// await waits until there is something to watch.
func (c *chain) await(ctx context.Context) (gvr.Resource, []string, error) {
	s := c.followed
	for {
		if ctx.Err() != nil {
			return gvr.Resource{}, nil, context.Cause(ctx)
		}
		resource, namespaces, ok := s.wanted()
		if ok {
			return resource, namespaces, nil
		}
		s.rest(s.common.rights.pending(resource.GroupResource()))
		select {
		case <-s.changed:
		case <-ctx.Done():
		}
	}
}

// watch is one streamRun. It returns false if the loop was left, and an error that is final.
func (c *chain) watch(
	ctx context.Context, resource gvr.Resource, namespaces []string, yield func(stream.Event, error) bool,
) (bool, error) {
	sr, err := c.newRun(resource, namespaces)
	if err != nil {
		return true, c.handleRefusal(ctx, err)
	}
	defer c.followed.endRun()
	resumes := c.cursor.resumesIn(namespaces)
	o := host.Run{Start: c.start(), Lists: c.followed.common.group.Lists, Namespaces: sr.namespaces,
		Again: c.cursor.delivered}
	runCtx, cancel := context.WithCancelCause(ctx)
	var running sync.WaitGroup
	running.Go(func() { sr.supervise(runCtx, cancel) })
	defer running.Wait()
	defer cancel(errRunOver)
	for ev, runErr := range sr.sequence.Host(runCtx, o) {
		if runErr != nil {
			err = runErr
			break
		}
		c.cursor.delivered = true
		switch ev.Type {
		case stream.Gap:
			c.cursor.synced, resumes = false, false
		case stream.Synced:
			c.cursor.failures, c.cursor.synced = 0, true
			if resumes && slices.Equal(c.followed.get().watched.namespaces, namespaces) {
				resumes = false // the loop has it from the run before
				ev.Ack()
				c.followed.watching(resource)
				continue
			}
		}
		if !sr.deliver(ev, yield) {
			return false, nil
		}
		if ev.Type == stream.Synced {
			c.followed.watching(resource)
			c.followed.common.onSynced()
		}
	}
	if p := c.endPosition(ctx, sr); c.cursor.delivered { // else the next run is the first one
		c.cursor.position = p
	}
	return true, c.handleEnd(ctx, resource, err)
}

// newRun returns the next run, and records what it watches.
func (c *chain) newRun(r gvr.Resource, namespaces []string) (*streamRun, error) {
	s := c.followed
	o, run, err := s.common.options.source(r)
	if err != nil {
		return nil, err
	}
	if key := r.GroupResource().String(); run.Checkpoint != nil && !acks.IsKey(key) {
		return nil, invalid.New("Resource", key, "is the key of a checkpoint: must be "+acks.KeyRule)
	}
	if run.Checkpoint != nil && !s.common.claim(run.Checkpoint) {
		return nil, invalid.New("Source.Checkpoint", "", "must differ from those of the other followers of the Mux: "+
			"a Tracker serves one cluster, and its keys have no Prefix")
	}
	sr := &streamRun{
		followed: s, resource: r, clusterWide: len(namespaces) == 0, run: run, states: make(chan stream.Status, 1),
		began: time.Now(),
	}
	sr.namespaces = host.NewNamespaces(namespaces, func(n string, err error) { s.forbidden(r, n, err) })
	o.Namespaces = s.common.selection.scope(r)
	if s.common.options.UntilSynced && run.Checkpoint != nil && !c.cursor.synced {
		// SYNCED has to follow the changes since the checkpoint, not precede them.
		sr.run.Until = stream.UntilSynced
	}
	o.Logger, o.Trace = cmp.Or(o.Logger, s.common.group.Logger), sr.trace(o.Trace)
	if sr.stream, err = stream.New(s.common.client, r, &o); err != nil {
		return nil, err
	}
	sr.sequence = sr.stream.With(sr.run)
	sr.setQuiet()
	s.beginRun(sr.stream, namespaces)
	return sr, nil
}

// handleRefusal handles the error of stream.New. It returns the error if the program can solve it: a resource that
// can't be watched is none of its mistakes.
func (c *chain) handleRefusal(ctx context.Context, err error) error {
	var bad *stream.OptionsError
	ok := errors.As(err, &bad)
	cannot := errors.As(err, new(*stream.NotWatchableError))
	if !cannot && (!ok || bad.Field != "Resource") {
		return err
	}
	c.backOff(ctx, err, Failing, 5*time.Minute, 5*time.Minute)
	return nil
}

// endPosition returns where a run that has delivered something has ended; nil for the beginning.
func (c *chain) endPosition(ctx context.Context, sr *streamRun) *checkpoint.Position {
	p := sr.stream.Position()
	if sr.run.Checkpoint != nil {
		p.Objects = nil         // the checkpoint has them
		if !sr.awaitAcks(ctx) { // the next run resumes from the checkpoint, and so does not skip what was not acked
			c.cursor.synced, p.ResourceVersions = false, nil
		}
	}
	if len(p.ResourceVersions)+len(p.Objects) == 0 {
		return nil
	}
	return &p
}

// resumesIn reports whether everything that the next run watches is synced.
func (c *cursor) resumesIn(namespaces []string) bool {
	if !c.synced || c.position == nil {
		return false
	}
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	return !slices.ContainsFunc(namespaces, func(n string) bool { rv, _ := c.position.At(n); return rv == "" })
}

// start returns where the next run begins; nil is where the options say.
func (c *chain) start() func() *checkpoint.Position {
	if c.cursor.position == nil && c.followed.get().served.initial {
		return nil
	}
	return func() *checkpoint.Position { // nil if the resource was added later: all its objects are new
		from := c.cursor.position
		c.cursor.position = nil // it can be large, and the Stream has it now
		return from
	}
}

// handleEnd handles the end of a run. It returns an error that is final.
func (c *chain) handleEnd(ctx context.Context, r gvr.Resource, err error) error {
	var refused *stream.RequestError
	var gap *stream.GapError
	var gaveUp *stream.GaveUpError
	switch {
	case ctx.Err() != nil, err == nil, err == errRunOver:
		return nil
	case errors.As(err, &gap): // the position can't be resumed
		c.cursor.position, c.cursor.synced = nil, false
		return err
	case errors.As(err, &gaveUp), !errors.As(err, &refused):
		return err
	case apierrors.IsForbidden(err):
		c.followed.forbidden(r, refused.Namespace, err)
	case apierrors.IsNotFound(err):
		c.followed.rediscover(ctx, c.cursor.failures == 0)
		c.backOff(ctx, err, Gone, 500*time.Millisecond, 10*time.Second)
	default:
		c.backOff(ctx, err, Failing, 5*time.Second, 5*time.Minute)
	}
	return nil
}

// backOff waits before the next run, or until something changes.
func (c *chain) backOff(ctx context.Context, err error, state State, first, most time.Duration) {
	c.followed.setState(state, err)
	c.cursor.failures++
	delay := wait.Doubled(c.cursor.failures, first, most)
	wait.Sleep(ctx, wait.Between(delay/2, delay), c.followed.changed)
}
