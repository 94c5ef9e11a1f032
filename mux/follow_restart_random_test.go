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

	"k8s.io/apimachinery/pkg/watch"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

// TestFollowRestartsAtRandom is as TestFollowAtRandom, with a checkpoint and a
// program that ends and begins again, orderly or not, under random faults: what was
// told in all its lives must add up to what exists in the end. It plays half as
// many seeds.
func TestFollowRestartsAtRandom(t *testing.T) {
	(followSeeds / 2).Play(t, func(t *testing.T, n uint64) {
		synctest.Test(t, func(t *testing.T) { newRestarts(t, n).run() })
	})
}

type restarts struct {
	*roam
	store         *checkpoint.Memory
	crashes, slow bool
	overflow      mux.Overflow

	mu   sync.Mutex
	fold map[string]string // UID@VERSION by RESOURCE NAMESPACE/NAME, as told
	log  []string
}

// programLife is one of the program.
type programLife struct {
	mux  *mux.Mux
	dead atomic.Bool // nothing that it does counts any more
	stop func()
}

// mortal is a Store whose program may be dead.
type mortal struct {
	checkpoint.Store
	of *programLife
}

func (m mortal) Commit(ctx context.Context, d []checkpoint.Delta) error {
	if m.of.dead.Load() {
		return errors.New("the program is dead")
	}
	return m.Store.Commit(ctx, d)
}

func newRestarts(t *testing.T, seed uint64) *restarts {
	r := &restarts{store: checkpoint.NewMemory(), fold: map[string]string{}, overflow: mux.Block}
	r.roam = &roam{T: t, Rand: rand.New(rand.NewPCG(seed, 7)), seed: seed, broken: map[string]bool{}, tracked: true}
	r.crashes, r.slow = r.chance(50), r.chance(30)
	if r.chance(50) {
		r.overflow = mux.Latest
	}
	return r
}

func (r *restarts) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log = append(r.log, time.Now().Format("04:05.000 ")+fmt.Sprintf(format, args...))
}

func (r *restarts) faults() string {
	var script strings.Builder
	for range r.IntN(20) {
		of := roamTypes[r.IntN(len(roamTypes))].GroupVersionResource.Resource
		n, in := 1+r.IntN(40), ""
		if r.chance(40) {
			n, in = 1+r.IntN(8), " in "+roamNamespaces[r.IntN(len(roamNamespaces))]
		}
		trigger := []string{"list", "page", "probe", "watch", "initial"}[r.IntN(5)]
		fault := []string{"401", "403", "404", "410", "500", "503", "429 retry-after 2s", "reset", "close", "hang", "slow 3s"}[r.IntN(11)]
		fmt.Fprintf(&script, "%s %s %d-%d%s: %s\n", of, trigger, n, n+r.IntN(3), in, fault)
	}
	return script.String()
}

func (r *restarts) run() {
	served := []gvr.Resource{robots, robotsV2, rovers, planets, spaces}
	if r.chance(50) {
		served = append(served, streamtest.Reviews()...)
	}
	srv := streamtest.NewServer(served...)
	r.f = &followed{T: r.T, srv: srv, began: time.Now()}
	for _, n := range roamNamespaces {
		srv.Put(spaces, "", n)
	}
	for range r.IntN(15) {
		r.write()
	}
	if r.chance(50) {
		r.f.apply(r.faults())
	}
	life := r.begin()
	w := *r.roam
	w.Rand = rand.New(rand.NewPCG(r.seed, 8))
	writing, over := context.WithCancel(r.Context())
	var writer sync.WaitGroup
	writer.Go(func() {
		for writing.Err() == nil {
			time.Sleep(time.Duration(w.IntN(1500)) * time.Millisecond)
			for range w.IntN(3) {
				w.write()
			}
		}
	})
	for range 4 + r.IntN(10) {
		time.Sleep(time.Duration(r.IntN(25000)) * time.Millisecond)
		if r.chance(40) {
			life.stop()
			time.Sleep(time.Duration(r.IntN(5000)) * time.Millisecond)
			life = r.begin()
			continue
		}
		n := len(r.acts)
		r.act()
		for _, what := range r.acts[n:] {
			r.note("act of %s", what)
		}
	}
	over()
	writer.Wait()
	r.act2("heal", "create crd")
	srv.Serve(served...)
	time.Sleep(11 * time.Minute)
	states := life.mux.Status().Followed
	life.stop()
	r.check(states)
}

