package follow_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/gvr"
	"github.com/gvrwatch/gvrwatch/internal/testing/scenario"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/mux/follow"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/condition"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

var ofExample = follow.Selection{Resources: []string{"*.example.com"}}

// clusters are followed by one Mux. A prefix is the name of a cluster.
type clusters struct {
	*testing.T
	m       *mux.Mux
	servers map[string]*streamtest.Server
	follow  map[string]*follow.Mux

	mu     sync.Mutex
	handle func(stream.Event) // in the loop body; nil for nothing
	events []stream.Event
	lines  []string // since the last take
	ended  chan error
}

func newClusters(t *testing.T, o *mux.Options) *clusters {
	m, err := mux.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return &clusters{T: t, m: m, servers: map[string]*streamtest.Server{}, follow: map[string]*follow.Mux{},
		ended: make(chan error, 1)}
}

// followServer follows a server as a cluster.
func (c *clusters) followServer(prefix string, srv *streamtest.Server, o follow.Options) error {
	client, err := stream.NewClient(srv.Config(), nil)
	if err != nil {
		c.Fatal(err)
	}
	dc, err := discovery.NewClient(srv.Config())
	if err != nil {
		c.Fatal(err)
	}
	o.Into, o.Prefix = c.m, prefix
	f, err := follow.New(discovery.NewResolver(dc, 0), client, ofExample, &o)
	if err == nil {
		c.servers[prefix], c.follow[prefix] = srv, f
	}
	return err
}

// add follows a new server that serves these resources as a cluster.
func (c *clusters) add(prefix string, o follow.Options, served ...gvr.Resource) *streamtest.Server {
	srv := streamtest.NewServer(served...)
	if err := c.followServer(prefix, srv, o); err != nil {
		c.Fatal(err)
	}
	return srv
}

func (c *clusters) start(ctx context.Context) {
	go func() {
		var last error
		for ev, err := range c.m.Events(ctx) {
			if err != nil {
				last = err
				break
			}
			c.mu.Lock()
			c.events = append(c.events, ev)
			c.lines = append(c.lines, fmt.Sprint(mux.PrefixOf(ev), " ", ev.Resource.GroupResource(), " ", ev))
			handle := c.handle
			c.mu.Unlock()
			if handle != nil {
				handle(ev)
			}
		}
		c.ended <- last
	}()
}

// do sets what the loop body does; nil for nothing.
func (c *clusters) do(handle func(stream.Event)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.handle = handle
}

// after waits and compares what is delivered meanwhile, in any order.
func (c *clusters) after(d time.Duration, why string, want ...string) {
	c.Helper()
	time.Sleep(d)
	c.mu.Lock()
	defer c.mu.Unlock()
	slices.Sort(c.lines)
	if diff := gocmp.Diff(want, c.lines); diff != "" {
		c.Errorf("%s (-want +got):\n%s", why, diff)
	}
	c.lines = nil
}

func (c *clusters) stop() {
	c.Helper()
	c.m.Stop()
	if err := <-c.ended; err != nil {
		c.Errorf("the run ended with %v", err)
	}
}

// of returns the events of a resource of a cluster.
func (c *clusters) of(prefix string, r gvr.Resource) (events []stream.Event) {
	for _, ev := range c.events {
		if mux.PrefixOf(ev) == prefix && ev.Resource.GroupResource() == r.GroupResource() {
			events = append(events, ev)
		}
	}
	return events
}

