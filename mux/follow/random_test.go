package follow_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/testing/apiserver"
	"github.com/gvrwatch/gvrwatch/internal/testing/oracle"
	"github.com/gvrwatch/gvrwatch/internal/testing/scenario"
	"github.com/gvrwatch/gvrwatch/internal/testing/seedtest"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/mux/follow"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

const followSeeds = seedtest.Default(12)

// TestRandom follows types that come and go, change versions, and may be watched in changing namespaces, while objects
// change and requests fail.
//
//  1. In every third seed the program has a checkpoint and is restarted several times, after an orderly end or a kill.
//  2. What each run delivered of each namespace, and its checkpoint, is checked against the promises.
//  3. Where no history was lost, each change was delivered once, in order.
//  4. What all runs handled adds up to what exists in the end.
func TestRandom(t *testing.T) {
	var exact, all atomic.Int64
	t.Run("seeds", func(t *testing.T) {
		followSeeds.Run(t, func(t *testing.T, n uint64) {
			synctest.Test(t, func(t *testing.T) {
				p := newRandomFollow(t, n)
				p.run()
				exact.Add(int64(p.exact))
				if !p.restarts {
					all.Add(int64(len(p.Resources) * len(p.Namespaces)))
				}
			})
		})
	})
	if followSeeds.Count() > 20 && exact.Load()*20 < all.Load() {
		t.Errorf("only %d of %d namespaces could be checked change by change", exact.Load(), all.Load())
	}
}

// randomFollow is one seed.
type randomFollow struct {
	*scenario.Scenario
	restarts, tracked, crashes, slow bool
	overflow                         mux.Overflow

	store  *checkpoint.Memory
	broken map[string]bool // resources whose history was lost
	runs   []*followRun
	exact  int // namespaces that were checked change by change
}

// followRun is one run of the program.
type followRun struct {
	*follower
	store   *scenario.Killable
	tracker *checkpoint.Tracker // nil for none
	end     context.CancelCauseFunc
	before  map[string]*checkpoint.Position // by key
	after   map[string]*checkpoint.Position
	events  []stream.Event
	acked   int
}

func newRandomFollow(t *testing.T, seed uint64) *randomFollow {
	p := &randomFollow{Scenario: scenario.New(t, seed, 5, []gvr.Resource{robots, rovers}, "one", "two", "three"),
		overflow: mux.Block, store: &checkpoint.Memory{}, broken: map[string]bool{}}
	p.restarts = seed%3 == 2
	p.tracked = p.restarts || p.Chance(30)
	p.crashes = p.restarts && p.Chance(50)
	p.slow = p.Chance(25) && (p.restarts || !p.tracked)
	if p.restarts && p.Chance(50) || p.Chance(10) {
		p.overflow = mux.Latest
	}
	return p
}

func (p *randomFollow) run() {
	served := []gvr.Resource{robotsV2, planets, spaces}
	if p.Chance(50) {
		served = append(served, apiserver.Reviews()...)
	}
	p.Server.Serve(served...)
	for _, n := range p.Namespaces {
		p.Server.Put(spaces, "", n)
	}
	p.Writes(p.Rand, 14)
	if p.restarts && p.Chance(50) || p.Chance(10) {
		p.Faults(19, "401", "403", "404", "410", "500", "503", "429 retry-after 2s", "reset", "close", "hang",
			"slow 3s")
	}
	p.begin()
	writing, over := context.WithCancel(p.Context())
	own := rand.New(rand.NewPCG(p.Uint64(), 6))
	var writer sync.WaitGroup
	writer.Go(func() {
		for writing.Err() == nil {
			time.Sleep(time.Duration(own.IntN(1500)) * time.Millisecond)
			p.Writes(own, 2)
		}
	})
	for range 3 + p.IntN(10) {
		p.sleep(25)
		if p.restarts && p.Chance(40) {
			p.stop()
			p.sleep(5)
			p.begin()
		} else {
			p.act()
		}
	}
	over()
	writer.Wait()
	p.Do("heal", "create crd")
	p.Server.Serve(append(served, p.Resources...)...)
	time.Sleep(11 * time.Minute)
	states := p.runs[len(p.runs)-1].m.Status().Resources
	p.stop()
	p.check(states)
}

// sleep sleeps up to most seconds.
func (p *randomFollow) sleep(most int) {
	time.Sleep(time.Duration(p.IntN(most*1000)) * time.Millisecond)
}

