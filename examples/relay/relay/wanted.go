package relay

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/examples/relay/engine"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/stream"
)

const (
	discoveryInterval = 3 * time.Second
	// removedGrace is how long a resource or namespace is wanted after it is gone: the deletions of its objects may not
	// have been received.
	removedGrace = time.Minute
)

var namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

// wanted knows which units of a cluster should be published. It follows discovery and, for resources that are split,
// the namespaces.
type wanted struct {
	connection *Connection
	selector   *selector
	logger     *slog.Logger
	changed    func() // called without the mutex

	// Only run uses these.
	served map[schema.GroupResource]gvr.Resource
	unread map[schema.GroupVersion]bool // APIs that can't be read
	said   []string                     // the problems that are in the log

	mu         sync.Mutex
	found      found
	namespaces map[string]time.Time // when they were deleted, or zero; nil until they are known
	nsProblem  error
	missing    []string // selected namespaces that do not exist
}

// found is what discovery has found out.
type found struct {
	selected []*Selected
	removed  map[schema.GroupResource]time.Time // when resources ceased to be served
	problems []error
	down     error // why the server can't be asked; nil if it can
	known    bool  // resources have been read once
}

func newWanted(c *Connection, s *selector, logger *slog.Logger, changed func()) *wanted {
	return &wanted{
		connection: c, selector: s, logger: logger, changed: changed,
		served: map[schema.GroupResource]gvr.Resource{}, unread: map[schema.GroupVersion]bool{},
		found: found{removed: map[schema.GroupResource]time.Time{}},
	}
}

// units returns the units that should be published, what could not be found out, and whether the first round of
// discovery has ended.
func (w *wanted) units() (units []*Selected, problems []error, known bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	problems = slices.DeleteFunc(slices.Clone(w.found.problems), isMinor)
	for _, ns := range w.missing {
		problems = append(problems, fmt.Errorf("cluster %s: selection.namespaces: %q does not exist",
			w.connection.Name, ns))
	}
	if w.found.down != nil {
		problems = append(problems, w.found.down)
	}
	split := false
	for _, s := range w.found.selected {
		if gone(w.found.removed[s.Resource.GroupResource()]) {
			continue
		}
		only := w.selector.selection.Namespaces
		switch {
		case len(only) > 0 && s.Resource.Namespaced:
			for _, ns := range only {
				units = append(units, s.in(ns))
			}
		case s.split:
			split = true
			for _, ns := range slices.Sorted(maps.Keys(w.namespaces)) {
				if !gone(w.namespaces[ns]) {
					units = append(units, s.in(ns))
				}
			}
		default:
			units = append(units, s)
		}
	}
	if split && w.nsProblem != nil {
		problems = append(problems, w.nsProblem)
	}
	known = w.found.known && (!split || w.namespaces != nil)
	if !known && len(problems) == 0 { // a server that hangs is no error for half a minute
		problems = append(problems, fmt.Errorf("cluster %s: the API server has not said yet what there is to publish",
			w.connection.Name))
	}
	return units, problems, known
}

// wantedUnits returns the units that all replicas together should publish, by their text, and whether those of a
// cluster are known: another cluster may be down.
func wantedUnits(all []*wanted) (units map[string]*Selected, problems []string, known bool) {
	units = map[string]*Selected{}
	for _, w := range all {
		found, errs, ok := w.units()
		known = known || ok
		for _, s := range found {
			units[s.Unit.String()] = s
		}
		for _, err := range errs {
			problems = append(problems, err.Error())
		}
	}
	return units, problems, known
}

// gone reports whether what was removed at a time, or exists if that is zero, is no longer wanted.
func gone(removed time.Time) bool { return !removed.IsZero() && time.Since(removed) >= removedGrace }

// run follows discovery until ctx ends.
func (w *wanted) run(ctx context.Context) {
	var others sync.WaitGroup
	defer others.Wait()
	others.Go(func() { w.findNamespaces(ctx) })
	following, synced := false, false
	poll := func() time.Duration { return discoveryInterval }
	for c, err := range w.connection.Resolver.Changes(ctx, poll) {
		if err != nil {
			return
		}
		w.apply(c)
		if synced = synced || c.Type == discovery.Synced; !synced {
			continue // the first round has begun
		}
		w.refresh(ctx)
		if !following && w.splits() {
			following = true
			others.Go(func() { w.followNamespaces(ctx) })
		}
	}
}

// finish makes the units of deleted namespaces wanted again of which the log has objects that exist, until ctx ends:
// their deletions were not published, because no relay ran, for example.
func (w *wanted) finish(ctx context.Context, log engine.Log) {
	for {
		wait(ctx, removedGrace)
		if ctx.Err() != nil {
			return
		}
		if err := w.finishOnce(ctx, log); err != nil && ctx.Err() == nil {
			w.logger.Warn("deleted namespaces can't be compared with the log; trying again", "cluster",
				w.connection.Name, "err", err)
		}
	}
}

func (w *wanted) finishOnce(ctx context.Context, log engine.Log) error {
	if !w.splits() {
		return nil
	}
	positions, err := log.Positions(ctx, engine.Unit{})
	if err != nil {
		return err
	}
	for _, e := range positions {
		if !w.isDeleted(e.Unit) {
			continue
		}
		objects, err := log.Objects(ctx, e.Unit, false)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(objects, func(m engine.Message) bool { return m.Type != engine.Deleted }) {
			w.wantAgain(e.Unit.Namespace)
		}
	}
	return nil
}