// The sequence of each resource of each cluster keeps the promises, whatever happens to the other cluster. The objects
// of the clusters have the same names and uids.
func TestClustersAreOneSequence(t *testing.T) {
	tests := []struct {
		script string // of one cluster, the other one has no faults
		do     []string
		why    string
	}{
		{"", []string{"restart"}, "one cluster restarts"},
		{"at 3s: restart\nany *: refuse\nat 40s: heal", nil, "one restarts and is away"},
		{"at 2s: silence\nat 3s: restart\nany *: hang\nat 100s: heal", nil, "one hangs"},
		{"", []string{"robots delete crd", "robots create crd"}, "a type goes and comes in one"},
		{"at 2s: discovery down example.com\nat 3s: restart\nat 50s: discovery up example.com", nil,
			"the discovery of one fails"},
		{"at 2s: robots forbid all\nat 2s: robots close watches\nat 30s: robots allow", nil,
			"a right is taken away in one"},
		{"", []string{"rewind 2 restart"}, "one is restored from a backup"},
	}
	for _, tt := range tests {
		for _, overflow := range []mux.Overflow{mux.Block, mux.Latest} {
			synctest.Test(t, func(t *testing.T) {
				c := newClusters(t, &mux.Options{Overflow: overflow})
				eu, us := c.add("eu", follow.Options{}, robots, rovers), c.add("us", follow.Options{}, robots, rovers)
				var latest atomic.Int64 // when an event of eu was delivered
				c.do(func(ev stream.Event) {
					if overflow == mux.Latest {
						time.Sleep(300 * time.Millisecond) // so that events are coalesced
					}
					if mux.PrefixOf(ev) == "eu" {
						latest.Store(time.Now().UnixNano())
					}
				})
				for _, srv := range []*streamtest.Server{eu, us} {
					for _, r := range []gvr.Resource{robots, rovers} {
						srv.Put(r, "one", "a", "spec.n=0")
						srv.Put(r, "one", "b", "spec.n=0")
					}
				}
				c.start(t.Context())
				time.Sleep(5 * time.Second)
				if err := us.Apply(tt.script); err != nil {
					t.Fatal(err)
				}
				for i := range 60 {
					for _, srv := range []*streamtest.Server{eu, us} {
						srv.Put(robots, "one", "a", fmt.Sprint("spec.n=", i))
						if i%3 == 0 {
							srv.Put(rovers, "one", "c")
						} else if i%3 == 1 {
							_, _ = srv.Delete(rovers, "one", "c")
						}
					}
					if i == 30 {
						for _, what := range tt.do {
							if err := us.Do(what); err != nil {
								t.Fatal(err)
							}
						}
					}
					time.Sleep(time.Second)
					if d := time.Since(time.Unix(0, latest.Load())); d > 2*time.Second {
						t.Errorf("%s: nothing came from the other cluster for %v", tt.why, d)
					}
				}
				time.Sleep(3 * time.Minute)
				c.stop()
				for prefix, srv := range c.servers {
					for _, r := range []gvr.Resource{robots, rovers} {
						events := c.of(prefix, r)
						err := streamtest.Check(srv.History(r, nil), events, &streamtest.CheckOptions{
							Complete: true, Latest: overflow == mux.Latest})
						if err != nil || len(events) == 0 {
							t.Errorf("%s, %s: %d events of %s in %s: %v", tt.why, overflow, len(events),
								r.GroupResource(), prefix, err)
						}
						for _, ev := range events {
							if want := prefix + "/" + r.GroupResource().String(); mux.SourceOf(ev) != want {
								t.Fatalf("the source of %v is %q, want %q", ev, mux.SourceOf(ev), want)
							}
							if prefix == "eu" && (ev.Type == stream.Gap || ev.Inferred) {
								t.Errorf("%s: the other cluster has %v", tt.why, ev)
							}
						}
					}
				}
				if a, b := c.of("eu", robots)[0], c.of("us", robots)[0]; a.Meta().GetUID() != b.Meta().GetUID() {
					t.Errorf("the uids differ, so that the test proves less")
				}
			})
		}
	}
}

// A cluster that does not answer, or may not be read, has a status of its own, and nobody waits for it.
func TestClusterThatDoesNotAnswerConcernsNobodyElse(t *testing.T) {
	tests := []struct{ script, why string }{
		{"any *: hang", "it hangs"},
		{"any *: refuse", "it refuses connections"},
		{"any *: 503 plain", "its proxy answers"},
		{"any *: 401", "its token is bad"},
		{"any *: 403", "nothing is allowed"},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			c := newClusters(t, nil)
			eu, us := c.add("eu", follow.Options{}, robots), c.add("us", follow.Options{}, robots)
			if err := us.Apply(tt.script); err != nil {
				t.Fatal(err)
			}
			c.start(t.Context())
			c.after(3*time.Second, tt.why+": the other one is synced at once", "eu robots.example.com SYNCED @1")
			eu.Put(robots, "one", "a")
			c.after(time.Second, tt.why+": and goes on", "eu robots.example.com ADDED one/a@2")
			time.Sleep(3 * time.Minute)
			if err := c.follow["eu"].Status().Discovery; err != nil {
				t.Errorf("%s: discovery of the other cluster: %v", tt.why, err)
			}
			if st := c.follow["us"].Status(); st.Discovery == nil || st.AllSynced || len(st.Sources) > 0 {
				t.Errorf("%s: the status is %+v, want an error of its discovery and no sources", tt.why, st)
			}
			if st := c.follow["eu"].Status(); !st.AllSynced || len(st.Sources) != 1 ||
				st.Sources[0].Key != "eu/robots.example.com" || len(st.Resources) != 1 {
				t.Errorf("%s: the status of the other one is %+v, want its own source, synced", tt.why, st)
			}
			if err := us.Do("heal"); err != nil {
				t.Fatal(err)
			}
			c.after(time.Minute, tt.why+": it is followed once it answers", "us robots.example.com SYNCED @1")
			c.stop()
		})
	}
}