// begin begins a run, which resumes if there is a checkpoint.
func (p *randomFollow) begin() {
	r := &followRun{store: &scenario.Killable{Store: p.store}, before: p.positions()}
	if p.tracked {
		r.tracker = scenario.NewTracker(p.T, r.store)
	}
	options := stream.Options{Requests: stream.Requests{PageSize: p.IntN(4)}, Objects: p.Objects()}
	selection := follow.Selection{Resources: []string{"*.example.com", "planets"}, CandidateNamespaces: p.Namespaces}
	r.follower = newFollower(p.T, p.Server, selection, &follow.Options{
		Mux:    mux.Options{Overflow: p.overflow},
		Source: watchedWith(options, stream.Run{Checkpoint: r.tracker}),
		StatusChanged: func(s follow.ResourceStatus) {
			p.Note("    %s %s %q %v", s.Resource, s.State, s.Namespaces, s.Cause)
		},
	})
	r.handle = func(ev stream.Event) {
		if r.store.IsDead() {
			return
		}
		ev = p.Decoded(ev)
		p.Note("%s [%s] %s", mux.SourceOf(ev), ev.Namespace, oracle.TextUID(ev))
		r.events = append(r.events, ev)
		if p.slow {
			time.Sleep(250 * time.Millisecond)
		}
		if r.store.IsDead() {
			return
		}
		if was := p.Apply(ev); was != "" && !p.crashes && !p.slow {
			p.Errorf("%s is delivered without DELETED of %s", oracle.TextUID(ev), was)
		}
		r.acked++
		ev.Ack()
	}
	ctx, end := context.WithCancelCause(p.Context())
	r.end = end
	r.start(ctx)
	p.runs = append(p.runs, r)
}

func (p *randomFollow) positions() map[string]*checkpoint.Position {
	all := map[string]*checkpoint.Position{}
	for _, r := range p.Resources {
		all[r.GroupResource().String()] = scenario.PositionIn(p.T, p.store, r)
	}
	return all
}

// stop ends the run, or kills it.
func (p *randomFollow) stop() {
	r, over := p.runs[len(p.runs)-1], errors.New("the run is over")
	if p.crashes {
		r.store.Kill()
	}
	r.end(over)
	if err := <-r.ended; err != over {
		p.Errorf("the run ended with %v", err)
	}
	if r.tracker != nil {
		if err := r.tracker.Close(); err != nil && !p.crashes {
			p.Errorf("Close of the tracker returns %v", err)
		}
	}
	r.after = p.positions()
	p.Note("the end")
}

// act changes the server.
func (p *randomFollow) act() {
	name, n := scenario.Pick(p.Rand, p.Resources...).GroupVersionResource.Resource, scenario.Pick(p.Rand,
		p.Namespaces...)
	switch p.IntN(13) {
	case 0, 1:
		p.Do(name+" forbid all", name+" allow all in "+n)
		if p.Chance(70) {
			p.Do(name + " close watches")
		}
	case 2, 3:
		p.Do(name + " allow all in " + n)
	case 4, 5:
		p.Do(name + " allow all")
	case 6:
		p.Do(name + " forbid all in " + n)
	case 12: // one of several is refused for a while
		p.Do(name+" forbid all", name+" close watches")
		for _, n := range p.Namespaces {
			p.Do(name + " allow all in " + n)
		}
		p.sleep(15)
		p.Do(name+" forbid all in "+n, name+" close watches")
		p.sleep(15)
		p.Do(name + " allow all in " + n)
	case 7:
		p.broken[name] = true
		p.Do(name + " delete crd")
		if p.sleep(8); p.Chance(30) {
			time.Sleep(6 * time.Minute) // it is let go
		}
		p.Do(name + " create crd")
	case 8:
		p.Note("another version")
		if p.Chance(50) {
			p.Server.Unserve(robotsV2)
		} else {
			p.Server.Serve(robotsV2)
			p.Server.Unserve(robots)
		}
		p.Do("robots close watches")
		p.sleep(5)
		p.Server.Serve(robots)
	case 9:
		p.broken[name] = true
		p.Do(name + " expire")
	case 10:
		p.Do("discovery down example.com")
		p.sleep(20)
		p.Do("discovery up example.com")
	case 11:
		p.Do(name + " close watches")
	}
}

func (p *randomFollow) check(states []follow.ResourceStatus) {
	p.CheckDatabase(nil)
	for _, s := range states {
		if s.State != follow.Watching {
			p.Errorf("%s is %s: %v", s.Resource, s.State, s.Cause)
		}
	}
	for i, r := range p.runs {
		for _, res := range p.Resources {
			for _, n := range p.Namespaces {
				if p.Failed() {
					continue
				}
				err, key := p.checkRun(r, res, n, i == len(p.runs)-1), res.GroupResource().String()
				if err != nil {
					p.Errorf("run %d, %s in %s: %v\nbefore: %+v\nafter: %+v", i, key, n, err,
						r.before[key], r.after[key])
				}
			}
		}
	}
	if p.Failed() {
		p.Logf("restarts %v, tracked %v, crashes %v, slow %v, %s\n%s\n%s%s", p.restarts, p.tracked, p.crashes,
			p.slow, p.overflow, strings.Join(p.Log, "\n"), scenario.HistoryText(p.Server.History(robots, nil)),
			scenario.HistoryText(p.Server.History(rovers, nil)))
	}
}

