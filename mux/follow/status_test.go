package follow_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/gvrwatch/gvrwatch/checkpoint"
	"github.com/gvrwatch/gvrwatch/discovery"
	"github.com/gvrwatch/gvrwatch/mux"
	"github.com/gvrwatch/gvrwatch/mux/follow"
	"github.com/gvrwatch/gvrwatch/stream"
	"github.com/gvrwatch/gvrwatch/stream/streamtest"
)

func TestLossOfTheLastNamespaceIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(robots, spaces)
		srv.Put(spaces, "", "one")
		f := newFollower(t, srv, follow.Selection{Resources: []string{"robots"}}, nil)
		f.do("robots forbid all", "robots allow all in one")
		f.start(t.Context())
		time.Sleep(10 * time.Second)
		f.do("robots forbid all", "robots close watches")
		time.Sleep(30 * time.Second)
		want := []string{"robots.example.com Forbidden", "robots.example.com Forbidden one",
			"robots.example.com Forbidden"}
		f.mu.Lock()
		got := slices.Clone(f.states)
		f.mu.Unlock()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the last state has no namespaces (-want +got):\n%s", diff)
		}
		for _, one := range f.m.Status().Resources {
			if len(one.Namespaces) > 0 || !apierrors.IsForbidden(one.Cause) {
				t.Errorf("the Status has the namespaces %q and the cause %v", one.Namespaces, one.Cause)
			}
		}
		f.stop()
	})
}

func TestUntilSyncedDeliversChangesSinceTheCheckpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := streamtest.NewServer(robots, planets)
		store := &checkpoint.Memory{}
		run := func(why string, want ...string) {
			t.Helper()
			tracker, err := checkpoint.NewTracker(store,
				&checkpoint.Options{Cluster: checkpoint.Cluster{Address: "https://test"}})
			if err != nil {
				t.Fatal(err)
			}
			f := newFollower(t, srv, follow.Selection{Resources: []string{"*"}}, &follow.Options{
				UntilSynced: true,
				Source:      watchedWith(stream.Options{}, stream.Run{Checkpoint: tracker}),
			})
			var got []string
			for ev, err := range f.m.Events(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, mux.SourceOf(ev)+" "+ev.String())
				ev.Ack()
			}
			if err := tracker.Close(); err != nil {
				t.Fatal(err)
			}
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", why, diff)
			}
		}
		srv.Put(robots, "one", "a")
		srv.Put(planets, "", "mars")
		run("the first run delivers everything", "planets.space.io ADDED mars@3", "planets.space.io SYNCED @3",
			"robots.example.com ADDED one/a@2", "robots.example.com SYNCED @3")
		srv.Put(robots, "one", "b")
		srv.Put(planets, "", "venus")
		run("changes since the first run come before SYNCED", "planets.space.io ADDED venus@5 inferred",
			"planets.space.io SYNCED @5", "robots.example.com ADDED one/b@4 inferred", "robots.example.com SYNCED @5")
	})
}

func TestNewRefusesNil(t *testing.T) {
	client := streamtest.NewServer(robots).Client()
	all := follow.Selection{Resources: []string{"*"}}
	var bad *stream.OptionsError
	if _, err := follow.New(nil, client, all, nil); !errors.As(err, &bad) || bad.Field != "resolver" {
		t.Errorf("without a resolver: %v", err)
	}
	if _, err := follow.New(&discovery.Resolver{}, nil, all, nil); !errors.As(err, &bad) || bad.Field != "client" {
		t.Errorf("without a client: %v", err)
	}
}

func TestSelectsChecksPatternsNotNames(t *testing.T) {
	if yes, err := (follow.Selection{Resources: []string{"*.example.com"}}).Selects(robots); !yes || err != nil {
		t.Errorf("a pattern: %v, %v", yes, err)
	}
	if yes, err := (follow.Selection{Resources: []string{"robots"}}).Selects(robots); yes || err != nil {
		t.Errorf("a name: %v, %v", yes, err)
	}
	var bad *stream.OptionsError
	if yes, err := (follow.Selection{Resources: []string{"*", "[*"}}).Selects(robots); yes || !errors.As(err, &bad) {
		t.Errorf("an invalid pattern: %v, %v", yes, err)
	}
}