// A follower takes part in a Mux from New on until its prefix is removed, while the Mux runs and between two runs.
func TestClustersComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClusters(t, nil)
		eu := c.add("eu", follow.Options{}, robots)
		c.start(t.Context())
		c.after(3*time.Second, "one cluster", "eu robots.example.com SYNCED @1")
		us := c.add("us", follow.Options{}, robots, rovers)
		c.after(3*time.Second, "one is added to the run", "us robots.example.com SYNCED @1",
			"us rovers.example.com SYNCED @1")
		us.Put(robots, "one", "a")
		c.after(time.Second, "its events", "us robots.example.com ADDED one/a@2")
		c.do(func(stream.Event) {
			us.Put(robots, "one", "b")
			time.Sleep(time.Second) // its event waits
			if st := c.m.Status(); st.Queued != 1 || !c.m.Remove("us") {
				t.Errorf("%d events wait, or the cluster was not in the Mux", st.Queued)
			}
			us.Put(robots, "one", "c")
		})
		eu.Put(robots, "one", "a")
		c.after(time.Minute, "the loop body has removed one", "eu robots.example.com ADDED one/a@2")
		c.do(nil)
		requests := len(us.Requests())
		time.Sleep(5 * time.Minute)
		if more := len(us.Requests()) - requests; more > 0 {
			t.Errorf("%d requests to the server of the cluster that was removed", more)
		}
		if st := c.m.Status(); len(st.Sources) != 1 || !st.AllSynced || c.m.Remove("us") {
			t.Errorf("the status is %+v, or the cluster is still in the Mux", st)
		}
		for _, one := range c.follow["us"].Status().Resources {
			if one.State != follow.Dropped {
				t.Errorf("%s of the cluster that was removed is %s, want Dropped", one.Resource, one.State)
			}
		}
		if err := c.followServer("us", us, follow.Options{}); err != nil {
			t.Fatal(err)
		}
		c.after(3*time.Second, "a new follower with the prefix begins again", "us robots.example.com ADDED one/a@2",
			"us robots.example.com ADDED one/b@3", "us robots.example.com ADDED one/c@4",
			"us robots.example.com SYNCED @4", "us rovers.example.com SYNCED @4")
		if !c.m.Remove("us/rovers.example.com") || c.m.Remove("us/rovers.example.com") || c.m.Remove("") {
			t.Error("one resource of a cluster can be removed once, and the empty prefix not at all")
		}
		c.stop()
		if !c.m.Remove("eu") || c.m.Remove("eu") {
			t.Error("between two runs a cluster can be removed, once")
		}
		c.start(t.Context())
		c.after(3*time.Second, "the next run has the other one", "us robots.example.com ADDED one/a@2",
			"us robots.example.com ADDED one/b@3", "us robots.example.com ADDED one/c@4",
			"us robots.example.com SYNCED @4", "us rovers.example.com SYNCED @4")
		if !c.m.Remove("us") {
			t.Error("the cluster was not in the Mux")
		}
		c.after(5*time.Minute, "without followers and sources the run waits")
		c.stop()
	})
}

// Two goroutines remove a cluster while it is replaced.
func TestRemovedClusterHasEndedWhenRemoveReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClusters(t, nil)
		inCallback, leave := make(chan bool), make(chan bool)
		first := c.add("us", follow.Options{StatusChanged: func(follow.ResourceStatus) {
			inCallback <- true
			<-leave
		}}, robots)
		c.start(t.Context())
		<-inCallback // the function of the follower, or its source, can't end
		var removing sync.WaitGroup
		removed := make(chan bool, 2)
		c.after(time.Second, "the loop has what came before", "us robots.example.com SYNCED @1")
		for range 2 {
			removing.Go(func() { removed <- c.m.Remove("us") })
			synctest.Wait()
		}
		second := c.add("us", follow.Options{}, rovers)
		time.Sleep(time.Minute)
		if n := len(second.Requests()); n > 0 || len(removed) > 0 {
			t.Errorf("%d requests of the new follower, and %d returned, before the old one has ended", n, len(removed))
		}
		close(leave)
		removing.Wait()
		if a, b := <-removed, <-removed; a == b {
			t.Errorf("both have removed the cluster, or none: %t", a)
		}
		requests := len(first.Requests())
		c.after(3*time.Second, "the new one follows", "us rovers.example.com SYNCED @1")
		if more := len(first.Requests()) - requests; more > 0 {
			t.Errorf("%d requests after Remove", more)
		}
		c.stop()
	})
}

func TestIntoRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, taken, zero := streamtest.NewServer(robots), newClusters(t, nil), &mux.Mux{}
		taken.add("eu", follow.Options{})
		s, err := stream.New(srv.Client(), robots, nil)
		if err == nil {
			err = taken.m.Add(s, &mux.SourceOptions{Key: "us"})
		}
		if err != nil {
			t.Fatal(err)
		}
		tests := []struct {
			options follow.Options
			field   string
			why     string
		}{
			{follow.Options{Prefix: "eu"}, "Prefix", "a prefix without Into"},
			{follow.Options{Into: taken.m}, "Prefix", "no prefix"},
			{follow.Options{Into: taken.m, Prefix: "eu"}, "Prefix", "the prefix of another follower"},
			{follow.Options{Into: taken.m, Prefix: "us"}, "Prefix", "the key of a source"},
			{follow.Options{Into: taken.m, Prefix: "x", Mux: mux.Options{BufferEvents: 1}}, "Mux",
				"options of a new Mux"},
			{follow.Options{Into: zero, Prefix: "x"}, "Mux", "a Mux that was not made"},
			{follow.Options{Into: taken.m, Prefix: "a/b"}, "", "a prefix may have slashes"},
			{follow.Options{Into: taken.m, Prefix: " \n\xff"}, "", "and any other characters"},
		}
		for _, tt := range tests {
			dc, err := discovery.NewClient(srv.Config())
			if err != nil {
				t.Fatal(err)
			}
			_, err = follow.New(discovery.NewResolver(dc, 0), srv.Client(), ofExample, &tt.options)
			bad := &stream.OptionsError{}
			if errors.As(err, &bad); bad.Field != tt.field || (err == nil) != (tt.field == "") {
				t.Errorf("%s: the error is %v, want one of %q", tt.why, err, tt.field)
			}
			if tt.why == "no prefix" && !strings.Contains(err.Error(), "invalid Prefix: must be set") {
				t.Errorf("%s: the error is %v", tt.why, err)
			}
		}
		bad := &stream.OptionsError{}
		if err := taken.m.Add(s, &mux.SourceOptions{Key: "eu"}); !errors.As(err, &bad) || bad.Field != "Key" {
			t.Errorf("a source with the key eu: %v, want an error of Key", err)
		}
	})
}

// UntilSynced ends the run when all followers are done, and one without it never is.
func TestUntilSyncedOfClusters(t *testing.T) {
	once, ever := follow.Options{UntilSynced: true}, follow.Options{}
	tests := []struct {
		eu, us follow.Options
		script string // of us
		remove bool   // us, after a minute
		ends   time.Duration
		why    string
	}{
		{once, once, "", false, time.Second, "both are synced"},
		{once, once, "any *: 503\nat 30s: heal", false, 40 * time.Second, "one is late"},
		{once, ever, "", false, 0, "one is followed on"},
		{once, ever, "", true, 61 * time.Second, "until it is removed"},
		{ever, ever, "", false, 0, "both are followed on"},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			c := newClusters(t, nil)
			c.add("eu", tt.eu, robots)
			if err := c.add("us", tt.us, robots).Apply(tt.script); err != nil {
				t.Fatal(err)
			}
			c.start(t.Context())
			if tt.remove {
				time.AfterFunc(time.Minute, func() { c.m.Remove("us") })
			}
			select {
			case err := <-c.ended:
				if err != nil || tt.ends == 0 || len(c.lines) != 2 {
					t.Errorf("%s: the run ended with %v after %q", tt.why, err, c.lines)
				}
			case <-time.After(cmp.Or(tt.ends, 3*time.Minute)):
				if tt.ends != 0 {
					t.Errorf("%s: the run goes on after %v", tt.why, tt.ends)
				}
				c.stop()
			}
		})
	}
}

