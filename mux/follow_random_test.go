package mux_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/seedtest"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

const followSeeds = seedtest.Default(24)

// TestFollowAtRandom follows types that come and go, are served in one version or
// the other, and may be watched here or there, while their objects change. What is
// told of each namespace is held to the promises; and where nothing was lost on
// the way, each change must have been told once, in order.
func TestFollowAtRandom(t *testing.T) {
	var exact, all atomic.Int64
	t.Run("seeds", func(t *testing.T) {
		followSeeds.Play(t, func(t *testing.T, n uint64) {
			synctest.Test(t, func(t *testing.T) {
				r := &roam{T: t, Rand: rand.New(rand.NewPCG(n, 5)), seed: n}
				e, a := r.run()
				exact.Add(int64(e))
				all.Add(int64(a))
			})
		})
	})
	if followSeeds.Count() > 20 && exact.Load()*4 < all.Load() {
		t.Errorf("%d of %d namespaces could be checked change by change: too few to say much", exact.Load(), all.Load())
	}
}

type roam struct {
	*testing.T
	*rand.Rand
	seed    uint64
	f       *followed
	tracked bool
	acts    []string
	broken  map[string]bool // resources whose history was cut
}

var (
	roamTypes      = []gvr.Resource{robots, rovers}
	roamNamespaces = []string{"one", "two", "three"}
)

func (r *roam) chance(percent int) bool { return r.IntN(100) < percent }