// begin begins a life, which goes on where the last one was.
func (r *restarts) begin() *programLife {
	life := &programLife{}
	tracker, err := checkpoint.NewTracker(mortal{r.store, life}, &checkpoint.Options{Cluster: checkpoint.Cluster{UID: "c"}})
	if err != nil {
		r.Fatal(err)
	}
	client, err := stream.NewClient(r.f.srv.Config(), nil)
	if err != nil {
		r.Fatal(err)
	}
	dc, err := discovery.NewClient(r.f.srv.Config())
	if err != nil {
		r.Fatal(err)
	}
	life.mux, err = mux.Follow(discovery.NewResolver(dc, nil), client, mux.Selection{Resources: []string{"*.example.com", "planets"}, Candidates: roamNamespaces}, &mux.FollowOptions{
		Mux: mux.Options{Overflow: r.overflow},
		Stream: func(gvr.Resource) stream.Options {
			return stream.Options{Checkpoint: tracker, PageSize: 1 + int(r.seed%3)}
		},
		StatusChanged: func(s mux.Followed) { r.note("    %s %s %q %v", s.Resource, s.State, s.Namespaces, s.Cause) },
	})
	if err != nil {
		r.Fatal(err)
	}
	ended := errors.New("its time is over")
	ctx, cancel := context.WithCancelCause(r.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ev, err := range life.mux.Events(ctx) {
			if err != nil {
				if err != ended {
					r.Errorf("it ended with %v", err)
				}
				return
			}
			if r.slow {
				time.Sleep(200 * time.Millisecond)
			}
			if !life.dead.Load() {
				r.take(ev)
				ev.Ack()
			}
		}
	}()
	life.stop = func() {
		life.dead.Store(r.crashes)
		cancel(ended)
		<-done
		err := tracker.Close()
		if r.note("RESTART"); err != nil && !r.crashes {
			r.Errorf("the tracker is closed with %v", err)
		}
	}
	return life
}

// take does what an event says.
func (r *restarts) take(ev stream.Event) {
	r.note("%s [%s] %s", ev.Source, ev.Namespace, streamtest.TextUID(ev))
	if ev.Object == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	uid := string(ev.Object.GetUID())
	name := fmt.Sprintf("%s %s/%s", ev.Source, ev.Object.GetNamespace(), ev.Object.GetName())
	was, _, _ := strings.Cut(r.fold[name], "@")
	switch {
	case ev.Type != stream.Deleted:
		if !r.crashes && !r.slow && was != "" && was != uid {
			r.Errorf("%s: %s comes, and the end of %s has not been told", name, uid, was)
		}
		r.fold[name] = uid + "@" + ev.ResourceVersion
	case was == uid:
		delete(r.fold, name)
	}
}

func (r *restarts) check(states []mux.Followed) {
	exists := map[string]string{}
	for _, res := range roamTypes {
		for _, c := range r.f.srv.History(res, nil).Changes {
			name := fmt.Sprintf("%s %s/%s", res.GroupResource(), c.Object.GetNamespace(), c.Object.GetName())
			if c.Type == watch.Deleted {
				delete(exists, name)
			} else {
				exists[name] = string(c.Object.GetUID()) + "@" + c.ResourceVersion
			}
		}
	}
	lines := func(m map[string]string) (all []string) {
		for name, v := range m {
			all = append(all, name+" "+v)
		}
		slices.Sort(all)
		return all
	}
	if told, is := lines(r.fold), lines(exists); !slices.Equal(told, is) {
		r.Errorf("told: %q\nis:   %q", told, is)
	}
	for _, s := range states {
		if s.State != mux.FollowWatching {
			r.Errorf("%s is %s: %v", s.Resource, s.State, s.Cause)
		}
	}
	if r.Failed() {
		r.Logf("crashes %v, slow %v, %s\n%s", r.crashes, r.slow, r.overflow, strings.Join(r.log, "\n"))
	}
}