// What ends the run, ends the followers of all clusters: synctest reports a goroutine that is left.
func TestClustersEndTogether(t *testing.T) {
	here := errors.New("here")
	tests := []struct {
		us   follow.Options
		body func(*mux.Mux) // at the first event of eu; nil to leave the loop
		want string
		why  string
	}{
		{follow.Options{}, nil, "", "the loop is left"},
		{follow.Options{}, (*mux.Mux).Stop, "", "Stop"},
		{follow.Options{}, (*mux.Mux).Drain, "", "Drain"},
		{follow.Options{StatusChanged: func(follow.ResourceStatus) { panic(here) }}, func(*mux.Mux) {},
			"follow: Options.StatusChanged for us/robots.example.com: panic: here", "StatusChanged of one panics"},
		{follow.Options{StatusChanged: func(follow.ResourceStatus) { runtime.Goexit() }}, func(*mux.Mux) {},
			"panic: runtime.Goexit ended the goroutine", // of the follower, or that of the source
			"StatusChanged of one ends its goroutine, as t.FailNow does"},
		{follow.Options{Source: func(gvr.Resource) (stream.Options, stream.Run) { panic(here) }}, func(*mux.Mux) {},
			`mux: source "us/robots.example.com" failed: panic: here`, "Source of one panics"},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			c := newClusters(t, nil)
			c.add("eu", follow.Options{}, robots)
			c.add("us", tt.us, robots)
			var last error
			for ev, err := range c.m.Events(t.Context()) {
				if last = err; mux.PrefixOf(ev) != "eu" {
					continue
				}
				if tt.body == nil {
					break
				}
				tt.body(c.m)
			}
			panicked := (*stream.PanicError)(nil)
			if !strings.Contains(fmt.Sprint(last), cmp.Or(tt.want, "<nil>")) ||
				tt.want != "" && !errors.As(last, &panicked) || panicked != nil && panicked.Value == nil {
				t.Errorf("%s: the run ended with %v, want %s", tt.why, last, tt.want)
			}
		})
	}
}

// Each cluster has checkpoints of its own: a Tracker for both would resume one cluster at the versions of the other.
func TestCheckpointsOfClusters(t *testing.T) {
	with := func(tracker *checkpoint.Tracker) follow.Options {
		return follow.Options{Source: watchedWith(stream.Options{}, stream.Run{Checkpoint: tracker})}
	}
	acking := func(c *clusters) *clusters {
		c.do(func(ev stream.Event) { ev.Ack() })
		return c
	}
	t.Run("of its own", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			stores := map[string]*checkpoint.Memory{"eu": {}, "us": {}}
			servers := map[string]*streamtest.Server{}
			for _, prefix := range []string{"eu", "us"} {
				servers[prefix] = streamtest.NewServer(robots)
				servers[prefix].Put(robots, "one", "a")
			}
			want := [][]string{{"eu robots.example.com ADDED one/a@2", "eu robots.example.com SYNCED @2",
				"us robots.example.com ADDED one/a@2", "us robots.example.com SYNCED @2"},
				{"eu robots.example.com SYNCED @2", "us robots.example.com DELETED one/a@3",
					"us robots.example.com SYNCED @2"}}
			for i, want := range want {
				c := acking(newClusters(t, nil))
				var trackers []*checkpoint.Tracker
				for prefix, srv := range servers {
					tracker := scenario.NewTracker(t, stores[prefix])
					trackers = append(trackers, tracker)
					if err := c.followServer(prefix, srv, with(tracker)); err != nil {
						t.Fatal(err)
					}
				}
				c.start(t.Context())
				c.after(5*time.Second, fmt.Sprintf("run %d", i), want...)
				c.stop()
				for _, tracker := range trackers {
					if err := tracker.Close(); err != nil {
						t.Error(err)
					}
				}
				_, _ = servers["us"].Delete(robots, "one", "a")
			}
		})
	})
	t.Run("one for both", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := acking(newClusters(t, &mux.Options{OnError: func(key string, err error) mux.Decision {
				bad := &stream.OptionsError{}
				if errors.As(err, &bad); bad.Field != "Source.Checkpoint" {
					t.Errorf("%s: the error is %v, want one of Source.Checkpoint", key, err)
				}
				return mux.Drop
			}}))
			tracker := scenario.NewTracker(t, &checkpoint.Memory{})
			defer tracker.Close()
			c.add("eu", with(tracker), robots, rovers)
			c.start(t.Context())
			c.after(3*time.Second, "the first one to use it", "eu robots.example.com SYNCED @1",
				"eu rovers.example.com SYNCED @1")
			c.add("us", with(tracker), robots, planets)
			c.after(3*time.Second, "the other one is refused, even where the keys do not collide")
			if st := c.follow["us"].Status().Resources; len(st) != 1 || st[0].State != follow.Dropped {
				t.Errorf("the status is %+v, want Dropped", st)
			}
			c.m.Remove("us")
			c.m.Remove("eu")
			c.add("us", with(tracker), planets, kindOf("asteroids", "example.com", "v1", true))
			c.after(3*time.Second, "it is free again", "us asteroids.example.com SYNCED @1")
			c.stop()
		})
	})
}

