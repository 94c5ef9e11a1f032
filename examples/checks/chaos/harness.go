package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// settings say how a run of the harness goes.
type settings struct {
	seed    uint64
	lasts   time.Duration
	clients []client
	faults  selection
	record  string // folder, or empty
	log     *slog.Logger
}

// outcome is the result of one seed.
type outcome struct {
	seed     uint64
	verdicts []*verdict
	faults   []fault
	changes  int
	left     leftovers
	errors   map[string][]string // that clients returned to their callers, by client
}

const (
	syncTime  = 30 * time.Second // for all clients, before the first fault
	settleIn  = 90 * time.Second // for all clients, after the last fault
	clientEnd = 20 * time.Second // for all clients, after their context has ended
)

// watcher is a client that runs.
type watcher struct {
	client
	rec *recording
}

// begun reports whether the faults may begin.
func (one *watcher) begun() bool {
	if p, ok := one.client.(*program); ok {
		return p.begun()
	}
	return slices.ContainsFunc(one.rec.all(), func(r report) bool { return r.Kind == synced })
}

// runSeed breaks a world and judges the clients.
func runSeed(ctx context.Context, o settings) (*outcome, error) {
	dir, err := os.MkdirTemp("", "gvrwatch-chaos-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	w, err := startWorld(ctx, o.seed, dir, o.log)
	if err != nil {
		return nil, fmt.Errorf("start the world: %w", err)
	}
	defer w.stop()
	w.faults = o.faults
	before := measureLeftovers()

	ctx, fail := context.WithCancelCause(ctx) // ends everything when a client can't run
	clientCtx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer func() { // no process of a client outlives its server
		fail(nil)
		cancel()
		waitFor(&running, clientEnd)
	}()
	var watchers []*watcher
	for _, c := range o.clients {
		one := &watcher{client: c, rec: newRecording()}
		watchers = append(watchers, one)
		running.Go(func() {
			if err := c.run(clientCtx, w, one.rec); err != nil {
				fail(fmt.Errorf("client %s: %w", one.subject().Name, err))
			}
		})
	}
	if late := awaitAll(ctx, watchers, syncTime, (*watcher).begun); len(late) > 0 && ctx.Err() == nil {
		o.log.Warn("not all clients are synced, and the faults begin", "without", late)
	}
	names := map[string]bool{}
	for _, one := range watchers {
		if p, ok := one.client.(*program); ok {
			p.begin(one.rec)
		}
		if name := one.subject().Name; names[name] {
			fail(fmt.Errorf("two clients call themselves %s: each must have a name of its own", name))
		} else {
			names[name] = true
		}
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	faults := w.run(ctx, o.lasts)
	if err := cmp.Or(context.Cause(ctx), w.failure()); err != nil {
		return nil, err
	}
	o.log.Info("the faults are over")
	for _, one := range watchers {
		close(one.rec.calm)
	}
	h := w.database.truth.history()
	views := map[*watcher]*view{}
	for _, one := range watchers {
		views[one] = h.view(one.subject().Scope)
	}
	late := awaitAll(ctx, watchers, settleIn, func(one *watcher) bool { return views[one].knownBy(one.rec.all()) })
	o.log.Info("the clients have settled", "except", late)
	cancel()
	if !waitFor(&running, clientEnd) {
		return nil, fmt.Errorf("clients do not end: %q", stacksOfOurs())
	}
	out := &outcome{seed: o.seed, faults: faults, changes: len(h.changes), errors: map[string][]string{}}
	out.left = measureLeftovers().since(before)
	for _, one := range watchers {
		v := one.judge(h, faults)
		out.verdicts = append(out.verdicts, v)
		out.errors[v.Name] = one.rec.errors
	}
	compare(out.verdicts)
	if o.record != "" {
		if err := writeRun(o.record, h, faults, watchers); err != nil {
			return nil, fmt.Errorf("record the run: %w", err)
		}
	}
	return out, context.Cause(ctx)
}

// judge judges a client that has ended.
func (one *watcher) judge(h *history, faults []fault) *verdict {
	s := one.subject()
	s.Denied = deniedBy(s, faults)
	v := judge(s, h, one.rec.all(), faults)
	if p, ok := one.client.(*program); ok {
		v.Program = p.counts()
	}
	return v
}

// version returns that of a program, or an empty string.
func (one *watcher) version() string {
	if p, ok := one.client.(*program); ok {
		return p.counts().Version
	}
	return ""
}

// rightsBack is how long it may take until returned rights are noticed.
const rightsBack = 20 * time.Second

// deniedBy returns the times in which a client with changing rights may not see everything.
func deniedBy(s subject, faults []fault) (denied []fault) {
	for _, f := range faults {
		if s.Limited && strings.Contains(f.Name, "rights") {
			f.To = f.To.Add(rightsBack)
			denied = append(denied, f)
		}
	}
	return denied
}

// awaitAll waits until a condition holds for all clients. It returns the names of those for which it does not.
func awaitAll(ctx context.Context, watchers []*watcher, limit time.Duration, met func(*watcher) bool) []string {
	deadline := time.Now().Add(limit)
	waiting := slices.Clone(watchers)
	for ctx.Err() == nil {
		waiting = slices.DeleteFunc(waiting, met)
		if len(waiting) == 0 || time.Now().After(deadline) {
			break
		}
		pause(ctx, 250*time.Millisecond)
	}
	var names []string
	for _, one := range waiting {
		names = append(names, one.subject().Name)
	}
	return names
}

// knownBy reports whether reports lead to the objects that exist at the end.
func (v *view) knownBy(reports []report) bool {
	fold := map[cell]map[string]string{}
	for _, r := range reports {
		k := cell{r.Resource, r.Namespace}
		if r.UID == "" {
			continue
		}
		if fold[k] == nil {
			fold[k] = map[string]string{}
		}
		if fold[k][string(r.UID)] = r.ResourceVersion; r.Kind == deleted {
			delete(fold[k], string(r.UID))
		}
	}
	newest := len(v.history.epochs) - 1
	for k := range v.facts {
		for uid, f := range v.state(k, newest, v.end(k, newest)) {
			if fold[k][string(uid)] != fmt.Sprint(f.Revision) {
				return false
			}
		}
	}
	return true
}

func waitFor(g *sync.WaitGroup, limit time.Duration) bool {
	done := make(chan struct{})
	go func() { g.Wait(); close(done) }()
	select {
	case <-done:
		return true
	case <-time.After(limit):
		return false
	}
}