// isDeleted reports whether u is a deleted namespace of a resource that is split, and served.
func (w *wanted) isDeleted(u engine.Unit) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	split := slices.ContainsFunc(w.found.selected, func(s *Selected) bool {
		return s.Unit == u.Whole() && s.split && w.found.removed[s.Resource.GroupResource()].IsZero()
	})
	deleted, known := w.namespaces[u.Namespace]
	return split && u.Namespace != "" && w.namespaces != nil && (!known || gone(deleted))
}

// wantAgain makes the units of a namespace wanted as if it had just been deleted, unless it exists.
func (w *wanted) wantAgain(namespace string) {
	w.mu.Lock()
	if deleted, known := w.namespaces[namespace]; !known || !deleted.IsZero() {
		w.namespaces[namespace] = time.Now()
	}
	w.mu.Unlock()
	w.changed()
}

func (w *wanted) apply(c discovery.Change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	name := c.Resource.GroupResource()
	switch c.Type {
	case discovery.Unknown:
		w.logger.Warn("discovery: "+c.String(), "cluster", w.connection.Name, "err", c.Err)
		if c.IsServer() {
			w.found.down = fmt.Errorf("cluster %s: %w", w.connection.Name, c.Err)
		}
		if c.IsAPI() {
			w.unread[c.Resource.GroupVersion()] = true
		}
	case discovery.Known, discovery.Synced:
		if c.IsServer() {
			w.found.down = nil
		}
		if c.IsAPI() {
			delete(w.unread, c.Resource.GroupVersion())
		}
	case discovery.Removed:
		w.found.removed[name] = time.Now()
	case discovery.Added, discovery.Changed:
		w.served[name] = c.Resource
		delete(w.found.removed, name)
	}
}

// refresh finds out again what is selected. What is selected already stays so while that can't be found out, and when
// it is removed: units leaves it out later.
func (w *wanted) refresh(ctx context.Context) {
	selected, problems := w.selector.resources(ctx, w.connection, slices.Collect(maps.Values(w.served)))
	if ctx.Err() != nil {
		return
	}
	if len(w.unread) > 0 { // what matches nothing may be in an API that can't be read
		problems = slices.DeleteFunc(problems, isMistake)
	}
	w.say(problems)
	unknown := slices.ContainsFunc(problems, func(err error) bool {
		notFound := (*discovery.NotFoundError)(nil)
		return !isMistake(err) && !errors.As(err, &notFound)
	})
	w.mu.Lock()
	for _, s := range w.found.selected {
		_, removed := w.found.removed[s.Resource.GroupResource()]
		if (unknown || removed) && !slices.ContainsFunc(selected, func(f *Selected) bool { return f.Unit == s.Unit }) {
			selected = append(selected, s)
		}
	}
	w.found.selected, w.found.problems, w.found.known = selected, problems, w.found.known || !unknown
	w.mu.Unlock()
	w.changed()
}

// say logs the problems that the last round of discovery did not have.
func (w *wanted) say(problems []error) {
	var now []string
	for _, err := range problems {
		if now = append(now, err.Error()); !slices.Contains(w.said, err.Error()) {
			w.logger.Warn("the configuration does not fit the cluster", "err", err)
		}
	}
	w.said = now
}

func (w *wanted) splits() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.found.selected, func(s *Selected) bool { return s.split }) &&
		len(w.selector.selection.Namespaces) == 0
}

// followNamespaces keeps w.namespaces up to date until ctx ends.
func (w *wanted) followNamespaces(ctx context.Context) {
	resource := gvr.Resource{GroupVersionResource: namespaces, Kind: "Namespace"}
	for attempt := 0; ctx.Err() == nil; attempt++ {
		s, err := stream.New(w.connection.Client, resource, &stream.Options{Objects: stream.Metadata, Logger: w.logger})
		if err == nil {
			err = w.readNamespaces(s.Events(ctx))
		}
		w.mu.Lock()
		w.nsProblem = err
		w.mu.Unlock()
		wait(ctx, backoff(attempt))
	}
}

func (w *wanted) readNamespaces(events iter.Seq2[stream.Event, error]) error {
	exist, synced := map[string]bool{}, false
	for ev, err := range events {
		if err != nil {
			return err
		}
		switch name := ev.NamespacedName().Name; ev.Type {
		case stream.Added:
			exist[name] = true
		case stream.Deleted:
			delete(exist, name)
		case stream.Synced:
			synced = true
		default:
			continue
		}
		if synced {
			w.setNamespaces(exist)
		}
	}
	return nil
}

func (w *wanted) setNamespaces(exist map[string]bool) {
	w.mu.Lock()
	now := map[string]time.Time{}
	for name := range exist {
		now[name] = time.Time{}
	}
	for name, deleted := range w.namespaces {
		if deleted.IsZero() {
			deleted = time.Now()
		}
		if !exist[name] && !gone(deleted) {
			now[name] = deleted
		}
	}
	w.namespaces, w.nsProblem = now, nil
	w.mu.Unlock()
	w.changed()
}