// All sources of all clusters take turns, and share what bounds them.
func TestClustersShareOneQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClusters(t, &mux.Options{BufferBytes: 1, ConcurrentSnapshots: 1})
		eu, us := c.add("eu", follow.Options{}, robots, rovers), c.add("us", follow.Options{}, robots)
		const slow = "any *: slow 2s\nat 1m: heal"
		if err := cmp.Or(eu.Apply(slow), us.Apply(slow)); err != nil {
			t.Fatal(err)
		}
		block := make(chan bool)
		c.start(t.Context())
		time.Sleep(2 * time.Minute)
		var snapshots []time.Time
		for _, srv := range c.servers {
			for _, r := range srv.Requests() {
				if strings.Contains(r.Resource, "example.com") && r.SendInitialEvents {
					snapshots = append(snapshots, r.At)
				}
			}
		}
		slices.SortFunc(snapshots, time.Time.Compare)
		for i := 1; i < 3; i++ {
			if d := snapshots[i].Sub(snapshots[i-1]); d < 2*time.Second {
				t.Errorf("snapshot %d began %v after the one before, which takes two seconds", i, d)
			}
		}
		c.do(func(stream.Event) { <-block })
		for i := range 100 {
			eu.Put(robots, "one", fmt.Sprint("a", i))
		}
		time.Sleep(10 * time.Second)
		us.Put(robots, "one", "b")
		time.Sleep(10 * time.Second)
		// The loop has the first event; the queue has one of each source, and each source one that waits.
		if st := c.m.Status(); st.Queued != 3 {
			t.Errorf("%d events wait: %+v, want 3", st.Queued, st)
		}
		c.mu.Lock()
		seen := len(c.events)
		c.mu.Unlock()
		block <- true
		block <- true
		synctest.Wait()
		c.mu.Lock()
		next := fmt.Sprint(mux.PrefixOf(c.events[seen]), mux.PrefixOf(c.events[seen+1]))
		c.mu.Unlock()
		if !strings.Contains(next, "us") {
			t.Errorf("after 100 events of one cluster, the next two are of %s", next)
		}
		close(block)
		time.Sleep(time.Minute)
		c.stop()
	})
}

// A target of package condition is the object of that name in each cluster where it exists.
func TestConditionOverClusters(t *testing.T) {
	tests := []struct {
		script string   // of us
		ready  []string // the clusters where the object becomes ready after a minute
		met    bool
		why    string
	}{
		{"", []string{"eu", "us"}, true, "in both"},
		{"", []string{"eu"}, false, "it exists in the other one, too"},
		{"any *: hang", []string{"eu"}, true, "the other one has never answered"},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			c := newClusters(t, nil)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
			defer cancel()
			for _, prefix := range []string{"eu", "us"} {
				c.add(prefix, follow.Options{}, robots).Put(robots, "one", "a", "status.phase=Waiting")
			}
			if err := c.servers["us"].Apply(tt.script); err != nil {
				t.Fatal(err)
			}
			time.AfterFunc(time.Minute, func() {
				for _, prefix := range tt.ready {
					c.servers[prefix].Put(robots, "one", "a", "status.phase=Ready")
				}
			})
			target := condition.Target{
				For:      condition.MustParse("jsonpath=.status.phase=Ready"),
				Resource: robots.GroupResource().String(), Namespace: "one", Name: "a",
			}
			if err := condition.Wait(ctx, c.m, target); (err == nil) != tt.met {
				t.Errorf("%s: Wait returns %v, want met: %t", tt.why, err, tt.met)
			}
		})
	}
}