// checkRun checks what a run delivered of a namespace, and its checkpoint, against the promises.
func (p *randomFollow) checkRun(r *followRun, res gvr.Resource, n string, last bool) error {
	key := res.GroupResource().String()
	before, after := within(r.before[key], n), within(r.after[key], n)
	events, acked, lost := p.eventsIn(r, res, n)
	opts := streamtest.CheckOptions{
		Complete: last, Latest: p.overflow == mux.Latest, Namespaces: []string{n, "nowhere"},
	}
	kept := func(events []stream.Event) error {
		return oracle.CheckCheckpoint(oracle.CheckpointRun{Before: before, After: after, Events: events,
			Acked: func(i int) bool { return i < acked }, Options: opts})
	}
	var checkpointErr error
	if p.tracked {
		checkpointErr = kept(events)
	}
	if checkpointErr != nil && after != nil && len(after.ResourceVersions) == 0 {
		// At some moment the namespace was no longer watched.
		acked++
		checkpointErr = oneOf(events, stream.Event{Type: stream.Gap, Namespace: n, Resource: res}, 0, acked-1, kept)
	}
	if p.tracked && p.slow { // events not acked soon after a run has ended are delivered again
		return checkpointErr
	}
	opts.From = before
	h := p.Server.History(res, &stream.Options{Namespaces: []string{n}})
	if !last {
		return errors.Join(checkpointErr, streamtest.Check(h, events, &opts))
	}
	// eventsIn leaves SYNCED out, since it is of all namespaces; in the end there is one. Where no history was lost it
	// comes after a snapshot and before the changes since.
	least, most := len(events), len(events)
	if before == nil && !lost && !opts.Latest {
		p.exact++
		least, most = 0, snapshot(events)
	}
	return errors.Join(checkpointErr, oneOf(events, stream.Event{Type: stream.Synced, Resource: res}, least, most,
		func(events []stream.Event) error { return streamtest.Check(h, events, &opts) }))
}

// oneOf checks the events with one more of them, at any place from least to most. It returns nil if one place is right.
func oneOf(events []stream.Event, more stream.Event, least, most int, check func([]stream.Event) error) (err error) {
	for at := most; at >= least; at-- {
		if err = check(slices.Insert(slices.Clone(events), at, more)); err == nil {
			break
		}
	}
	return err
}

// eventsIn returns the events of a namespace, how many of them were acked, and whether history was lost.
func (p *randomFollow) eventsIn(r *followRun, res gvr.Resource, n string) (events []stream.Event, acked int,
	lost bool) {
	lost = p.broken[res.GroupVersionResource.Resource]
	known, before, at := map[types.UID]bool{}, within(r.before[res.GroupResource().String()], n), ""
	if before != nil {
		at = before.ResourceVersions[n]
		for _, o := range before.Objects {
			known[o.UID] = true
		}
	}
	for i, ev := range r.events {
		switch {
		case mux.SourceOf(ev) != res.GroupResource().String():
			continue
		case ev.Object != nil && ev.Object.GetNamespace() == n:
			uid := ev.Object.GetUID()
			if p.tracked && ev.Inferred && ev.Type == stream.Deleted && !known[uid] {
				continue // the object was about to be delivered when a run ended
			}
			known[uid] = ev.Type != stream.Deleted
			lost, at = lost || ev.Inferred, ev.ResourceVersion
			ev.Object = ev.Object.DeepCopy()
			ev.Object.SetAPIVersion(res.GroupVersion().String())
		case ev.Type == stream.Gap && (ev.Namespace == "" || ev.Namespace == n ||
			before != nil && ev.Gap.Reason == stream.GapScope): // then this namespace may no longer be watched
			lost = true
			if ev.Gap.Reason == stream.GapScope && ev.Namespace == "" { // or was not watched before
				ev.Gap = &stream.GapDetails{Reason: stream.GapScope, From: at, To: ev.Gap.To}
			}
		default:
			continue
		}
		ev.Namespace, ev.Resource = n, res // whatever version it was served in
		if events = append(events, ev); i < r.acked {
			acked = len(events)
		}
	}
	return events, acked, lost
}

// snapshot returns how many events belong to the first snapshot.
func snapshot(events []stream.Event) int {
	names := map[string]bool{}
	for i, ev := range events {
		if ev.Type != stream.Added || names[ev.Object.GetName()] {
			return i
		}
		names[ev.Object.GetName()] = true
	}
	return len(events)
}

// within returns the part of a position that belongs to a namespace.
func within(p *checkpoint.Position, n string) *checkpoint.Position {
	if p == nil {
		return nil
	}
	part := *p
	part.ResourceVersions = map[string]string{}
	rv, ok := p.ResourceVersions[n]
	if !ok { // an empty version means within a snapshot, and a missing one that the cluster was watched
		rv = p.ResourceVersions[""]
	}
	if rv != "" {
		part.ResourceVersions[n] = rv
	}
	other := func(o checkpoint.Object) bool { return o.Namespace != n }
	part.Objects = slices.DeleteFunc(slices.Clone(p.Objects), other)
	return &part
}