func (r *roam) run() (exact, all int) {
	served := []gvr.Resource{robots, robotsV2, rovers, planets, spaces}
	if r.chance(50) {
		served = append(served, streamtest.Reviews()...)
	}
	srv := streamtest.NewServer(served...)
	for _, n := range roamNamespaces {
		srv.Put(spaces, "", n)
	}
	opts := &mux.FollowOptions{}
	if r.tracked = r.chance(30); r.tracked {
		tracker, err := checkpoint.NewTracker(checkpoint.NewMemory(), &checkpoint.Options{Cluster: checkpoint.Cluster{UID: "c"}})
		if err != nil {
			r.Fatal(err)
		}
		defer tracker.Close()
		opts.Stream = func(gvr.Resource) stream.Options { return stream.Options{Checkpoint: tracker} }
	}
	sel := mux.Selection{Resources: []string{"*.example.com", "planets"}, Candidates: roamNamespaces}
	r.f = follow(r.T, srv, sel, opts)
	r.broken = map[string]bool{}
	for range r.IntN(15) {
		r.write()
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	r.start(ctx)
	var writer sync.WaitGroup
	writing, over := context.WithCancel(ctx)
	w := *r
	w.Rand = rand.New(rand.NewPCG(r.seed, 6))
	writer.Go(func() {
		for writing.Err() == nil {
			time.Sleep(time.Duration(w.IntN(1500)) * time.Millisecond)
			for range w.IntN(3) {
				w.write()
			}
		}
	})
	for range 3 + r.IntN(10) {
		time.Sleep(time.Duration(r.IntN(25000)) * time.Millisecond)
		r.act()
	}
	over()
	writer.Wait()
	r.act2("heal", "create crd")
	srv.Serve(served...)
	time.Sleep(11 * time.Minute)
	states := r.f.m.Status()
	done := errors.New("done")
	cancel(done)
	if err := <-r.f.ended; err != done {
		r.Errorf("it ended with %v", err)
	}
	var wrong []error
	for _, t := range roamTypes {
		for _, n := range roamNamespaces {
			all++
			isExact, err := r.check(t, n)
			if isExact {
				exact++
			}
			if err != nil {
				wrong = append(wrong, err)
			}
		}
	}
	for _, s := range states.Followed {
		if s.State != mux.FollowWatching {
			wrong = append(wrong, fmt.Errorf("%s is %s: %w", s.Resource, s.State, s.Cause))
		}
	}
	if err := errors.Join(wrong...); err != nil {
		r.Errorf("%v\nacts:\n%s\nstates:\n%s\nrequests:\n%s", err, strings.Join(r.acts, "\n"), strings.Join(r.f.states, "\n"), requestText(srv, r.chance(0)))
	}
	return exact, all
}

func requestText(srv *streamtest.Server, discovery bool) string {
	var b strings.Builder
	for _, q := range srv.Requests() {
		if q.Verb == "discovery" && !discovery || q.Verb == "create" {
			continue
		}
		fmt.Fprintf(&b, "%s %s %s in %q rv=%q limit=%d: %d\n", q.At.Format("04:05.000"), q.Verb, q.Resource, q.Namespace, q.ResourceVersion, q.Limit, q.Code)
	}
	return b.String()
}

// start ranges in a loop whose body takes its time now and then, and acks.
func (r *roam) start(ctx context.Context) {
	// With a checkpoint, what has not been acked when a leg has waited for it comes
	// again.
	slow := r.chance(20) && !r.tracked
	go func() {
		var last error
		for ev, err := range r.f.m.Events(ctx) {
			if err != nil {
				last = err
				break
			}
			if slow {
				time.Sleep(300 * time.Millisecond)
			}
			r.f.mu.Lock()
			r.f.events = append(r.f.events, ev)
			r.f.lines = append(r.f.lines, time.Now().Format("04:05.000 ")+ev.Source+" "+streamtest.TextUID(ev))
			r.f.mu.Unlock()
			ev.Ack()
		}
		r.f.ended <- last
	}()
}

func (r *roam) write() {
	t, n, name := roamTypes[r.IntN(len(roamTypes))], roamNamespaces[r.IntN(len(roamNamespaces))], string(rune('a'+r.IntN(4)))
	defer func() { _ = recover() }() // Put panics while the type is not served
	if r.chance(30) {
		_, _ = r.f.srv.Delete(t, n, name)
		return
	}
	r.f.srv.Put(t, n, name, fmt.Sprint("spec.n=", r.IntN(1000)))
}

func (r *roam) act2(whats ...string) {
	for _, what := range whats {
		r.acts = append(r.acts, time.Now().Format("04:05.000 ")+what)
		r.f.do(what)
	}
}

// act does something to the server.
func (r *roam) act() {
	t := roamTypes[r.IntN(len(roamTypes))]
	name := t.GroupVersionResource.Resource
	n := roamNamespaces[r.IntN(len(roamNamespaces))]
	switch r.IntN(12) {
	case 0, 1:
		r.act2(name+" forbid all", name+" allow all in "+n)
		if r.chance(70) {
			r.act2(name + " close watches")
		}
	case 2, 3:
		r.act2(name + " allow all in " + n)
	case 4, 5:
		r.act2(name + " allow all")
	case 6:
		r.act2(name + " forbid all in " + n)
	case 7:
		r.broken[name] = true
		r.act2(name + " delete crd")
		time.Sleep(time.Duration(r.IntN(8000)) * time.Millisecond)
		r.act2(name + " create crd")
	case 8:
		r.acts = append(r.acts, time.Now().Format("04:05.000 ")+"another version")
		if r.chance(50) {
			r.f.srv.Unserve(robotsV2)
		} else {
			r.f.srv.Serve(robotsV2)
			r.f.srv.Unserve(robots)
		}
		r.act2("robots close watches")
		time.Sleep(time.Duration(r.IntN(5000)) * time.Millisecond)
		r.f.srv.Serve(robots)
	case 9:
		r.broken[name] = true
		r.act2(name + " expire")
	case 10:
		r.act2("discovery down example.com")
		time.Sleep(time.Duration(r.IntN(20000)) * time.Millisecond)
		r.act2("discovery up example.com")
	case 11:
		r.act2(name + " close watches")
	}
}

// check holds what was told of a namespace to the promises. It says whether it
// could be done change by change.
func (r *roam) check(t gvr.Resource, n string) (exact bool, err error) {
	var events []stream.Event
	var lines []string
	key := t.GroupResource().String()
	inferred := r.broken[t.GroupVersionResource.Resource]
	known := map[types.UID]bool{}
	for i, ev := range r.f.events {
		if ev.Source != key {
			continue
		}
		switch {
		case ev.Object != nil && ev.Object.GetNamespace() == n:
			uid := ev.Object.GetUID()
			if r.tracked && ev.Inferred && ev.Type == stream.Deleted && !known[uid] {
				continue // it was about to be told when a leg ended
			}
			known[uid] = ev.Type != stream.Deleted
			inferred = inferred || ev.Inferred
		case ev.Type == stream.Gap && (ev.Namespace == "" || ev.Namespace == n):
			inferred = true
		default:
			continue
		}
		ev.Namespace, ev.Resource = n, t // whatever version it was served in
		if ev.Object != nil {
			ev.Object = ev.Object.DeepCopy()
			ev.Object.SetAPIVersion(t.GroupVersion().String())
		}
		events, lines = append(events, ev), append(lines, r.f.lines[i])
	}
	h := r.f.srv.History(t, &stream.Options{Namespaces: []string{n}})
	if !inferred {
		err = changeByChange(h, events)
		exact = true
	} else {
		events = append(events, stream.Event{Type: stream.Synced, Resource: t})
		err = streamtest.Check(h, events, &streamtest.CheckOptions{Namespaces: []string{n, "nowhere"}, Settled: true})
	}
	if err != nil {
		var history []string
		for _, c := range h.Changes {
			history = append(history, fmt.Sprintf("%s %s %s(%s)@%s", c.At.Format("04:05.000"), c.Type, c.Object.GetName(), c.Object.GetUID(), c.ResourceVersion))
		}
		err = fmt.Errorf("%s in %s: %w\ntold:\n%s\nhistory:\n%s", key, n, err, strings.Join(lines, "\n"), strings.Join(history, "\n"))
	}
	return exact, err
}

// changeByChange says whether what was told is what existed at some moment, and
// then each change.
func changeByChange(h streamtest.History, events []stream.Event) error {
	var told, changes []string
	for _, ev := range events {
		told = append(told, fmt.Sprint(ev.Type, " ", ev.Object.GetUID(), " ", ev.ResourceVersion))
	}
	for _, c := range h.Changes {
		changes = append(changes, fmt.Sprint(c.Type, " ", c.Object.GetUID(), " ", c.ResourceVersion))
	}
	for k := len(changes); k >= 0; k-- {
		tail := changes[k:]
		if len(tail) > len(told) || !slices.Equal(told[len(told)-len(tail):], tail) {
			continue
		}
		state := map[string]string{}
		for _, c := range h.Changes[:k] {
			name := c.Object.GetName()
			if c.Type == watch.Deleted {
				delete(state, name)
			} else {
				state[name] = fmt.Sprint(stream.Added, " ", c.Object.GetUID(), " ", c.ResourceVersion)
			}
		}
		head := slices.Sorted(slices.Values(told[:len(told)-len(tail)]))
		var want []string
		for _, s := range state {
			want = append(want, s)
		}
		slices.Sort(want)
		if slices.Equal(head, want) {
			return nil
		}
	}
	return errors.New("what was told is not what existed at some moment and each change since")
}
