package e2e

import (
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/gvrwatch/gvrwatch/examples/devserver"
	"github.com/gvrwatch/gvrwatch/mux/follow"
	"github.com/gvrwatch/gvrwatch/stream"
)

// maxRightsDelay is how soon Follow must notice a change of rights.
const maxRightsDelay = 15 * time.Second

// permissions says what the limited user may list and watch. Tests change it while they run.
type permissions struct {
	mu         sync.Mutex
	cluster    bool
	namespaces []string
	crds       bool     // CRDs too
	denied     []string // resources that are forbidden in all namespaces
}

func (g *permissions) allow(a authorizer.Attributes) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case !a.IsResourceRequest():
		return true // discovery is always allowed
	case slices.Contains(g.denied, a.GetResource()):
		return false
	case a.GetResource() == "customresourcedefinitions":
		return g.crds
	}
	return g.cluster || slices.Contains(g.namespaces, a.GetNamespace())
}

func (g *permissions) set(cluster bool, namespaces ...string) time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cluster, g.namespaces = cluster, namespaces
	return time.Now()
}

// deny forbids resources in all namespaces, instead of those that it forbade before.
func (g *permissions) deny(resources ...string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.denied = resources
}

func TestFollowRightsChange(t *testing.T) {
	t.Parallel()
	// An open watch goes on after its right is revoked, so these tests use watches that end after a second.
	for _, test := range []struct {
		why  string
		crds bool
	}{
		{"with the right to watch CRDs, their events refresh discovery", true},
		{"without it, Follow polls", false},
	} {
		t.Run(test.why, func(t *testing.T) {
			t.Parallel()
			switchRights(t, test.crds)
		})
	}
}

func switchRights(t *testing.T, crds bool) {
	rights := &permissions{cluster: true, crds: crds}
	srv := startServer(t, &devserver.Options{Allow: rights.allow})
	crd := devserver.CRD{Group: unique("rights") + ".example.com", Kind: "Thing", Namespaced: true}
	all := []string{"a", "b", "c", "d"}
	s := startWorkload(t, srv, crd, all...)
	sel := follow.Selection{Resources: []string{s.source}, CandidateNamespaces: all}
	f := followOn(t, srv.LimitedConfig(), sel, &follow.Options{
		Source: shortWatches,
	})
	f.awaitSynced(s.source, 0)
	s.writer.start(25)
	s.awaitVersion(f, "v1")
	for _, step := range []struct {
		why        string
		cluster    bool
		namespaces []string
	}{
		{"two namespaces instead of the cluster", false, []string{"a", "b"}},
		{"one more namespace", false, []string{"a", "b", "c"}},
		{"other namespaces", false, []string{"c", "d"}},
		{"one namespace less", false, []string{"d"}},
		{"no rights", false, nil},
		{"a namespace again", false, []string{"a"}},
		{"the cluster", true, nil},
		{"a namespace instead of the cluster", false, []string{"b"}},
		{"the cluster again", true, nil},
	} {
		since := rights.set(step.cluster, step.namespaces...)
		want := follow.Forbidden
		if step.cluster {
			want = follow.Watching
		}
		var took time.Duration
		if step.cluster || len(step.namespaces) > 0 {
			took = f.awaitState(s.source, want, step.namespaces...).at.Sub(since)
		} else {
			f.awaitQuiet(s)
			took = time.Since(since)
		}
		t.Logf("%s: %v %v after %v", step.why, want, step.namespaces, took)
		if took > maxRightsDelay {
			t.Errorf("%s: Follow took %v, want at most %v", step.why, took, maxRightsDelay)
		}
		s.writer.await(12)
	}
	s.finish(true, map[string]*follower{"Follow": f})
	checkScopeGaps(t, f.eventsOf(s.source))
}

// checkScopeGaps checks that every GAP has the reason GapScope: no version expires in these tests.
func checkScopeGaps(t *testing.T, events []stream.Event) {
	t.Helper()
	for _, ev := range events {
		if ev.Gap != nil && ev.Gap.Reason != stream.GapScope {
			t.Errorf("%s, though no version expired", ev)
		}
	}
}

// awaitQuiet waits until two seconds pass without an event.
func (f *follower) awaitQuiet(s *workload) {
	f.t.Helper()
	before, since := -1, time.Time{}
	if !poll(f.t.Context(), timeout, func() bool {
		if n := len(f.eventsOf(s.source)); n != before {
			before, since = n, time.Now()
		}
		return time.Since(since) > 2*time.Second
	}) {
		f.t.Fatal("Follow still delivers events without any rights")
	}
}
